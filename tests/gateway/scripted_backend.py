"""A backend that plays exact bytes by script, over a real socket.

A script is what happens after a request: bytes that are written as they are, and what happens
between them. Requests find their script by the model that they ask for, so that many tests share
one backend; a request that names no model finds it by its method and target.
"""

import asyncio
import json
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar, cast

import httptools

from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges.reading import JsonObject, read_object

Result = TypeVar("Result")

# Seconds between two repetitions.
_REPEAT_SECONDS = 0.1


class Gate:
    """Where a script waits until its test lets it go on."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        self._opened.set_result(None)

    @property
    def is_open(self) -> bool:
        return self._opened.done()

    async def wait(self) -> None:
        # Shielded, because many may wait here, and one that goes away must not close it for all.
        await asyncio.shield(asyncio.wrap_future(self._opened))


@dataclass(frozen=True)
class Pause:
    """Seconds of silence."""

    seconds: float


@dataclass(frozen=True)
class RepeatUntil:
    """What is said again and again until a gate opens."""

    data: bytes
    gate: Gate


class ConnectionEnd(Enum):
    """How a connection ends before its time."""

    CLOSE = "closed in peace"
    RESET = "reset"


Step = bytes | Gate | Pause | RepeatUntil | ConnectionEnd
Script = tuple[Step, ...]


@dataclass(frozen=True)
class ReceivedRequest:
    """One request, and what became of its connection."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    # The client has closed the connection, or we have.
    closed: threading.Event
    # The script was played to its end.
    script_done: threading.Event = field(default_factory=threading.Event)
    # How many bytes have left us, by a list so that it can grow.
    write_sizes: list[int] = field(default_factory=list[int])

    def json(self) -> JsonObject:
        return read_object(self.body)

    @property
    def bytes_written(self) -> int:
        return sum(self.write_sizes)


ScriptFactory = Callable[[ReceivedRequest], Script]

NO_SCRIPT_BODY = (
    b'{"error":{"message":"no script for this request","type":"x","param":null,"code":null}}'
)


class ScriptedBackend:
    """Listens on a free port in a thread of its own; use it as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted backend")
        self._scripts: defaultdict[str, deque[Script]] = defaultdict(deque)
        self._factories: dict[str, ScriptFactory] = {}
        self._received: defaultdict[str, list[ReceivedRequest]] = defaultdict(list)
        self._request_received = threading.Condition()
        self._connections: set[_Connection] = set()
        self.connection_count = 0
        self.script_errors: list[BaseException | None] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert not self.script_errors, f"scripts that could not be played: {self.script_errors}"

    def _run(self, work: Coroutine[object, object, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_SECONDS)

    async def _listen(self) -> asyncio.Server:
        server = await self._loop.create_server(
            lambda: _Connection(self), "127.0.0.1", 0, backlog=2048
        )
        self.port = cast("int", server.sockets[0].getsockname()[1])
        return server

    async def _stop(self) -> None:
        self._server.close()
        for connection in [*self._connections]:
            connection.abort()
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # What tests say and ask

    def enqueue(self, route: str, *scripts: Script) -> None:
        """Answer the next requests for a model with these scripts, in this order."""
        self._scripts[route] += scripts

    def respond_with(self, route: str, player: ScriptFactory) -> None:
        """Answer every request for a model with what is made for it."""
        self._factories[route] = player

    def received(self, route: str) -> list[ReceivedRequest]:
        """Give the requests for a model so far."""
        with self._request_received:
            return [*self._received[route]]

    def wait_for_request(self, route: str, count: int = 1) -> ReceivedRequest:
        """Wait until so many requests for a model have come; give the last of them."""
        with self._request_received:
            there = self._request_received.wait_for(
                lambda: len(self._received[route]) >= count, TIMEOUT_SECONDS
            )
            assert there, f"{route}: {len(self._received[route])} requests came, not {count}"
            return self._received[route][count - 1]

    # What connections do

    def next_script(self, request: ReceivedRequest) -> Script:
        route = _route(request)
        with self._request_received:
            self._received[route].append(request)
            self._request_received.notify_all()
        if self._scripts[route]:
            return self._scripts[route].popleft()
        player = self._factories.get(route)
        return json_reply(NO_SCRIPT_BODY, status=500) if player is None else player(request)

    def connection_opened(self, connection: "_Connection") -> None:
        self.connection_count += 1
        self._connections.add(connection)

    def connection_closed(self, connection: "_Connection") -> None:
        self._connections.discard(connection)


def _route(request: ReceivedRequest) -> str:
    try:
        model: object = cast("JsonObject", json.loads(request.body))["model"]
    except (ValueError, TypeError, KeyError):
        return f"{request.method} {request.target}"
    return str(model)


class _Connection(asyncio.Protocol):
    """Reads requests with the parser that servers use, and plays a script for each."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self._backend = backend
        self._closed = threading.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._expect_request()

    def _expect_request(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._script_task: asyncio.Task[None] | None = None

    # Of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._backend.connection_opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._closed.set()
        self._backend.connection_closed(self)
        if self._script_task is not None:
            self._script_task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        self._transport.abort()

    # Of the parser

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        request = ReceivedRequest(
            method, self._target.decode(), self._headers, bytes(self._body), self._closed
        )
        self._script_task = asyncio.get_running_loop().create_task(self._run_script(request))
        self._script_task.add_done_callback(self._script_ended)

    def _script_ended(self, playing: asyncio.Task[None]) -> None:
        # A mistake in a script must not look like a backend that is slow.
        if not playing.cancelled() and playing.exception() is not None:
            self._backend.script_errors.append(playing.exception())
            self.abort()

    # The script

    async def _run_script(self, request: ReceivedRequest) -> None:
        for step in self._backend.next_script(request):
            match step:
                case bytes():
                    await self._write(step, request)
                case Gate():
                    await step.wait()
                case Pause():
                    await asyncio.sleep(step.seconds)
                case RepeatUntil():
                    while not step.gate.is_open:
                        await self._write(step.data, request)
                        await asyncio.sleep(_REPEAT_SECONDS)
                case ConnectionEnd.CLOSE:
                    self._transport.close()
                case ConnectionEnd.RESET:
                    self._reset()
        self._expect_request()
        request.script_done.set()

    async def _write(self, data: bytes, request: ReceivedRequest) -> None:
        # A turn of the loop between two pieces, so that they leave as two.
        await asyncio.sleep(0)
        self._transport.write(data)
        request.write_sizes.append(len(data))
        await self._writable.wait()

    def _reset(self) -> None:
        plug = cast("socket.socket", self._transport.get_extra_info("socket"))
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


# Scripts

Headers = dict[str, str]
JSON: Headers = {"Content-Type": "application/json"}
SSE: Headers = {"Content-Type": "text/event-stream; charset=utf-8"}


def reply_head(status: int, headers: Headers) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {headers[name]}" for name in headers)]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def json_reply(body: bytes, *, status: int = 200, headers: Headers | None = None) -> Script:
    """Answer whole, with a length."""
    known = {**JSON, "Content-Length": str(len(body)), **(headers or {})}
    return (reply_head(status, known) + body,)


def stream_head(headers: Headers | None = None) -> bytes:
    """Begin a stream in chunks."""
    return reply_head(200, {**SSE, "Transfer-Encoding": "chunked", **(headers or {})})


def stream_reply(*pieces: Step, headers: Headers | None = None) -> Script:
    """Answer with a stream: bytes become chunks, all else happens between them."""
    return (stream_head(headers), *(_chunked(piece) for piece in pieces if piece), LAST_CHUNK)


def _chunked(piece: Step) -> Step:
    match piece:
        case bytes():
            return chunk(piece)
        case RepeatUntil():
            return replace(piece, data=chunk(piece.data))
        case _:
            return piece


def truncated_reply(*pieces: Step, end: ConnectionEnd = ConnectionEnd.CLOSE) -> Script:
    """Begin a stream, and break off without its last chunk."""
    return (*stream_reply(*pieces)[:-1], end)


def reply_until_close(*pieces: Step) -> Script:
    """Answer with a stream that ends where the connection does, as old servers do."""
    return (reply_head(200, {**SSE, "Connection": "close"}), *pieces, ConnectionEnd.CLOSE)
