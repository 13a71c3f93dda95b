"""One WebSocket connection, from its handshake to its close."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from typing import Final, cast

from litestar.exceptions import WebSocketDisconnect
from litestar.types import Receive, Send, WebSocketScope
from litestar.types.asgi_types import (
    HTTPDisconnectEvent,
    WebSocketAcceptEvent,
    WebSocketCloseEvent,
    WebSocketReceiveEvent,
)

from adapters import DragomanError, InvalidRequestError
from adapters.wire.error_body import to_error
from gateway.context import CurrentContext
from gateway.errors import (
    ConnectionExpiredError,
    InternalError,
    OriginNotAllowedError,
    RequestTooLargeError,
    ShuttingDownError,
)
from gateway.http.auth import Principal
from gateway.http.headers import read_headers
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.handler import serve
from gateway.server.protocols import SHUTDOWN_EXTENSION
from gateway.turns.response_cache import CachedResponse, ResponseCache
from gateway.websocket.messages import (
    STEER,
    CreateMessage,
    read_create,
    read_message,
    write_error_event,
    write_steer_failed,
)
from gateway.websocket.queues import StreamQueues
from gateway.websocket.turns import RejectionSink, WebSocketSink, send_event, serve_turn

# Close codes of RFC 6455 and its registry.
_GOING_AWAY: Final = 1001
_INTERNAL_ERROR: Final = 1011
_SERVICE_RESTART: Final = 1012
# Headers that identify one request or turn: those of the handshake do not apply to later turns.
_HANDSHAKE_ONLY_HEADERS: Final = frozenset(("idempotency-key", "x-codex-turn-metadata"))
_BETA_HEADER: Final = "openai-beta"
_WEBSOCKET_BETA_PREFIX: Final = "responses_websockets="


class Connection:
    """Reads the messages of a client and serves its turns."""

    def __init__(
        self,
        current: CurrentContext,
        principal: Principal,
        headers: dict[str, str],
        path: str,
        receive: Receive,
        send: Send,
    ) -> None:
        self._current = current
        self._principal = principal
        self._headers = headers
        self._path = path
        self._receive = receive
        self._send = send
        self._max_bytes = current.value.config.server.max_body_bytes
        self._queues = StreamQueues(self._max_bytes)
        self._tasks: set[asyncio.Task[None]] = set()
        self._cached_responses: dict[str, CachedResponse] = {}
        self._disconnected = asyncio.Event()
        # The error for new turns, once the connection is being closed.
        self._closing_error: DragomanError | None = None

    async def run(self, shutdown: asyncio.Event) -> None:
        """Serve until the client disconnects, the service stops, or the connection is too old."""
        read_task = asyncio.create_task(self._read_messages())
        shutdown_task = asyncio.create_task(shutdown.wait())
        tasks = {read_task, shutdown_task}
        lifetime = self._current.value.config.server.websocket_max_lifetime or None
        try:
            await asyncio.wait(tasks, timeout=lifetime, return_when=asyncio.FIRST_COMPLETED)
            if not read_task.done():
                await self._close_gracefully(read_task, stopping=shutdown.is_set())
        except asyncio.CancelledError:
            # The grace period of the shutdown is over: cancel the running turns, so that each ends
            # with an error.
            self._queues.drain()
            for task in self._tasks:
                task.cancel()
            await self._wait_for_turns()
            await self._close(_SERVICE_RESTART)
        finally:
            self._queues.drain()
            self._disconnected.set()
            shutdown_task.cancel()
            read_task.cancel()
            await self._wait_for_turns()

    async def _close_gracefully(self, read_task: asyncio.Task[None], *, stopping: bool) -> None:
        """Refuse new turns, wait for the running ones, and close the connection."""
        if stopping:
            message = "the gateway is shutting down; open a new connection"
            error: DragomanError = ShuttingDownError(None, message)
        else:
            message = "the connection has reached its maximum lifetime; open a new one"
            error = ConnectionExpiredError(None, message)
        self._closing_error = error
        for waiting in self._queues.drain():
            await self._send_error(error, waiting.stream_id)
        turns_task = asyncio.create_task(self._wait_for_turns())
        await asyncio.wait({read_task, turns_task}, return_when=asyncio.FIRST_COMPLETED)
        turns_task.cancel()
        if read_task.done():
            return
        if not stopping:
            await self._send_error(error, None)
        await self._close(_SERVICE_RESTART if stopping else _GOING_AWAY)

    async def _wait_for_turns(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _read_messages(self) -> None:
        """Handle messages until the client disconnects; close it after an internal error."""
        try:
            while (message := await self._receive())["type"] == "websocket.receive":
                await self._handle_message(message)
        except Exception:  # noqa: BLE001 - without an error, the client would wait for ever
            LOG.exception("internal error")
            error = InternalError(None, "internal error; see the gateway's log")
            await self._send_error(error, None)
            await self._close(_INTERNAL_ERROR)

    async def _handle_message(self, received: WebSocketReceiveEvent) -> None:
        """Start or queue a turn; send an error if the message is invalid."""
        stream_id: str | None = None
        try:
            message = read_message(self._message_bytes(received))
            stream_id = message.stream_id
            if message.kind == STEER:
                await send_event(self._send, write_steer_failed(message.fields))
                return
            create = read_create(message)
            if self._closing_error is not None:
                raise self._closing_error
            if self._queues.add(create):
                task = asyncio.create_task(self._serve_queued_turns(stream_id))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except DragomanError as error:
            await self._send_error(error, stream_id)

    def _message_bytes(self, received: WebSocketReceiveEvent) -> bytes:
        text = received.get("text")
        if text is None:
            raise InvalidRequestError(None, "a message must be text, not binary")
        data = text.encode()
        if len(data) > self._max_bytes:
            raise RequestTooLargeError(None, f"the message exceeds {self._max_bytes} bytes")
        return data

    async def _serve_queued_turns(self, stream_id: str | None) -> None:
        while (message := self._queues.next(stream_id)) is not None:
            try:
                await self._serve_turn(message)
            except Exception:  # noqa: BLE001 - the later turns must be served after any failure
                LOG.exception("internal error")

    async def _serve_turn(self, message: CreateMessage) -> None:
        record, stream_id = self._new_record(), message.stream_id
        cache = ResponseCache(self._cached_responses, self._max_bytes, stream_id)
        sink = WebSocketSink(self._headers, self._receive_disconnect, self._send, record, stream_id)
        # A reload of the configuration applies to the next turn.
        app = self._current.value
        try:
            await serve(app, sink, serve_turn(app, self._principal, message, cache, sink))
        finally:
            if record.outcome != "ok" or record.status >= HTTPStatus.BAD_REQUEST:
                cache.discard(message.previous_response_id)

    async def _receive_disconnect(self) -> HTTPDisconnectEvent:
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    def _new_record(self) -> ExchangeRecord:
        record = ExchangeRecord(self._path)
        record.key_name = self._principal.name
        return record

    async def _send_error(self, error: DragomanError, stream_id: str | None) -> None:
        """Send and record an error that belongs to no turn."""
        record = self._new_record()
        record.status = error.status
        record.note_exception(error)
        self._current.value.record_exchange(record)
        await send_event(self._send, write_error_event(error.status, to_error(error), stream_id))

    async def _close(self, code: int) -> None:
        message: WebSocketCloseEvent = {"type": "websocket.close", "code": code, "reason": None}
        with suppress(OSError, WebSocketDisconnect):
            await self._send(message)


async def handle_websocket(
    current: CurrentContext, scope: WebSocketScope, receive: Receive, send: Send
) -> None:
    """Authenticate a client, accept its connection and serve it until it is closed."""
    await receive()
    app = current.value
    headers, record = read_headers(scope["headers"]), ExchangeRecord(scope["path"])
    try:
        _check_origin(headers, app.config.server.cors_origins)
        principal = app.authenticator.authenticate(headers)
    except DragomanError as error:
        record.note_exception(error)
        await RejectionSink(headers, receive, send, record).send_error(error)
        app.record_exchange(record)
        return
    accept: WebSocketAcceptEvent = {"type": "websocket.accept", "subprotocol": None, "headers": []}
    await send(accept)
    headers = _turn_headers(headers)
    connection = Connection(current, principal, headers, scope["path"], receive, send)
    await connection.run(_shutdown_event(scope))


def _check_origin(headers: dict[str, str], allowed: Collection[str]) -> None:
    """Reject web pages of sites that are not allowed; only browsers send an origin.

    Browsers allow any page to open a WebSocket to any address and to read from it. Without this
    check, a page could use a gateway on its visitor's machine.
    """
    origin = headers.get("origin")
    if origin in allowed or "*" in allowed:
        return
    host = headers.get("host", "").lower()
    if origin is not None and (not host or origin.lower().partition("://")[2] != host):
        raise OriginNotAllowedError(None, "WebSocket connections from other sites are not allowed")


def _turn_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers for every turn, without handshake-only ones and the WebSocket beta."""
    kept = {name: value for name, value in headers.items() if name not in _HANDSHAKE_ONLY_HEADERS}
    betas = [beta.strip() for beta in kept.pop(_BETA_HEADER, "").split(",")]
    betas = [beta for beta in betas if beta and not beta.startswith(_WEBSOCKET_BETA_PREFIX)]
    return kept | {_BETA_HEADER: ", ".join(betas)} if betas else kept


def _shutdown_event(scope: WebSocketScope) -> asyncio.Event:
    """Return the event that is set at a shutdown; under other ASGI servers it is never set."""
    extensions = cast("dict[str, object]", scope["extensions"] or {})
    event = extensions.get(SHUTDOWN_EXTENSION)
    return event if isinstance(event, asyncio.Event) else asyncio.Event()
