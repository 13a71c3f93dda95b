"""The endpoint that summarizes a conversation.

A backend with the same endpoint makes the summary. Otherwise the pipeline serves a request whose
last item is a compaction trigger.
"""

from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import Raw, Struct

from adapters import InvalidReplyError, InvalidRequestError, RequestBody, parse_body
from adapters.errors import missing_field
from adapters.responses import RESPONSES
from adapters.responses.request_reader import input_items
from adapters.responses.wire import read_usage
from adapters.wire.json_object import MISSING, read_body
from gateway.api.common import pipeline_app
from gateway.backends.client import UNSUPPORTED_PATH_STATUSES, SideResponse
from gateway.backends.routing import Route
from gateway.compaction.summary import COMPACTION
from gateway.compaction.summary_request import (
    accepts_foreign_summaries,
    compacts_natively,
    nothing_to_compact,
    without_tool_declarations,
)
from gateway.compaction.window import TRIGGER_ITEM, Window, head_of, read_window
from gateway.context import AppContext, CurrentContext
from gateway.errors import BackendUnreachableError, write_error_body
from gateway.http.auth import Principal
from gateway.http.headers import JSON, Headers
from gateway.http.monitor import ExchangeMonitor
from gateway.http.request_body import ParsedRequest, parse_request
from gateway.http.sinks import BufferSink, ReplySink
from gateway.openapi.document import BACKEND_ERRORS, TranslatedOperation, request_body, responses
from gateway.openapi.objects import CompactReply, CompactRequest
from gateway.pipeline.handler import CreateRequest, handle_create, receive_request, report_errors
from gateway.turns.items import to_stored_item
from gateway.turns.turn import Turn

# The path of the endpoint, in the gateway and at backends.
_PATH: Final = "/responses/compact"
_ENCODER: Final = msgspec.json.Encoder()
_FALSE: Final = Raw(b"false")


class _Compaction(Struct, frozen=True):
    """A request for a summary, with the items to summarize and the route to the backend."""

    request: ParsedRequest
    turn: Turn | None
    window: Window
    route: Route


def compaction_handlers(current: CurrentContext) -> Sequence[HTTPRouteHandler]:
    """Return the handler of the compaction endpoint."""
    reply = pipeline_app(current, compact_conversation)

    @post(
        _PATH,
        status_code=200,
        tags=("Responses",),
        operation_id="compactResponse",
        summary="Summarize a conversation",
        operation_class=TranslatedOperation,
        dependencies=request_body(CompactRequest),
        responses=responses(CompactReply, "The summarized conversation.", BACKEND_ERRORS),
    )
    async def compact() -> ASGIApp:
        """Summarize a conversation."""
        return reply

    return [compact]


async def compact_conversation(app: AppContext, sink: ReplySink) -> None:
    """Serve one request for a summary."""
    principal, body = await receive_request(app, sink)
    compaction = await _read(app, principal, parse_body(body))
    backend = compaction.route.backend
    # The endpoint of the backend would receive the items without the changes of transforms.
    has_endpoint = compacts_natively(backend) and not backend.transforms
    if has_endpoint and await _compact_natively(sink, principal, compaction):
        return
    buffer = BufferSink(sink.headers, sink.receive, sink.record)
    request = CreateRequest(RESPONSES.path, principal, compaction.request.body, compaction.turn)
    await report_errors(app, buffer, handle_create(app, request, buffer))
    user_messages = [
        to_stored_item(item.raw, app.ids, item.path).body
        for item in compaction.window.items
        if item.is_user_message
    ]
    await _send_compacted(buffer, user_messages, sink)


async def _read(app: AppContext, principal: Principal, body: RequestBody) -> _Compaction:
    """Load the items to summarize; raise `InvalidRequestError` if there are none."""
    request = parse_request(_with_trigger(body), RESPONSES.path)
    route = app.router.find(request.model)[0]
    turn = await app.turns.begin(principal, request)
    request = request if turn is None else turn.request
    sealer = app.sealing_keys.summary_sealer(principal.owner)
    keep_foreign = accepts_foreign_summaries(route.backend)
    window = read_window(request.body, sealer, keep_foreign=keep_foreign)
    if not without_tool_declarations(window).items:
        raise nothing_to_compact()
    return _Compaction(request, turn, window, route)


def _with_trigger(body: RequestBody) -> RequestBody:
    """Return the request for a summary that is not stored as a response."""
    fields = body.reader()
    if not fields.string("model"):
        # Required, because the model of the history may be another one.
        raise missing_field("model")
    for name in ("stream", "background"):
        if fields.boolean(name):
            raise InvalidRequestError(name, "is not supported by this endpoint")
    items = [*(item.raw for item in input_items(body)), TRIGGER_ITEM]
    given = Raw(_ENCODER.encode(items))
    return RequestBody(body.fields | {"input": given, "store": _FALSE})


async def _compact_natively(sink: ReplySink, principal: Principal, compaction: _Compaction) -> bool:
    """Forward the backend's summary; return False if it does not have the endpoint."""
    backend, record, request = compaction.route.backend, sink.record, compaction.request
    record.backend, record.backend_dialect = backend.name, backend.dialect.name
    record.client_dialect, record.model = RESPONSES.name, request.model
    record.redact = backend.redact
    fields = {name: raw for name, raw in request.body.fields.items() if name != "store"}
    body = RequestBody(fields, compaction.window.input_items())
    model = compaction.route.model or request.model
    with suppress(BackendUnreachableError):
        async with ExchangeMonitor(sink.receive, 0) as monitor:
            headers = backend.request_headers(sink.headers, principal)
            response = await backend.post_side_request(
                _PATH, body.encode(model=model), headers, monitor
            )
        if response.status not in UNSUPPORTED_PATH_STATUSES:
            await _forward_response(response, sink)
            return True
    return False


async def _forward_response(response: SideResponse, sink: ReplySink) -> None:
    if response.status >= HTTPStatus.BAD_REQUEST:
        sink.record.note_error(None)
    else:
        with suppress(InvalidRequestError):
            sink.record.usage = read_usage(read_body(response.body).nested("usage"))
    await sink.send_response(response.status, [*JSON, *response.headers], response.body)


class _Response(Struct):
    id: str = ""
    created_at: float = 0
    output: list[Raw] = []
    usage: Raw = MISSING


class _Compacted(Struct, frozen=True):
    id: str
    created_at: int
    output: list[Raw]
    usage: Raw
    object: str = "response.compaction"


_RESPONSE: Final = msgspec.json.Decoder(_Response)


async def _send_compacted(buffer: BufferSink, messages: list[Raw], sink: ReplySink) -> None:
    """Send the unchanged messages of users, followed by the summary of all other items."""
    status, body = buffer.status, buffer.body
    if status == HTTPStatus.OK:
        response = _RESPONSE.decode(body)
        summaries = [raw for raw in response.output if head_of(raw).type == COMPACTION]
        output = [*messages, *summaries]
        if summaries:
            body = _ENCODER.encode(
                _Compacted(response.id, int(response.created_at), output, response.usage)
            )
        else:
            error = InvalidReplyError(None, "the backend returned no summary")
            status, body = error.status, write_error_body(error)
    headers: Headers = [one for one in buffer.response_headers if one[0] != b"content-length"]
    await sink.send_response(status, headers, body)
