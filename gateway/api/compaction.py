"""Where clients have a conversation summed up: by the backend itself, or with an answer of its.

The summary is asked for as any answer is, by a request whose last item is the trigger: so routing,
retries, errors, losses, log and metrics are those of every request.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import Struct

from adapters import DragomanError, InvalidRequestError, Sealer
from adapters.wire.json_object import read_body
from gateway import statuses
from gateway.backends.client import UNSUPPORTED_PATH_STATUSES, SideRequest, SideResponse
from gateway.backends.routing import Route
from gateway.compaction.reply import compacted, read_summary_usage, user_messages
from gateway.compaction.request import to_sum_up
from gateway.compaction.reshaped import Reshaped
from gateway.compaction.spoken import (
    accepts_foreign_summaries,
    compacts_natively,
    nothing_to_compact,
)
from gateway.compaction.window import TRIGGER_ITEM, Window, message_of_user, read_window
from gateway.context import AppContext
from gateway.errors import BackendUnreachableError
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import JSON, read_headers
from gateway.http.monitor import ExchangeMonitor
from gateway.observability.record import ExchangeRecord
from gateway.openapi.objects import CompactReply, CompactRequest
from gateway.openapi.operations import (
    BACKEND_ERRORS,
    TranslatedOperation,
    request_body,
    responses,
)
from gateway.pipeline.handler import Visit, attend, take_request
from gateway.turns.turn import Turn

# The same here and at backends.
_ADDRESS: Final = "/responses/compact"


class _Asked(Struct, frozen=True):
    """What is to be summed up, with all that it stands on."""

    model: str
    plan: Turn | None
    # With the trigger, as any request for a summary.
    body: bytes
    window: Window
    route: Route


def compaction_handlers(desk: AppContext) -> Sequence[HTTPRouteHandler]:
    """Give the address of compaction."""
    front = CompactFront(desk)

    @post(
        _ADDRESS,
        status_code=200,
        tags=("Responses",),
        operation_id="compactResponse",
        summary="Summarize a conversation",
        operation_class=TranslatedOperation,
        dependencies=request_body(CompactRequest),
        responses=responses(CompactReply, "The summarized conversation.", BACKEND_ERRORS),
    )
    async def compact() -> ASGIApp:
        """Sum up a conversation."""
        return front

    return [compact]


class CompactFront:
    """Answers the requests of this address."""

    def __init__(self, desk: AppContext) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer, record = Reshaped(send), ExchangeRecord(scope["path"])
        client = ClientConnection(read_headers(scope["headers"]), receive, answer.send, record)
        visit = Visit(self._desk, "responses", client, record)
        work = self._serve(visit, client, record, answer)
        await attend(self._desk, record, visit.attempt(work))

    async def _serve(
        self, visit: Visit, client: ClientConnection, record: ExchangeRecord, answer: Reshaped
    ) -> None:
        desk = self._desk
        caller, body = await take_request(desk, client, record)
        asked = await self._read(caller, body)
        if compacts_natively(asked.route.backend) and await self._natively(
            client, record, caller, asked
        ):
            return
        words = user_messages(asked.window.items, desk.mint)
        answer.reshape = lambda response: compacted(response, words)
        await visit.serve(caller, asked.body, asked.plan)

    # The request

    async def _read(self, caller: Principal, body: bytes) -> _Asked:
        """Read what is to be summed up; raise `InvalidInput` if there is nothing."""
        desk, seal = self._desk, self._desk.sealer.summary_sealer(caller.owner)
        model, body = _with_trigger(body)
        route = desk.router.find(model)[0]
        plan = await desk.ledger.begin(caller, body)
        window = _window(body if plan is None else plan.body, plan, seal, route)
        return _Asked(model, plan, body, window, route)

    # Natively

    async def _natively(
        self, client: ClientConnection, record: ExchangeRecord, caller: Principal, asked: _Asked
    ) -> bool:
        """Have the backend do it; False if it cannot be asked so, and may know the trigger."""
        upstream = asked.route.backend
        record.backend, record.backend_dialect = upstream.name, upstream.dialect.name
        record.client_dialect, record.model = "responses", asked.model
        record.redact = upstream.redact
        fields = read_body(asked.body if asked.plan is None else asked.plan.body)
        fields.raw("store")
        body = fields.encode_with(model=asked.route.model or asked.model, input=asked.window.raws)
        with suppress(BackendUnreachableError):
            async with ExchangeMonitor(client.receive, 0) as watch:
                answer = await SideRequest(upstream, caller, client, watch).post(_ADDRESS, body)
            if answer.status not in UNSUPPORTED_PATH_STATUSES:
                await _pass(answer, client, record)
                return True
        return False


async def _pass(answer: SideResponse, client: ClientConnection, record: ExchangeRecord) -> None:
    """Pass on what the backend says, which speaks as the client does."""
    if answer.status >= statuses.ERROR:
        record.note_error(None)
    else:
        record.usage = read_summary_usage(answer.body)
    await client.send_response(answer.status, [*JSON, *answer.headers], answer.body)


def _with_trigger(body: bytes) -> tuple[str, bytes]:
    """Make a request for a response of it: one that is not stored, and is just a summary."""
    fields = read_body(body)
    model, given = fields.string("model"), fields.text_or_raws("input")
    if not model:
        # What was said before may have been said by another.
        raise InvalidRequestError("model", "it is missing")
    for name in ("stream", "background"):
        if fields.boolean(name):
            raise InvalidRequestError(name, "a conversation is summed up whole, and at once")
    if isinstance(given, str):
        given = [message_of_user(given)]
    return model, fields.encode_with(model=model, input=[*(given or ()), TRIGGER_ITEM], store=False)


def _window(body: bytes, plan: Turn | None, seal: Sealer, route: Route) -> Window:
    past = 0 if plan is None else len(plan.history)
    try:
        window = read_window(body, seal, passes=accepts_foreign_summaries(route.backend), past=past)
    except DragomanError as problem:
        path = problem.path if plan is None else plan.client_path(problem.path or "")
        raise type(problem)(path, problem.why, problem.code) from None
    if not to_sum_up(window).items:
        raise nothing_to_compact()
    return window
