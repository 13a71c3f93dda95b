"""Where clients ask how many tokens a request would have."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import Struct

from adapters import DragomanError
from adapters.wire.json_object import read_body
from gateway import statuses
from gateway.backends.client import SideRequest
from gateway.compaction.wording import Wording
from gateway.context import AppContext
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import JSON, read_headers
from gateway.http.monitor import ExchangeMonitor
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.openapi.objects import InputTokensReply, InputTokensRequest
from gateway.openapi.operations import BODY_ERRORS, request_body, responses
from gateway.pipeline.handler import Visit, attend, take_request
from gateway.pipeline.request import outline
from gateway.token_counting import CountableRequest, TokenCount, count_locally, count_on_backend

# A backend that takes longer to count is not waited for: there is another way.
_PATIENCE: Final = 10.0
_HEADER: Final = b"dragoman-token-count-source"


class _Tokens(Struct, frozen=True):
    input_tokens: int
    object: str = "response.input_tokens"


def counting_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    """Give the address where tokens are counted."""
    front = CountFront(desk)

    @post(
        "/responses/input_tokens",
        status_code=200,
        tags=("Responses",),
        operation_id="countInputTokens",
        summary="Count the input tokens of a request",
        dependencies=request_body(InputTokensRequest),
        responses=responses(
            InputTokensReply,
            "The number of tokens. The header `dragoman-token-count-source` tells how they were "
            "counted: `backend`, `tiktoken` or `estimate`.",
            BODY_ERRORS,
        ),
    )
    async def count_tokens() -> ASGIApp:
        """Count the tokens of a request."""
        return front

    return [count_tokens]


class CountFront:
    """Answers the requests of this address."""

    def __init__(self, desk: AppContext) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        record = ExchangeRecord(scope["path"])
        client = ClientConnection(read_headers(scope["headers"]), receive, send, record)
        visit = Visit(self._desk, "responses", client, record)
        await attend(self._desk, record, visit.attempt(self._serve(client, record)))

    async def _serve(self, client: ClientConnection, record: ExchangeRecord) -> None:
        desk = self._desk
        caller, body = await take_request(desk, client, record)
        written = await self._written(caller, body, record)
        counted = await self._count(written, caller, client)
        answer = msgspec.json.encode(_Tokens(counted.tokens))
        await client.send_response(
            statuses.WHOLE, [*JSON, (_HEADER, counted.source.encode())], answer
        )

    async def _written(
        self, caller: Principal, body: bytes, record: ExchangeRecord
    ) -> CountableRequest:
        """Find what the request stands on, and the backend that would get it."""
        desk = self._desk
        # Nothing is stored, whatever the default is, and nothing runs in the background.
        fields = read_body(body)
        fields.raw("background")
        body = fields.encode_with(store=False)
        plan = await desk.ledger.begin(caller, body)
        body = body if plan is None else plan.body
        seen = outline(body, "responses")
        route = desk.router.find(seen.model)[0]
        upstream = route.backend
        record.client_dialect, record.model = seen.dialect, seen.model
        record.backend, record.backend_dialect = upstream.name, upstream.dialect.name
        record.redact = upstream.redact
        words = Wording(body, plan, desk.sealer.summary_sealer(caller.owner), desk.mint)
        words.speak(upstream)
        seal = desk.sealer.reasoning_sealer(upstream.name)
        return CountableRequest(words.spoken.body, route, desk.mint, desk.config.loss_policy, seal)

    async def _count(
        self, written: CountableRequest, caller: Principal, client: ClientConnection
    ) -> TokenCount:
        """Have the backend count, or else do it here."""
        upstream = written.route.backend
        # What cannot be said to the backend cannot be counted either.
        body = written.write()
        try:
            async with asyncio.timeout(_PATIENCE), ExchangeMonitor(client.receive, 0) as watch:
                there = await count_on_backend(
                    written, SideRequest(upstream, caller, client, watch)
                )
        except (DragomanError, TimeoutError) as problem:
            LOG.warning("backend did not count tokens", backend=upstream.name, error=str(problem))
            there = None
        return await count_locally(body) if there is None else TokenCount(there, "backend")
