"""Forward a backend's reply to the client."""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import httpx

from adapters import DragomanError, InvalidReplyError, Loss, ReplyEnd
from adapters.wire.error_body import to_error
from gateway.config.schema import TimeoutConfig
from gateway.context import AppContext
from gateway.errors import InternalError, ShuttingDownError
from gateway.grammar_check import check_inputs
from gateway.http.headers import JSON, STREAM, Headers, loss_header
from gateway.http.monitor import ExchangeMonitor
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.exchange import Exchange
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
        self._reply = exchange.reply
        self.sink = sink
        self._monitor = monitor
        self._headers: Headers = [*STREAM, *exchange.headers, *loss_header(exchange.losses)]
        self._held: list[bytes] = []
        # A chunk is being sent: no heartbeat may come between.
        self._sending = False

    def watch(self) -> None:
        """Send heartbeats from now on while the backend is silent."""
        self.sink.record.stream = True
        self._monitor.set_heartbeat(self._heartbeat)

    @property
    def has_sent(self) -> bool:
        """Whether anything of the stream was sent or held back."""
        return self.sink.started or bool(self._held)

    async def write(self, data: bytes) -> None:
        """Send a chunk, or hold it back while there is no content."""
        if not self.sink.started:
            if not self._held:
                self._monitor.set_heartbeat(self._heartbeat, at_most=_HOLD_SECONDS)
            self._held.append(data)
            if not self._reply.has_content:
                return
            data = await self._start()
        await self._send(data)

    async def write_end(self, data: bytes) -> None:
        """Send the end of the stream, and its beginning if that was held back."""
        if not self.sink.started:
            data = await self._start() + data
        if data:
            await self._send(data)

    async def _send(self, data: bytes) -> None:
        self._sending = True
        self._monitor.begin_client_write()
        await self.sink.write(data)
        # Comments do not count as activity: some clients ignore them.
        self._monitor.end_client_write(counts=not data.startswith(b":") or b"\ndata:" in data)
        self._sending = False

    async def _start(self) -> bytes:
        """Send the head of the stream; return what was held back."""
        self._monitor.set_heartbeat(self._heartbeat)
        await self.sink.start(HTTPStatus.OK, self._headers)
        held = b"".join(self._held)
        self._held.clear()
        return held

    async def _heartbeat(self) -> None:
        """Send a heartbeat; a stream that was held back so long starts now."""
        if self._sending:
            return
        self._sending = True
        heartbeat = b"" if self._held else self._reply.heartbeat()
        if not self.sink.started:
            heartbeat = await self._start() + heartbeat
        self._sending = False
        if heartbeat:
            await self._send(heartbeat)


async def forward_chunks(
    exchange: Exchange, sender: StreamSender, monitor: ExchangeMonitor
) -> None:
    """Forward the reply up to its end, which the translator keeps back."""
    monitor.expect_more()
    if exchange.reply.is_stream:
        sender.watch()
    try:
        await _forward(exchange, sender, monitor)
        if exchange.reply.finished and not exchange.reply.ended:
            monitor.pause_deadline()
            async with asyncio.timeout(_trailing_seconds(exchange.backend.timeouts)):
                await _forward_trailing(exchange, sender)
    except TimeoutError:
        # The reply is complete without it.
        return
    except _TRUNCATED:
        # Whether a stream was complete before it was cut, the translator knows.
        exchange.reply.note_truncated()


async def _forward(exchange: Exchange, sender: StreamSender, monitor: ExchangeMonitor) -> None:
    """Forward what each read brings, at once and in one piece."""
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
                why = f"the backend's answer is over {_MAX_WHOLE_BYTES} bytes"
                raise InvalidReplyError(None, why)
        if reply.finished:
            return


async def _forward_trailing(exchange: Exchange, sender: StreamSender) -> None:
    async for chunk in exchange.chunks:
        data = exchange.reply.feed(chunk)
        if data:
            await sender.write(data)
        if exchange.reply.ended:
            return


def _trailing_seconds(timeouts: TimeoutConfig) -> float:
    return min(_TRAILING_EVENTS_SECONDS, timeouts.idle or _TRAILING_EVENTS_SECONDS)


def fail_reply(exchange: Exchange, error: BaseException, sink: ReplySink) -> ReplyEnd:
    """Return the end of a reply that an error interrupted."""
    if isinstance(error, asyncio.CancelledError):
        # The server stops and has waited long enough.
        error = ShuttingDownError(None, "the gateway is stopping")
    if not isinstance(error, DragomanError):
        LOG.error("internal error", path=sink.record.path, exc_info=error)
        error = InternalError(None, "the gateway failed; its log says why")
    sink.record.note_error(error.code)
    return exchange.reply.fail(to_error(error), started=sink.started)


async def send_end(
    app: AppContext, exchange: Exchange, end: ReplyEnd, saver: Saver | None, sender: StreamSender
) -> None:
    """Save the reply, then send its end."""
    reply, record = exchange.reply, sender.sink.record
    losses: list[Loss] = []
    try:
        losses += await save_reply(app, exchange, end, saver)
    except DragomanError as error:
        LOG.warning("response not stored", error=error.message)
        end = reply.fail_to_store(end, to_error(error))
        record.note_error(error.code)
    losses += [*end.losses, *await check_inputs(reply.custom_inputs)]
    record.losses += losses
    record.usage = end.usage
    _note_backend_error(exchange, end, record)
    if end.streamed and sender.has_sent:
        await sender.write_end(end.body)
        await _drain(exchange, end, sender)
        await sender.sink.end()
    else:
        content_type = STREAM if end.streamed else JSON
        headers = [*content_type, *exchange.headers, *loss_header([*exchange.losses, *losses])]
        await sender.sink.send_response(end.status, headers, end.body)
        await _drain(exchange, end, None)


def _note_backend_error(exchange: Exchange, end: ReplyEnd, record: ExchangeRecord) -> None:
    """Record the backend's error code, with our key redacted."""
    redact = exchange.backend.redact or str
    if end.error is None:
        return
    if exchange.response.status_code >= HTTPStatus.BAD_REQUEST:
        record.error_code = redact(end.error.code or end.error.type)
    elif exchange.reply.is_stream and record.outcome == "ok":
        record.note_error(None if end.error.code is None else redact(end.error.code))


async def _drain(exchange: Exchange, end: ReplyEnd, sender: StreamSender | None) -> None:
    """Wait a little for the end of the backend's stream; pass on what follows its last event.

    A Responses backend sends `response.failed` after `error`, perhaps in a later read.
    """
    if end.error is not None and end.error_origin != "backend":
        return
    with suppress(TimeoutError, *_TRUNCATED):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in exchange.chunks:
                data = exchange.reply.feed(chunk)
                if data and sender is not None:
                    await sender.write(data)
