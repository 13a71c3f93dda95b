"""One socket, from its opening to its close."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, cast

from litestar.exceptions import WebSocketDisconnect
from litestar.types import Message as AsgiMessage
from litestar.types import Receive, Send, WebSocketScope
from litestar.types.asgi_types import (
    WebSocketAcceptEvent,
    WebSocketCloseEvent,
    WebSocketReceiveEvent,
    WebSocketResponseBodyEvent,
    WebSocketResponseStartEvent,
    WebSocketSendEvent,
)

from adapters import DragomanError, InvalidRequestError
from gateway.context import AppContext
from gateway.errors import (
    ConnectionExpiredError,
    InternalError,
    OriginNotAllowedError,
    QueueFullError,
    RequestTooLargeError,
    ShuttingDownError,
    TooManyStreamsError,
)
from gateway.http.headers import read_headers
from gateway.http.sinks import AsgiSink
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.server.protocols import SHUTDOWN_EXTENSION
from gateway.websocket.messages import (
    STEER,
    CreateMessage,
    Message,
    read_create,
    read_message,
    steer_failed,
)
from gateway.websocket.turns import TurnHandler, write_problem

# Answers a handshake as a request is answered (ASGI's "WebSocket Denial Response").


class HandshakeRejection:
    """Gives the messages of an HTTP answer the names that they have before a socket is open."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def send(self, message: AsgiMessage) -> None:
        """Send one of them."""
        if message["type"] == "http.response.start":
            start: WebSocketResponseStartEvent = {
                "type": "websocket.http.response.start",
                "status": message["status"],
                "headers": message["headers"],
            }
            await self._send(start)
        elif message["type"] == "http.response.body":
            body: WebSocketResponseBodyEvent = {
                "type": "websocket.http.response.body",
                "body": message["body"],
                "more_body": message["more_body"],
            }
            await self._send(body)


# Lanes: what stands in one is answered in turn, what stands in several at the same time.
#
# Without a name there is one lane, and one response in flight, as Open Responses wants it. Names
# are
# an addition of OpenAI's, and so are these limits.


_MOST_NAMED: Final = 32
_MOST_ACTIVE: Final = 16
# Nobody says how much may wait; clients wait for an answer before they ask on, as a rule.
_MOST_WAITING: Final = 32


class StreamQueues:
    """All lanes of one connection."""

    def __init__(self, answer: Callable[[CreateMessage], Awaitable[None]], limit: int) -> None:
        # Must not raise.
        self._answer = answer
        # So many bytes may wait, over all lanes.
        self._limit = limit
        self._named: set[str] = set()
        self._waiting: dict[str | None, deque[CreateMessage]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, create: CreateMessage) -> None:
        """Answer something now, or when its turn has come; raise if there is no room for it."""
        lane = create.lane
        queue = self._waiting.get(lane)
        if queue is not None:
            self._check_waiting(create)
            queue.append(create)
            return
        self._check_active(lane)
        self._waiting[lane] = deque((create,))
        task = asyncio.get_running_loop().create_task(self._work(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drain(self) -> list[CreateMessage]:
        """Take away all that has not begun."""
        waiting = [create for queue in self._waiting.values() for create in queue]
        for queue in self._waiting.values():
            queue.clear()
        return waiting

    async def finished(self) -> None:
        """Wait until nothing is answered any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """End what is answered now; whoever waits for it is told so."""
        for task in self._tasks:
            task.cancel()

    async def _work(self, lane: str | None) -> None:
        queue = self._waiting[lane]
        while queue:
            await self._answer(queue.popleft())
        del self._waiting[lane]

    def _check_active(self, lane: str | None) -> None:
        if len(self._waiting) >= _MOST_ACTIVE:
            why = f"{_MOST_ACTIVE} streams are active on this connection; wait for one to end"
            raise TooManyStreamsError("stream_id", why)
        if lane is None or lane in self._named:
            return
        if len(self._named) >= _MOST_NAMED:
            why = f"this connection has had {_MOST_NAMED} streams, and takes no other name"
            raise TooManyStreamsError("stream_id", why)
        self._named.add(lane)

    def _check_waiting(self, create: CreateMessage) -> None:
        waiting = [one.size for queue in self._waiting.values() for one in queue]
        if len(waiting) >= _MOST_WAITING or sum(waiting) + create.size > self._limit:
            why = f"{len(waiting)} messages of {sum(waiting)} bytes wait for their turn already"
            raise QueueFullError(None, why)


# Of RFC 6455 and its registry: clients open another socket at once, or after a moment.
_GOING_AWAY: Final = 1001
_FAULT: Final = 1011
_RESTART: Final = 1012


class Connection:
    """Reads what a client wants, and has it answered."""

    def __init__(self, turns: TurnHandler, receive: Receive, send: Send, limit: int) -> None:
        self._turns = turns
        self._receive = receive
        self._send = send
        # The largest message, in bytes.
        self._limit = limit
        self._lanes = StreamQueues(self._answer, limit)
        # Why nothing new is begun any more.
        self._ending: DragomanError | None = None

    async def run(self, stopping: asyncio.Event, lifetime: float) -> None:
        """Serve until the client leaves, the service stops, or the time is up."""
        loop = asyncio.get_running_loop()
        reading = loop.create_task(self._read())
        stop = loop.create_task(stopping.wait())
        try:
            await asyncio.wait(
                {reading, stop}, timeout=lifetime or None, return_when=asyncio.FIRST_COMPLETED
            )
            if not reading.done():
                await self._end(reading, stopping)
        except asyncio.CancelledError:
            # The server stops and has waited long enough: what is running is told so.
            self._lanes.drain()
            self._lanes.cancel()
            await self._lanes.finished()
            await self._close(_RESTART)
        finally:
            self._lanes.drain()
            self._turns.gone.set()
            stop.cancel()
            reading.cancel()
            await self._lanes.finished()

    async def _end(self, reading: asyncio.Task[None], stopping: asyncio.Event) -> None:
        """Begin nothing new, let what runs end, and close."""
        stops = stopping.is_set()
        self._ending = _stopping() if stops else _too_old()
        for create in self._lanes.drain():
            await self._refuse(self._ending, create.lane)
        finished = asyncio.get_running_loop().create_task(self._lanes.finished())
        await asyncio.wait({reading, finished}, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
        if reading.done():
            return
        if not stops:
            await self._refuse(self._ending, None)
        await self._close(_RESTART if stops else _GOING_AWAY)

    # What comes

    async def _read(self) -> None:
        """Take message after message; a fault of ours ends the socket."""
        try:
            while (message := await self._next()) is not None:
                await self._take(message)
        except Exception:  # noqa: BLE001 - whatever it is, it must not go unseen
            LOG.exception("internal error")
            await self._refuse(InternalError(None, "the gateway failed; its log says why"), None)
            await self._close(_FAULT)

    async def _next(self) -> WebSocketReceiveEvent | None:
        message = await self._receive()
        return message if message["type"] == "websocket.receive" else None

    async def _take(self, message: WebSocketReceiveEvent) -> None:
        """Do what a message wants, or say why not; the socket goes on in either case."""
        lane: str | None = None
        try:
            read = read_message(self._text(message))
            lane = read.lane
            await self._do(read)
        except DragomanError as problem:
            await self._refuse(problem, lane)

    def _text(self, message: WebSocketReceiveEvent) -> bytes:
        text = message.get("text")
        if text is None:
            raise InvalidRequestError(None, "a message has to be text, not bytes")
        data = text.encode()
        if len(data) > self._limit:
            raise RequestTooLargeError(None, f"the message is over {self._limit} bytes")
        return data

    async def _do(self, message: Message) -> None:
        if message.kind == STEER:
            await self._tell(steer_failed(message.fields))
            return
        create = read_create(message)
        if self._ending is not None:
            raise self._ending
        self._lanes.add(create)

    # What goes

    async def _answer(self, create: CreateMessage) -> None:
        try:
            await self._turns.answer(create, self._tell)
        except Exception:  # noqa: BLE001 - one turn must not end the others
            LOG.exception("internal error")

    async def _refuse(self, problem: DragomanError, lane: str | None) -> None:
        self._turns.note(problem)
        await self._tell(write_problem(problem, lane))

    async def _tell(self, event: bytes) -> None:
        """Send an event; wait while the client is slow to take it.

        Whether the client is still there, only the reading tells: here it makes no difference.
        """
        message: WebSocketSendEvent = {
            "type": "websocket.send",
            "bytes": None,
            "text": event.decode("utf-8", "replace"),
        }
        with suppress(OSError, WebSocketDisconnect):
            await self._send(message)

    async def _close(self, code: int) -> None:
        message: WebSocketCloseEvent = {"type": "websocket.close", "code": code, "reason": None}
        with suppress(OSError, WebSocketDisconnect):
            await self._send(message)


def _stopping() -> DragomanError:
    return ShuttingDownError(None, "the gateway is stopping; open another connection")


def _too_old() -> DragomanError:
    why = "this connection is as old as it may become; open another one to go on"
    return ConnectionExpiredError(None, why)


# Opens sockets: who may not come in is told so over HTTP, before there is a socket.


async def open_socket(
    desk: AppContext, scope: WebSocketScope, receive: Receive, send: Send
) -> None:
    """Let a client in, and serve it until it leaves."""
    await receive()
    headers = read_headers(scope["headers"])
    try:
        _check_origin(headers)
        caller = desk.authenticator.authenticate(headers)
    except DragomanError as problem:
        await _refuse(desk, scope["path"], problem, receive, send)
        return
    accept: WebSocketAcceptEvent = {
        "type": "websocket.accept",
        "subprotocol": None,
        "headers": [],
    }
    await send(accept)
    server = desk.config.server
    turns = TurnHandler(desk, caller, headers, scope["path"])
    connection = Connection(turns, receive, send, server.max_body_bytes)
    await connection.run(_handshake_stopping(scope), server.websocket_max_lifetime)


def _check_origin(headers: dict[str, str]) -> None:
    """Let pages of other sites not in.

    Browsers ask nobody before they let a page open a socket to anywhere and read from it, as they
    do before other requests; without this, any page could talk to a gateway on its visitor's
    machine. Programs say no origin.
    """
    origin = headers.get("origin")
    own = headers.get("host", "").lower()
    if origin is not None and (not own or origin.lower().partition("://")[2] != own):
        raise OriginNotAllowedError(None, "pages of other sites may not open a socket here")


async def _refuse(
    desk: AppContext, path: str, problem: DragomanError, receive: Receive, send: Send
) -> None:
    record = ExchangeRecord(path)
    record.note_error(problem.code)
    await AsgiSink({}, receive, HandshakeRejection(send).send, record).send_error(problem)
    desk.record_exchange(record)


def _handshake_stopping(scope: WebSocketScope) -> asyncio.Event:
    """Give what is set when the server begins to stop; other servers than ours say nothing."""
    extensions = cast("dict[str, object]", scope["extensions"] or {})
    event = extensions.get(SHUTDOWN_EXTENSION)
    return event if isinstance(event, asyncio.Event) else asyncio.Event()
