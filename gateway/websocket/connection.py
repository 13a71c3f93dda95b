"""One socket, from its opening to its close."""

import asyncio
from contextlib import suppress
from typing import Final

from litestar.exceptions import WebSocketDisconnect
from litestar.types import Receive, Send
from litestar.types.asgi_types import (
    WebSocketCloseEvent,
    WebSocketReceiveEvent,
    WebSocketSendEvent,
)

from adapters import DragomanError, InvalidRequestError
from gateway.errors import InternalError, RequestTooLargeError, ShuttingDownError
from gateway.observability.logging import LOG
from gateway.websocket.errors import ConnectionExpiredError
from gateway.websocket.messages import STEER, CreateMessage, Message, read_create, read_message
from gateway.websocket.sink import write_problem
from gateway.websocket.steering import steer_failed
from gateway.websocket.stream_queues import StreamQueues
from gateway.websocket.turns import TurnHandler

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
            LOG.exception("a fault of the gateway")
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
            LOG.exception("a fault of the gateway")

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
