"""Serve a create request, from its body to the last byte of its reply."""

import asyncio
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import DragomanError, Loss, RequestBody, TransformError
from adapters.chat import CHAT
from adapters.errors import missing_field
from adapters.responses import RESPONSES
from gateway.compaction.context_management import (
    FIELD,
    GeneratedSummary,
    plan_summary,
    read_context_management,
    summary_failed,
)
from gateway.compaction.summary_request import (
    PreparedRequest,
    accepts_foreign_summaries,
    compacts_natively,
    mentions_compaction,
)
from gateway.compaction.window import Window, read_window
from gateway.context import AppContext
from gateway.errors import ClientDisconnectedError, InternalError, ShuttingDownError
from gateway.http.auth import Principal
from gateway.http.monitor import ExchangeMonitor
from gateway.http.request_body import ParsedRequest, parse_request, read_body
from gateway.http.sinks import BufferSink, ReplySink
from gateway.observability.capture import attributing
from gateway.observability.logging import LOG, log_fault
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.backend_call import PendingRequest, call_backends
from gateway.pipeline.persistence import ConnectionSaver, ResponseSaver, Saver, completion_saver
from gateway.pipeline.reply import StreamSender, fail_reply, forward_chunks, send_end
from gateway.token_counting import count_locally
from gateway.turns.response_cache import ResponseCache
from gateway.turns.turn import Turn

# A limit for logged model names, which clients choose freely.
_MAX_LOGGED_MODEL: Final = 200
# The status that nginx logs if a client disconnects before its reply.
_CLIENT_CLOSED_REQUEST: Final = 499


class CreateRequest(Struct, frozen=True):
    """A create request of an authenticated client."""

    endpoint: str
    principal: Principal
    body: bytes | RequestBody
    # The turn of a caller that saves the reply itself, such as a background job.
    turn: Turn | None = None
    # The responses that the client's WebSocket keeps in memory.
    cache: ResponseCache | None = None


class _Output(Struct):
    output: list[Raw] = []


_OUTPUT: Final = msgspec.json.Decoder(_Output)


async def serve(
    app: AppContext,
    sink: ReplySink,
    work: Coroutine[None, None, None],
    *,
    keeps_bodies: bool = True,
) -> None:
    """Run `work`, which serves one request; send its error and record the exchange.

    Without `keeps_bodies`, the exchange is logged but its bodies are neither logged nor recorded.
    """
    record = sink.record
    try:
        await (report_errors(app, sink, work) if keeps_bodies else _report_errors(sink, work))
    except ClientDisconnectedError:
        record.outcome = "client_disconnected"
        record.status = record.status or _CLIENT_CLOSED_REQUEST
    finally:
        app.record_exchange(record)


async def report_errors(
    app: AppContext, sink: ReplySink, work: Coroutine[None, None, None]
) -> None:
    """Run `work`; if it fails before the reply has started, send the error to the client."""
    if not app.capture_limit:
        await _report_errors(sink, work)
        return
    with attributing(sink.capture(app.capture_limit)):
        await _report_errors(sink, work)


async def _report_errors(sink: ReplySink, work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except DragomanError as error:
        if isinstance(error, TransformError):
            log_fault(error, sink.record.path)
        await _send_error(sink, error)
    except asyncio.CancelledError:
        # The grace period of the shutdown is over.
        try:
            await _send_error(sink, ShuttingDownError(None, "the gateway is shutting down"))
        except asyncio.CancelledError:
            # The error could not be sent, because the client does not read.
            raise ClientDisconnectedError from None
    except ClientDisconnectedError:
        raise
    except Exception:  # noqa: BLE001 - every failure ends with an error for the client
        LOG.exception("internal error", path=sink.record.path)
        await _send_error(sink, InternalError(None, "internal error; see the gateway's log"))


async def _send_error(sink: ReplySink, error: DragomanError) -> None:
    sink.record.note_exception(error)
    if not sink.started:
        await sink.send_error(error)


async def receive_request(app: AppContext, sink: ReplySink) -> tuple[Principal, bytes]:
    """Authenticate a client and read its request body."""
    principal = app.authenticator.authenticate(sink.headers)
    sink.record.key_name = principal.name
    body = await read_body(sink.receive, sink.headers, app.config.server.max_body_bytes)
    if sink.record.capture is not None:
        sink.record.capture.note_request(body)
    return principal, body


async def create(app: AppContext, sink: ReplySink) -> None:
    """Serve a create request that a client sent with POST."""
    # Keep no reference to the body here, so that `handle_create` can release it.
    await handle_create(
        app, CreateRequest(sink.dialect.path, *await receive_request(app, sink)), sink
    )


async def handle_create(app: AppContext, given: CreateRequest, sink: ReplySink) -> None:
    """Serve one create request, from its body to the last byte of its reply."""
    pending = await _prepare(app, given, sink)
    if pending is None:
        return
    prepared = await _manage_context(app, pending)
    saver, exchange, sender, drain = pending.saver, None, None, False
    try:
        try:
            async with ExchangeMonitor(
                sink.receive, app.config.server.heartbeat_interval
            ) as monitor:
                exchange = await call_backends(app, pending, prepared, monitor)
                # Release the body of the request, because a stream may stay open for long.
                del given, pending, prepared
                sender = StreamSender(exchange, sink, monitor)
                drain = await forward_chunks(exchange, sender, monitor)
            end = exchange.reply.finish(started=sink.started)
        except (Exception, asyncio.CancelledError) as error:
            if exchange is None or sender is None or isinstance(error, ClientDisconnectedError):
                raise
            end = fail_reply(exchange, error, sink)
        await send_end(app, exchange, end, saver, sender, drain=drain)
    finally:
        if exchange is not None:
            # Return the connection to the pool, or close it if the response is not complete.
            await exchange.body.aclose()


async def _prepare(app: AppContext, given: CreateRequest, sink: ReplySink) -> PendingRequest | None:
    """Parse a request, load its history and find its routes; None if it runs in the background."""
    record, principal, turn = sink.record, given.principal, given.turn
    record.key_name = principal.name
    capture = record.capture
    if capture is not None and capture.request is None:
        body = given.body
        capture.note_request(body if isinstance(body, bytes) else body.encode())
    request = parse_request(given.body, given.endpoint, sink.path_model)
    stateful = request.dialect.stateful
    if stateful and turn is None:
        turn = await app.turns.begin(principal, request, given.cache)
    request = request if turn is None else turn.request
    record.client_dialect, record.model = request.dialect.name, request.model[:_MAX_LOGGED_MODEL]
    if request.dialect.predates_tools:
        sink.reply_headers = app.legacy_headers
    if not request.model:
        raise missing_field("model")
    routes = app.router.find(request.model)
    if turn is not None and turn.background and given.turn is None:
        record.stream = turn.stream
        await app.background.accept(principal, turn, sink)
        return None
    sealer = None
    if stateful and mentions_compaction(request.body):
        sealer = app.sealing_keys.summary_sealer(principal.owner)
    saver = _choose_saver(app, given, request, turn)
    may_store_reasoning = not stateful and request.store is not False
    if turn is not None:
        may_store_reasoning = turn.store
    return PendingRequest(
        principal, sink, request, turn, routes, sealer, saver, may_store_reasoning
    )


def _choose_saver(
    app: AppContext, given: CreateRequest, request: ParsedRequest, turn: Turn | None
) -> Saver | None:
    if not request.dialect.stateful:
        # Of the stateless dialects, only Chat Completions defines stored objects.
        if not request.store or request.dialect.path != CHAT.path:
            return None
        return completion_saver(app, given.principal.owner, request.body, request.model)
    if turn is None or given.turn is not None:
        # The caller that passed the turn saves the reply itself.
        return None
    if turn.store:
        return ResponseSaver(app, turn)
    return None if given.cache is None else ConnectionSaver(app, given.cache, turn)


async def _manage_context(app: AppContext, pending: PendingRequest) -> PreparedRequest:
    """Summarize a conversation that exceeds the client's limit, unless the backend does that."""
    body, sealer, policy = pending.request.body, pending.summary_sealer, app.config.loss_policy
    backend = pending.routes[0].backend
    if sealer is None or FIELD not in body.fields or compacts_natively(backend):
        return PreparedRequest(body)
    settings = read_context_management(body, policy)
    body = settings.body
    unchanged = PreparedRequest(body, losses=settings.losses)
    if settings.threshold is None:
        return unchanged
    window = read_window(body, sealer, keep_foreign=accepts_foreign_summaries(backend))
    if window.triggered:
        return unchanged
    opened = replace(body, items=window.input_items(), raw=None)
    if (await count_locally(opened.encode())).tokens < settings.threshold:
        return unchanged
    return await _summarize(app, pending, unchanged, window)


async def _summarize(
    app: AppContext, pending: PendingRequest, unchanged: PreparedRequest, window: Window
) -> PreparedRequest:
    """Replace the older part of a conversation by a summary, if one can be made."""
    policy, sealer = app.config.loss_policy, pending.summary_sealer
    plan = plan_summary(unchanged.body, window, policy)
    if isinstance(plan, Loss) or sealer is None:
        lost = (plan,) if isinstance(plan, Loss) else ()
        return replace(unchanged, losses=(*unchanged.losses, *lost))
    summary = await _generate_summary(app, pending, plan.request)
    continued = None if summary is None else plan.apply(summary, sealer, app.ids)
    if summary is None or continued is None:
        return replace(unchanged, losses=(*unchanged.losses, summary_failed(policy)))
    return replace(continued, losses=(*unchanged.losses, *summary.losses))


async def _generate_summary(
    app: AppContext, pending: PendingRequest, body: RequestBody
) -> GeneratedSummary | None:
    """Request a summary in a separate exchange; return None if that fails."""
    outer = pending.sink
    sink = BufferSink(outer.headers, outer.receive, ExchangeRecord(outer.record.path))
    request = CreateRequest(RESPONSES.path, pending.principal, body)
    try:
        await report_errors(app, sink, handle_create(app, request, sink))
    except ClientDisconnectedError:
        sink.record.outcome = "client_disconnected"
        raise
    finally:
        app.record_exchange(sink.record)
    if sink.record.error_code == ShuttingDownError.code:
        raise ShuttingDownError(None, "the gateway is shutting down")
    if sink.status != HTTPStatus.OK:
        return None
    output = _OUTPUT.decode(sink.body).output
    if not output:
        return None
    return GeneratedSummary(output[0], sink.record.usage, tuple(sink.record.losses))
