"""The address that clients post to: takes a request, finds its backend, delivers the answer.

An ASGI application of its own inside Litestar: on this path every microsecond counts, and the
client's bytes go to the core as they are.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial

import httpx
from litestar.enums import ScopeType
from litestar.types import Receive, Scope, Send
from msgspec import Raw

from adapters import DragomanError, Exchange, ReplyOptions, dialect
from adapters.ir.types import Family
from gateway import statuses
from gateway.api.stored_completions import PendingCompletion, read_deposit, without_store
from gateway.backends.client import BackendClient, read_refusal, rejects_encrypted_reasoning
from gateway.backends.routing import Route
from gateway.compaction.beforehand import ask_aside
from gateway.compaction.managing import GeneratedSummary
from gateway.compaction.wording import Wording, speaks_of_summaries
from gateway.context import AppContext
from gateway.errors import (
    BackendUnreachableError,
    ClientDisconnectedError,
    InternalError,
    ShuttingDownError,
)
from gateway.grammar_check import check_inputs
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import backend_headers, read_headers
from gateway.http.monitor import ExchangeMonitor
from gateway.http.request_body import read_body
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.delivery import Delivery
from gateway.pipeline.depositing import CompletionNotary
from gateway.pipeline.gathering import Gathering
from gateway.pipeline.hearing import stream_of
from gateway.pipeline.notary import Notary
from gateway.pipeline.parties import Parties
from gateway.pipeline.request import RequestSummary, outline
from gateway.turns.turn import Turn, UnstoredResponses

# So much of a model's name is logged; clients choose it freely.
_LONGEST_NAME = 200


class Front:
    """Answers the requests of one address."""

    def __init__(self, family: Family, desk: AppContext) -> None:
        self._family: Family = family
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != ScopeType.HTTP:
            raise TypeError("only HTTP is spoken at this address")
        record = ExchangeRecord(scope["path"])
        client = ClientConnection(read_headers(scope["headers"]), receive, send, record)
        await attend(self._desk, record, Visit(self._desk, self._family, client, record).run())


async def attend(
    desk: AppContext, record: ExchangeRecord, work: Coroutine[None, None, None]
) -> None:
    """Do all that is to be done for a client, and tell of it in the end."""
    try:
        await work
    except ClientDisconnectedError:
        record.outcome = "client_disconnected"
        record.status = record.status or statuses.CLIENT_GONE
    finally:
        desk.record_exchange(record)


async def take_request(
    desk: AppContext, client: ClientConnection, record: ExchangeRecord
) -> tuple[Principal, bytes]:
    """Let a client in; give who it is, and what it sends."""
    caller = desk.gatekeeper.authenticate(client.headers)
    record.key_name = caller.name
    limit = desk.config.server.max_body_bytes
    return caller, await read_body(client.receive, client.headers, limit)


class Visit:
    """One request, from its coming to the end of its answer."""

    def __init__(
        self,
        desk: AppContext,
        family: Family,
        client: ClientConnection,
        record: ExchangeRecord,
        nearby: UnstoredResponses | None = None,
    ) -> None:
        self._desk = desk
        self._nearby = nearby
        self._family: Family = family
        self._client = client
        self._record = record
        # The request, until a backend has begun to answer it.
        self._words = Wording(b"", None, None, desk.mint)
        # What is asked of the memory, and whether the answer is to be kept here.
        self._plan: Turn | None = None
        self._keeps = False
        # A completion that is to be kept here, for a Chat client that wants that.
        self._deposit: PendingCompletion | None = None
        # There once a backend has begun to answer.
        self._delivery: Delivery | None = None

    async def run(self) -> None:
        """Let the client in, take its request, and serve it."""
        await self.attempt(self._receive())

    async def serve(self, caller: Principal, body: bytes, plan: Turn | None = None) -> None:
        """Serve a request that is there already; who gives a plan keeps the answer too."""
        self._record.key_name = caller.name
        self._plan = plan
        await self.attempt(self._serve(caller, body))

    async def attempt(self, work: Coroutine[None, None, None]) -> None:
        """Do something; whatever goes wrong, the client is told in its own words."""
        try:
            await work
        except DragomanError as problem:
            await self._fail(problem)
        except asyncio.CancelledError:
            # The server stops and has waited long enough.
            await self._tell_of_stop()
        except ClientDisconnectedError:
            raise
        except Exception:  # noqa: BLE001 - the last resort: whatever it is, the client is told
            LOG.exception("internal error", path=self._record.path)
            await self._fail(InternalError(None, "the gateway failed; its log says why"))

    async def _tell_of_stop(self) -> None:
        try:
            await self._fail(ShuttingDownError(None, "the gateway is stopping"))
        except asyncio.CancelledError:
            # A client that does not read is not told anything.
            raise ClientDisconnectedError from None

    async def _fail(self, problem: DragomanError) -> None:
        self._record.note_error(problem.code)
        try:
            if self._delivery is not None:
                await self._delivery.fail(problem)
            elif not self._client.begun:
                await self._client.send_error(problem)
        except DragomanError as worse:
            # What has to be kept of a failure cannot be kept, say.
            if self._client.begun:
                raise
            self._record.note_error(worse.code)
            await self._client.send_error(worse)

    async def _receive(self) -> None:
        await self._serve(*await take_request(self._desk, self._client, self._record))

    async def _serve(self, caller: Principal, body: bytes) -> None:
        desk, record = self._desk, self._record
        if desk.config.logging.bodies:
            record.request_body = body
        if self._family == "responses" and self._plan is None:
            self._plan = await desk.ledger.begin(caller, body, self._nearby)
            self._keeps = self._plan is not None
        body = body if self._plan is None else self._plan.body
        seen = outline(body, self._family)
        record.client_dialect, record.model = seen.dialect, seen.model[:_LONGEST_NAME]
        if self._keeps and self._plan is not None and self._plan.background:
            # What no backend serves need not be queued first.
            desk.router.find(seen.model)
            record.stream = self._plan.stream
            await desk.background.accept(caller, self._plan, self._client)
            return
        if seen.store:
            self._deposit = read_deposit(caller.owner, body, desk.mint)
        await self._word(body, caller, seen)
        async with ExchangeMonitor(
            self._client.receive, desk.config.server.heartbeat_interval
        ) as watch:
            await self._carry(watch, caller, seen)

    async def _word(self, body: bytes, caller: Principal, seen: RequestSummary) -> None:
        """Make the request ready; a conversation that is too long is summed up first."""
        desk = self._desk
        knows = self._family == "responses" and speaks_of_summaries(body)
        seal = desk.sealer.summary_sealer(caller.owner) if knows else None
        self._words = Wording(body, self._plan, seal, desk.mint)
        if not knows:
            return

        async def ask(asking: bytes) -> GeneratedSummary | None:
            return await ask_aside(asking, caller, self._client, self._aside, desk.record_exchange)

        first = desk.router.find(seen.model)[0].backend
        await self._words.manage(first, desk.config.loss_policy, ask)

    def _aside(self, client: ClientConnection, record: ExchangeRecord) -> "Visit":
        return Visit(self._desk, "responses", client, record)

    async def _carry(self, watch: ExchangeMonitor, caller: Principal, seen: RequestSummary) -> None:
        """Carry the request to the first backend that can be reached, and its answer back."""
        *first, last = self._desk.router.find(seen.model)
        for route in first:
            try:
                await self._take(route, watch, caller, seen)
            except BackendUnreachableError as problem:
                LOG.warning(
                    "backend unreachable, trying the next one",
                    backend=route.backend.name,
                    model=self._record.model,
                    error=problem.why,
                )
            else:
                return
        await self._take(last, watch, caller, seen)

    async def _take(
        self, route: Route, watch: ExchangeMonitor, caller: Principal, seen: RequestSummary
    ) -> None:
        """Take one route."""
        upstream, record = route.backend, self._record
        record.backend, record.backend_dialect = upstream.name, upstream.dialect.name
        record.redact = upstream.redact
        self._words.speak(upstream)
        exchange = self._exchange(route, caller, seen)
        response = await self._ask(exchange, route, watch, caller)
        if exchange.asks_for_seals and response.status_code == statuses.BAD_REQUEST:
            watch.expect_more()
            response = await read_refusal(response)
            if rejects_encrypted_reasoning(response.content):
                upstream.note_refusal(seen.model, response.content)
                exchange = self._exchange(route, caller, seen, seals=False)
                response = await self._ask(exchange, route, watch, caller)
        parties = Parties(
            exchange,
            losses=tuple(record.losses),
            client=self._client,
            watch=watch,
            upstream=upstream,
            record=record,
            judge=lambda: check_inputs(exchange.custom_inputs),
            notary=self._notary(exchange, upstream, caller, seen),
        )
        self._delivery = Delivery(parties)
        self._words.forget()
        await self._deliver(self._delivery, response)

    async def _ask(
        self, exchange: Exchange, route: Route, watch: ExchangeMonitor, caller: Principal
    ) -> httpx.Response:
        """Send the request; what was kept for the client goes with it."""
        upstream, record, body = route.backend, self._record, self._words.spoken.body
        if self._deposit is not None:
            body = without_store(
                body, upstream.dialect.family, upstream.capabilities.unsupported_fields
            )
        try:
            names = exchange.recall(body)
            notes = self._desk.store.reasoning_notes
            kept = await notes.find(_scope(upstream, caller), names) if names else None
            sent = exchange.request(body, model=route.model, kept=kept)
        except DragomanError as problem:
            raise self._words.placed(problem) from None
        record.losses = self._words.losses(sent.losses)
        headers = backend_headers(self._client.headers | self._desk.trace(record))
        headers += upstream.authorization(caller)
        return await upstream.post(sent.body, headers, watch, streams=exchange.backend_streams)

    def _notary(
        self, exchange: Exchange, upstream: BackendClient, caller: Principal, seen: RequestSummary
    ) -> Notary:
        """Say who keeps what of an answer."""
        desk, deposit = self._desk, self._deposit

        async def keep() -> None:
            await desk.store.reasoning_notes.save(_scope(upstream, caller), exchange.kept)

        keep_notes = None if self._keeps_nothing(exchange) else keep
        if deposit is None:
            return Notary(exchange, keep_notes, self._keep if self._keeps else None)
        gathering = None
        if exchange.client_streams:
            own, reply_options = dialect(seen.dialect), self._reply_options(caller)
            body = self._words.spoken.body
            gathering = Gathering(own, body, mint=desk.mint, reply_options=reply_options)
        keep_completion = partial(deposit.keep, desk.store, desk.mint)
        return CompletionNotary(exchange, keep_notes, keep_completion, gathering)

    def _keeps_nothing(self, exchange: Exchange) -> bool:
        """Tell whether a client wants nothing to be kept; those of Chat have to say so."""
        if self._family == "responses":
            return self._plan is None or not self._plan.store
        return exchange.asked.store is False

    async def _keep(self, response: Raw) -> None:
        """Keep a finished response, wherever it is to be kept."""
        if self._plan is None:
            return
        if self._plan.store:
            await self._desk.ledger.save(self._plan, response)
        elif self._nearby is not None:
            self._nearby.remember(self._plan, response)

    def _exchange(
        self, route: Route, caller: Principal, seen: RequestSummary, *, seals: bool = True
    ) -> Exchange:
        config, upstream = self._desk.config, route.backend
        seals = seals and not upstream.lacks_encrypted_reasoning(seen.model)
        return Exchange(
            dialect(seen.dialect),
            upstream.dialect,
            mint=self._desk.mint,
            capabilities=self._words.spoken.capabilities(upstream),
            reply_options=self._reply_options(caller),
            policy=config.loss_policy,
            rewrite=upstream.rewrite,
            seal=self._desk.sealer.reasoning_sealer(upstream.name) if seals else None,
            stamp=self._plan.stamp if self._plan else None,
            reshape=self._words.reshape,
            redact=upstream.redact,
        )

    def _reply_options(self, caller: Principal) -> ReplyOptions:
        """Say how a client wants to be told things."""
        own = caller.key.replies if caller.key else None
        return own or self._desk.config.replies

    async def _deliver(self, delivery: Delivery, response: httpx.Response) -> None:
        try:
            await delivery.run(response)
        finally:
            # One that is read to its end leaves its connection for others; any other closes it.
            await stream_of(response).aclose()


def _scope(upstream: BackendClient, caller: Principal) -> str:
    """Say for whom something is kept: one client at one backend."""
    return f"{upstream.name} {caller.owner}"
