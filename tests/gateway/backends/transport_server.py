"""A server of exact bytes for the tests of the transport, in the test's own event loop."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import uvloop

from gateway.backends.pool import PoolLimits
from gateway.backends.transport import DirectTransport, RequestTemplate
from tests.gateway.scripted import PATIENCE

Loop = Literal["asyncio", "uvloop"]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Peer:
    """One connection to the server, as the server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """Read one request with its body; b"" when the client has closed."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            return error.partial
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return head + await self._reader.readexactly(length)

    async def send(self, *pieces: bytes) -> None:
        """Send each piece by itself, as far as the system lets us."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def closed(self) -> None:
        """Wait until the client has closed, politely or not."""
        try:
            while await self._reader.read(65536):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        """Close politely."""
        self._writer.close()

    def reset(self) -> None:
        """Close so that the client sees a reset."""
        raw: Any = self._writer.get_extra_info("socket")
        # To linger for no time at all is to reset.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


class Server:
    """What the tests know of the running server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections = 0

    def target(self, path: str = "/v1/chat/completions") -> RequestTemplate:
        return RequestTemplate(self.address + path, connect_timeout=PATIENCE)


@asynccontextmanager
async def serving(
    script: Script, context: ssl.SSLContext | None = None
) -> AsyncGenerator[Server, None]:
    """Run a server that plays the script on each connection; what fails there fails the test."""
    running: set[asyncio.Task[None]] = set()
    failures: list[BaseException] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            await script(Peer(reader, writer))
        except ConnectionError:
            pass
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(play(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    scheme = "http" if context is None else "https"
    port: int = listener.sockets[0].getsockname()[1]
    server = Server(f"{scheme}://localhost:{port}" if context else f"{scheme}://127.0.0.1:{port}")
    try:
        yield server
    finally:
        listener.close()
        tasks = tuple(running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failures:
        raise failures[0]


def always(*pieces: bytes, close: bool = False) -> Script:
    """Answer every request with the same bytes."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(*pieces)
            if close:
                return

    return script


def chunks_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """Give the body as it comes."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return aiter(response.stream)


async def ask(
    transport: httpx.AsyncBaseTransport, server: Server, body: bytes = b"{}"
) -> tuple[int, bytes]:
    """Send a request, and give the status and the whole body."""
    response = await transport.handle_async_request(server.target().post(body))
    try:
        chunks = [chunk async for chunk in chunks_of(response)]
    finally:
        await response.aclose()
    return response.status_code, b"".join(chunks)


@asynccontextmanager
async def direct(limits: PoolLimits = PoolLimits()) -> AsyncGenerator[DirectTransport, None]:  # noqa: B008 - a frozen value
    """Give a transport that is closed in the end."""
    transport = DirectTransport(limits)
    try:
        yield transport
    finally:
        await transport.aclose()


def run(loop: Loop, main: Coroutine[Any, Any, None]) -> None:
    """Run a test in an event loop of the kind; what hangs fails."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main

    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(bounded())
