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

from tests.judges.reading import JsonObject, read_object

Result = TypeVar("Result")

# Long enough for a machine that is busy with other things and stalls now and then; nothing waits
# so long unless it fails.
PATIENCE = 60.0
# Seconds between two repetitions.
_OFTEN = 0.1


class Gate:
    """Where a script waits until its test lets it go on."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        self._opened.set_result(None)

    @property
    def is_open(self) -> bool:
        return self._opened.done()

    async def passed(self) -> None:
        # Shielded, because many may wait here, and one that goes away must not close it for all.
        await asyncio.shield(asyncio.wrap_future(self._opened))


@dataclass(frozen=True)
class Pause:
    """Seconds of silence."""

    seconds: float


@dataclass(frozen=True)
class Meanwhile:
    """What is said again and again until a gate opens."""

    said: bytes
    gate: Gate


class End(Enum):
    """How a connection ends before its time."""

    CLOSE = "closed in peace"
    RESET = "reset"


Step = bytes | Gate | Pause | Meanwhile | End
Script = tuple[Step, ...]


@dataclass(frozen=True)
class Received:
    """One request, and what became of its connection."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    # The client has closed the connection, or we have.
    closed: threading.Event
    # The script was played to its end.
    played: threading.Event = field(default_factory=threading.Event)
    # How many bytes have left us, by a list so that it can grow.
    pieces: list[int] = field(default_factory=list[int])

    def json(self) -> JsonObject:
        return read_object(self.body)

    @property
    def written(self) -> int:
        return sum(self.pieces)


Player = Callable[[Received], Script]

NO_SCRIPT = (
    b'{"error":{"message":"no script for this request","type":"x","param":null,"code":null}}'
)


class ScriptedBackend:
    """Listens on a free port in a thread of its own; use it as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted backend")
        self._scripts: defaultdict[str, deque[Script]] = defaultdict(deque)
        self._players: dict[str, Player] = {}
        self._received: defaultdict[str, list[Received]] = defaultdict(list)
        self._news = threading.Condition()
        self._connections: set[_Connection] = set()
        self.accepted = 0
        self.mistakes: list[BaseException | None] = []
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
        assert not self.mistakes, f"scripts that could not be played: {self.mistakes}"

    def _run(self, work: Coroutine[object, object, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

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

    def play(self, route: str, *scripts: Script) -> None:
        """Answer the next requests for a model with these scripts, in this order."""
        self._scripts[route] += scripts

    def play_always(self, route: str, player: Player) -> None:
        """Answer every request for a model with what is made for it."""
        self._players[route] = player

    def received(self, route: str) -> list[Received]:
        """Give the requests for a model so far."""
        with self._news:
            return [*self._received[route]]

    def wait(self, route: str, count: int = 1) -> Received:
        """Wait until so many requests for a model have come; give the last of them."""
        with self._news:
            there = self._news.wait_for(lambda: len(self._received[route]) >= count, PATIENCE)
            assert there, f"{route}: {len(self._received[route])} requests came, not {count}"
            return self._received[route][count - 1]

    # What connections do

    def take(self, request: Received) -> Script:
        route = _route(request)
        with self._news:
            self._received[route].append(request)
            self._news.notify_all()
        if self._scripts[route]:
            return self._scripts[route].popleft()
        player = self._players.get(route)
        return answer(NO_SCRIPT, status=500) if player is None else player(request)

    def opened(self, connection: "_Connection") -> None:
        self.accepted += 1
        self._connections.add(connection)

    def lost(self, connection: "_Connection") -> None:
        self._connections.discard(connection)


def _route(request: Received) -> str:
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
        self._playing: asyncio.Task[None] | None = None

    # Of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._backend.opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._closed.set()
        self._backend.lost(self)
        if self._playing is not None:
            self._playing.cancel()

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
        request = Received(
            method, self._target.decode(), self._headers, bytes(self._body), self._closed
        )
        self._playing = asyncio.get_running_loop().create_task(self._play(request))
        self._playing.add_done_callback(self._played)

    def _played(self, playing: asyncio.Task[None]) -> None:
        # A mistake in a script must not look like a backend that is slow.
        if not playing.cancelled() and playing.exception() is not None:
            self._backend.mistakes.append(playing.exception())
            self.abort()

    # The script

    async def _play(self, request: Received) -> None:
        for step in self._backend.take(request):
            match step:
                case bytes():
                    await self._write(step, request)
                case Gate():
                    await step.passed()
                case Pause():
                    await asyncio.sleep(step.seconds)
                case Meanwhile():
                    while not step.gate.is_open:
                        await self._write(step.said, request)
                        await asyncio.sleep(_OFTEN)
                case End.CLOSE:
                    self._transport.close()
                case End.RESET:
                    self._reset()
        self._expect_request()
        request.played.set()

    async def _write(self, data: bytes, request: Received) -> None:
        # A turn of the loop between two pieces, so that they leave as two.
        await asyncio.sleep(0)
        self._transport.write(data)
        request.pieces.append(len(data))
        await self._writable.wait()

    def _reset(self) -> None:
        plug = cast("socket.socket", self._transport.get_extra_info("socket"))
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


# Scripts

Headers = dict[str, str]
JSON: Headers = {"Content-Type": "application/json"}
SSE: Headers = {"Content-Type": "text/event-stream; charset=utf-8"}


def head(status: int, headers: Headers) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {headers[name]}" for name in headers)]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def answer(body: bytes, *, status: int = 200, headers: Headers | None = None) -> Script:
    """Answer whole, with a length."""
    known = {**JSON, "Content-Length": str(len(body)), **(headers or {})}
    return (head(status, known) + body,)


def begun(headers: Headers | None = None) -> bytes:
    """Begin a stream in chunks."""
    return head(200, {**SSE, "Transfer-Encoding": "chunked", **(headers or {})})


def stream(*pieces: Step, headers: Headers | None = None) -> Script:
    """Answer with a stream: bytes become chunks, all else happens between them."""
    return (begun(headers), *(_chunked(piece) for piece in pieces if piece), LAST_CHUNK)


def _chunked(piece: Step) -> Step:
    match piece:
        case bytes():
            return chunk(piece)
        case Meanwhile():
            return replace(piece, said=chunk(piece.said))
        case _:
            return piece


def cut_stream(*pieces: Step, end: End = End.CLOSE) -> Script:
    """Begin a stream, and break off without its last chunk."""
    return (*stream(*pieces)[:-1], end)


def stream_until_close(*pieces: Step) -> Script:
    """Answer with a stream that ends where the connection does, as old servers do."""
    return (head(200, {**SSE, "Connection": "close"}), *pieces, End.CLOSE)
