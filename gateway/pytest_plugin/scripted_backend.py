"""A backend that replies with exact bytes over a real socket.

A script is the reply to one request: bytes that are written unchanged, and what happens between
them. Scripts are chosen by the model of a request, so that many tests can share one backend, and by
method and target if a request names no model.
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
from typing import Self, TypeVar, cast

import httptools

JsonObject = dict[str, object]
Result = TypeVar("Result")

_REPEAT_SECONDS = 0.1
# Long enough for a busy machine that stalls now and then; only a failing test waits so long.
TIMEOUT_SECONDS = 60.0


class Gate:
    """A point where scripts wait until their test opens it."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        """Continue the scripts that wait."""
        self._opened.set_result(None)

    @property
    def is_open(self) -> bool:
        """Whether scripts no longer wait."""
        return self._opened.done()

    async def wait(self) -> None:
        """Wait until the gate is open."""
        # Cancelling one waiting script must not cancel the future for the others.
        await asyncio.shield(asyncio.wrap_future(self._opened))


@dataclass(frozen=True)
class Pause:
    """Seconds of silence."""

    seconds: float


@dataclass(frozen=True)
class RepeatUntil:
    """Data that is repeated until a gate opens."""

    data: bytes
    gate: Gate


class ConnectionEnd(Enum):
    """How the backend ends a connection."""

    CLOSE = "close"
    RESET = "reset"


Step = bytes | Gate | Pause | RepeatUntil | ConnectionEnd
Script = tuple[Step, ...]


@dataclass(frozen=True)
class ReceivedRequest:
    """A request and the state of its connection."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    # Set when either side has closed the connection.
    closed: threading.Event
    # Set when the script has run to its end.
    script_done: threading.Event = field(default_factory=threading.Event)
    # The sizes of the writes so far.
    write_sizes: list[int] = field(default_factory=list[int])

    def json(self) -> JsonObject:
        """Return the body; raise an `AssertionError` unless it is one JSON object."""
        return _read_object(self.body)

    @property
    def bytes_written(self) -> int:
        """The size of the reply so far, with its head."""
        return sum(self.write_sizes)


def _read_object(body: bytes) -> JsonObject:
    try:
        value: object = json.loads(body, object_pairs_hook=_unique_keys)
    except ValueError as error:
        raise AssertionError(f"not JSON: {error}: {body[:200]!r}") from error
    if isinstance(value, dict):
        return cast("JsonObject", value)
    raise AssertionError(f"not a JSON object: {body[:200]!r}")


def _unique_keys(pairs: list[tuple[str, object]]) -> JsonObject:
    """Return an object; most parsers would not notice a repeated key."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError(f"a key is repeated among {[name for name, _ in pairs]}")
    return value


ScriptFactory = Callable[[ReceivedRequest], Script]

ANY_MODEL = ""
NO_SCRIPT_BODY = (
    b'{"error":{"message":"no script for this request","type":"x","param":null,"code":null}}'
)


class ScriptedBackend:
    """A server on a free port with its own thread; use it as a context manager.

    Without `by_model`, all posted requests have the route `ANY_MODEL`.
    """

    def __init__(self, *, by_model: bool = True) -> None:
        self._by_model = by_model
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted backend")
        self._scripts: defaultdict[str, deque[Script | ScriptFactory]] = defaultdict(deque)
        self._factories: dict[str, ScriptFactory] = {}
        self._received: defaultdict[str, list[ReceivedRequest]] = defaultdict(list)
        self._request_received = threading.Condition()
        self.connections: set[_Connection] = set()
        self.connection_count = 0
        self.script_errors: list[BaseException | None] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self.script_errors:
            raise AssertionError(f"scripts failed: {self.script_errors}")

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
        for connection in [*self.connections]:
            connection.abort()
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        """The URL without a path."""
        return f"http://127.0.0.1:{self.port}"

    def enqueue(self, route: str, *scripts: Script | ScriptFactory) -> None:
        """Reply to the next requests for a model with these scripts, in this order."""
        self._scripts[route] += scripts

    def respond_with(self, route: str, factory: ScriptFactory) -> None:
        """Reply to every request for a model with a script that is made for it."""
        self._factories[route] = factory

    def received(self, route: str) -> list[ReceivedRequest]:
        """Return the requests for a model so far."""
        with self._request_received:
            return [*self._received[route]]

    def wait_for_request(self, route: str, count: int = 1) -> ReceivedRequest:
        """Wait for this many requests for a model, and return the last of them."""
        with self._request_received:
            arrived = self._request_received.wait_for(
                lambda: len(self._received[route]) >= count, TIMEOUT_SECONDS
            )
            if not arrived:
                number = len(self._received[route])
                raise AssertionError(f"{route}: {number} of {count} requests arrived")
            return self._received[route][count - 1]

    def next_script(self, request: ReceivedRequest) -> Script:
        """Return the reply to a request that has just arrived."""
        route = self._route(request)
        with self._request_received:
            self._received[route].append(request)
            self._request_received.notify_all()
        script: Script | ScriptFactory | None = self._factories.get(route)
        if self._scripts[route]:
            script = self._scripts[route].popleft()
        if script is None:
            return json_reply(NO_SCRIPT_BODY, status=500)
        return script(request) if callable(script) else script

    def _route(self, request: ReceivedRequest) -> str:
        if request.method == "POST" and not self._by_model:
            return ANY_MODEL
        try:
            model: object = cast("JsonObject", json.loads(request.body))["model"]
        except (ValueError, TypeError, KeyError):
            return f"{request.method} {request.target}"
        return str(model)


class _Connection(asyncio.Protocol):
    """A connection that reads requests and runs a script for each."""

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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._backend.connection_count += 1
        self._backend.connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._closed.set()
        self._backend.connections.discard(self)
        if self._script_task is not None:
            self._script_task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        self._transport.abort()

    # Callbacks of the parser

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

    def _script_ended(self, task: asyncio.Task[None]) -> None:
        # An error in a script must not look like a slow backend.
        if not task.cancelled() and task.exception() is not None:
            self._backend.script_errors.append(task.exception())
            self.abort()

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
        # Yield to the event loop, so that two writes are not merged into one.
        await asyncio.sleep(0)
        self._transport.write(data)
        request.write_sizes.append(len(data))
        await self._writable.wait()

    def _reset(self) -> None:
        connection = cast("socket.socket", self._transport.get_extra_info("socket"))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


# Scripts

Headers = dict[str, str]
JSON: Headers = {"Content-Type": "application/json"}
SSE: Headers = {"Content-Type": "text/event-stream; charset=utf-8"}


def reply_head(status: int, headers: Headers) -> bytes:
    """Return a status line and headers."""
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {headers[name]}" for name in headers)]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """Return data as a chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def json_reply(body: bytes, *, status: int = 200, headers: Headers | None = None) -> Script:
    """Return a reply with a content length."""
    fields = {**JSON, "Content-Length": str(len(body)), **(headers or {})}
    return (reply_head(status, fields) + body,)


def stream_head(headers: Headers | None = None) -> bytes:
    """Return the head of a chunked stream."""
    return reply_head(200, {**SSE, "Transfer-Encoding": "chunked", **(headers or {})})


def stream_reply(*pieces: Step, headers: Headers | None = None) -> Script:
    """Return a stream: bytes become chunks, and other steps happen between them."""
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
    """Return a stream that ends without its last chunk."""
    return (*stream_reply(*pieces)[:-1], end)
