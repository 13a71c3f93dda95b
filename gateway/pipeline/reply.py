"""Forward a backend's reply to the client."""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import httpx

from adapters import DragomanError, InvalidReplyError, Loss, ReplyEnd
from adapters.ir.types import Error
from adapters.wire.error_body import to_error
from gateway.config.schema import TimeoutConfig
from gateway.context import AppContext
from gateway.errors import InternalError, ShuttingDownError
from gateway.grammar_check import check_inputs
from gateway.http.headers import JSON, STREAM, loss_header
from gateway.http.monitor import ExchangeMonitor
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.backend_call import Exchange
from gateway.pipeline.persistence import Saver, save_reply

# A larger reply for a client that does not stream is an error.
_MAX_WHOLE_BYTES: Final = 256 * 1024 * 1024
# How a body ends that is not complete.
_TRUNCATED: Final = (httpx.TransportError, httpx.DecodingError)
# A backend may fail right after the head of its stream; its status can still be passed on then.
_HOLD_SECONDS: Final = 1.0
# Usage may follow a complete reply, or never come.
_TRAILING_EVENTS_SECONDS: Final = 10.0
# A backend may keep its stream open after the last event; the connection can be reused only after
# the end of the stream.
_DRAIN_SECONDS: Final = 1.0


class StreamSender:
    """Sends a stream to a client; holds its head back until content arrives, or for a second."""

    def __init__(self, exchange: Exchange, sink: ReplySink, monitor: ExchangeMonitor) -> None:
        self._exchange = exchange
        self.sink = sink
        self._monitor = monitor
        self.held: list[bytes] = []

    async def write(self, data: bytes, *, final: bool = False) -> None:
        """Send a chunk, or hold it back while there is no content and it is not the final one."""
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
        """Send the head of the stream; return what was held back."""
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
        # Comments do not count as activity: some clients ignore them.
        self._monitor.end_client_write(counts=not data.startswith(b":") or b"\ndata:" in data)

    async def heartbeat(self) -> None:
        """Send a heartbeat; a stream that was held back so long starts now."""
        heartbeat = b"" if self.held else self._exchange.reply.heartbeat()
        if not self.sink.started:
            heartbeat = await self._start() + heartbeat
        if heartbeat:
            await self._send(heartbeat)


async def forward_chunks(
    exchange: Exchange, sender: StreamSender, monitor: ExchangeMonitor
) -> bool:
    """Forward what each read brings, up to the end of the reply, which the translator keeps back.

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
        if not reply.ended:
            monitor.pause_deadline()
            async with asyncio.timeout(_trailing_seconds(exchange.backend.timeouts)):
                return await _forward(exchange, sender, monitor, trailing=True)
    except TimeoutError:
        # The reply is complete without the usage.
        return True
    except _TRUNCATED:
        # The translator knows whether a stream was complete before it was cut.
        reply.note_truncated()
        return False
    return True


async def _forward(
    exchange: Exchange, sender: StreamSender, monitor: ExchangeMonitor, *, trailing: bool
) -> bool:
    """Forward chunks until the reply is complete, or until nothing more is expected (`trailing`).

    Returns false if the backend's response ends before.
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
            _check_size(size)
        if reply.finished and (not trailing or reply.ended):
            return True
    return False


def _check_size(size: int) -> None:
    if size > _MAX_WHOLE_BYTES:
        raise InvalidReplyError(None, f"the backend's reply exceeds {_MAX_WHOLE_BYTES} bytes")


def _trailing_seconds(timeouts: TimeoutConfig) -> float:
    return min(_TRAILING_EVENTS_SECONDS, timeouts.idle or _TRAILING_EVENTS_SECONDS)


def fail_reply(exchange: Exchange, error: BaseException, sink: ReplySink) -> ReplyEnd:
    """Return the end of a reply that an error interrupted."""
    if isinstance(error, asyncio.CancelledError):
        # The server stops and has waited long enough.
        error = ShuttingDownError(None, "the gateway is shutting down")
    if not isinstance(error, DragomanError):
        LOG.error("internal error", path=sink.record.path, exc_info=error)
        error = InternalError(None, "internal error; see the gateway's log")
    sink.record.note_error(error.code)
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
    """Save the reply, then send its end; with `drain`, what follows it in the backend's stream."""
    reply, sink, record = exchange.reply, sender.sink, sender.sink.record
    losses: list[Loss] = []
    try:
        losses += await save_reply(app, end, saver, exchange.backend, exchange.principal)
    except DragomanError as error:
        LOG.warning("response not stored", error=error.message)
        end = reply.fail_to_store(end, to_error(error))
        record.note_error(error.code)
    losses += end.losses
    if custom_inputs := reply.custom_inputs:
        losses += await check_inputs(custom_inputs)
    record.losses += losses
    record.usage = end.usage
    if end.error is not None:
        _note_backend_error(exchange, end.error, record)
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
    """Record the backend's error code, with our key redacted."""
    redact = exchange.backend.redact or str
    if exchange.status >= HTTPStatus.BAD_REQUEST:
        record.error_code = redact(error.code or error.type)
    elif exchange.reply.is_stream and record.outcome == "ok":
        record.note_error(None if error.code is None else redact(error.code))


async def _drain(exchange: Exchange, sender: StreamSender | None) -> None:
    """Wait a little for the end of the backend's stream; pass on what follows its last event.

    A Responses backend sends `response.failed` after `error`, perhaps in a later read.
    """
    with suppress(TimeoutError, *_TRUNCATED):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in exchange.chunks:
                data = exchange.reply.feed(chunk)
                if data and sender is not None:
                    await sender.write(data)
