"""Forward a backend's reply to the client."""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import httpx

from adapters import DragomanError, InvalidReplyError, ReplyEnd
from adapters.ir.types import Error
from adapters.wire.error_body import to_error
from gateway.context import AppContext
from gateway.errors import InternalError, ShuttingDownError
from gateway.grammar_check import check_inputs
from gateway.http.headers import JSON, STREAM, loss_header
from gateway.http.monitor import ExchangeMonitor
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG, log_fault
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.backend_call import Exchange
from gateway.pipeline.persistence import Saver, save_reply

# The size limit of a reply for a client that does not stream.
_MAX_WHOLE_BYTES: Final = 256 * 1024 * 1024
# The errors of a body that ends before it is complete.
_TRUNCATED: Final = (httpx.TransportError, httpx.DecodingError)
# The head of a stream is held back this long, so that an early failure can be an HTTP error.
_HOLD_SECONDS: Final = 1.0
# The longest wait for the usage, which some backends send after a complete reply.
_TRAILING_EVENTS_SECONDS: Final = 10.0
# The longest wait for the end of the backend's stream, after which the connection can be reused.
_DRAIN_SECONDS: Final = 1.0


class StreamSender:
    """Sends a stream to a client; holds back its head for a second or until there is content."""

    def __init__(self, exchange: Exchange, sink: ReplySink, monitor: ExchangeMonitor) -> None:
        self._exchange = exchange
        self.sink = sink
        self._monitor = monitor
        self.held: list[bytes] = []

    async def write(self, data: bytes, *, final: bool = False) -> None:
        """Send a chunk; hold it back if there is no content yet, unless it is the final one."""
        if not self.sink.started:
            if not self.held:
                self._monitor.set_heartbeat(self.heartbeat, at_most=_HOLD_SECONDS)
            self.held.append(data)
            if not final and not self._exchange.reply.has_content:
                return
            data = await self._start()
        if data:
            await self._send(data)

    async def _start(self) -> bytes:
        """Send the head of the stream; return the chunks that were held back."""
        exchange = self._exchange
        self._monitor.set_heartbeat(self.heartbeat)
        headers = [*STREAM, *exchange.headers, *loss_header(exchange.losses)]
        await self.sink.start(HTTPStatus.OK, headers)
        held = b"".join(self.held)
        self.held.clear()
        return held

    async def _send(self, data: bytes) -> None:
        self._monitor.writing = True
        await self.sink.write(data)
        # A comment does not delay the next heartbeat, because some clients ignore comments.
        self._monitor.end_client_write(counts=not data.startswith(b":") or b"\ndata:" in data)

    async def heartbeat(self) -> None:
        """Send a heartbeat, or the head and the chunks that are still held back."""
        heartbeat = b"" if self.held else self._exchange.reply.heartbeat()
        if not self.sink.started:
            heartbeat = await self._start() + heartbeat
        if heartbeat:
            await self._send(heartbeat)


async def forward_chunks(
    exchange: Exchange, sender: StreamSender, monitor: ExchangeMonitor
) -> bool:
    """Forward each chunk of the reply; its end is left to `send_end`.

    Returns whether the backend may send more.
    """
    reply = exchange.reply
    monitor.expect_more()
    if reply.is_stream:
        sender.sink.record.stream = True
        monitor.set_heartbeat(sender.heartbeat)
    try:
        if not await _forward(exchange, sender, monitor, trailing=False):
            return False
        if reply.cut:
            # This cancels the backend's work.
            await exchange.body.aclose()
            return False
        if not reply.ended:
            monitor.pause_deadline()
            idle = exchange.backend.timeouts.idle or _TRAILING_EVENTS_SECONDS
            async with asyncio.timeout(min(idle, _TRAILING_EVENTS_SECONDS)):
                return await _forward(exchange, sender, monitor, trailing=True)
    except TimeoutError:
        # The reply is complete, only its usage is missing.
        return True
    except _TRUNCATED:
        # The translator decides whether this is an error: a stream may have been complete.
        reply.note_truncated()
        return False
    return True


async def _forward(
    exchange: Exchange, sender: StreamSender, monitor: ExchangeMonitor, *, trailing: bool
) -> bool:
    """Forward chunks until the reply is complete, with `trailing` until its usage has arrived too.

    Returns False if the backend's response ends earlier.
    """
    reply, size = exchange.reply, 0
    feed, note_activity = reply.feed, monitor.note_backend_activity
    async for chunk in exchange.chunks:
        note_activity()
        data = feed(chunk)
        if data:
            await sender.write(data)
        elif not reply.is_stream:
            size += len(chunk)
            if size > _MAX_WHOLE_BYTES:
                message = f"the backend's reply exceeds {_MAX_WHOLE_BYTES} bytes"
                raise InvalidReplyError(None, message)
        if reply.finished and (not trailing or reply.ended):
            return True
    return False


def fail_reply(exchange: Exchange, error: BaseException, sink: ReplySink) -> ReplyEnd:
    """Return the end of a reply that an error interrupted."""
    if isinstance(error, asyncio.CancelledError):
        # The grace period of the shutdown is over.
        error = ShuttingDownError(None, "the gateway is shutting down")
    if not isinstance(error, DragomanError):
        LOG.error("internal error", path=sink.record.path, exc_info=error)
        error = InternalError(None, "internal error; see the gateway's log")
    sink.record.note_exception(error)
    return exchange.reply.fail(to_error(error), started=sink.started)


async def send_end(
    app: AppContext,
    exchange: Exchange,
    end: ReplyEnd,
    saver: Saver | None,
    sender: StreamSender,
    *,
    drain: bool,
) -> None:
    """Save the reply, then send its end; with `drain`, also forward the backend's later events."""
    reply, sink, record = exchange.reply, sender.sink, sender.sink.record
    losses = [*end.losses]
    if custom_inputs := reply.custom_inputs:
        losses += await check_inputs(custom_inputs)
    try:
        losses += await save_reply(app, end, saver, exchange.origin, [*exchange.losses, *losses])
    except DragomanError as error:
        LOG.warning("response not stored", error=error.message)
        end = reply.fail_to_store(end, to_error(error))
        record.note_exception(error)
    record.losses += losses
    record.usage = end.usage
    if end.error is not None:
        _note_backend_error(exchange, end.error, record)
    for fault in reply.faults:
        log_fault(fault, record.path)
        record.note_exception(fault)
    drain = drain and (end.error is None or end.error_origin == "backend")
    if end.streamed and (sink.started or sender.held):
        await sender.write(end.body, final=True)
        if drain:
            await _drain(exchange, sender)
        await sink.end()
    else:
        content_type = STREAM if end.streamed else JSON
        headers = [*content_type, *exchange.headers, *loss_header([*exchange.losses, *losses])]
        await sink.send_response(end.status, headers, end.body)
        if drain:
            await _drain(exchange, None)


def _note_backend_error(exchange: Exchange, error: Error, record: ExchangeRecord) -> None:
    """Record the backend's error code, with the backend's key redacted."""
    redact = exchange.backend.redact or str
    if exchange.status >= HTTPStatus.BAD_REQUEST:
        record.error_code = redact(error.code or error.type)
        record.error_message, record.error_parameter = error.message, error.param
    elif exchange.reply.is_stream and record.outcome == "ok":
        code = None if error.code is None else redact(error.code)
        record.note_error(code, error.message, error.param)


async def _drain(exchange: Exchange, sender: StreamSender | None) -> None:
    """Read the backend's stream to its end, and forward the events after the end of the reply.

    A Responses backend sends `response.failed` after `error`, perhaps in a later chunk.
    """
    with suppress(TimeoutError, *_TRUNCATED):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in exchange.chunks:
                data = exchange.reply.feed(chunk)
                if data and sender is not None:
                    await sender.write(data)
