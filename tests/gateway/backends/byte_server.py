"""A server that sends exact bytes, in the test's own event loop, for the transport tests."""

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import httpx

from gateway.backends.client import RequestTemplate, Trace
from gateway.backends.pool import PoolLimits
from gateway.backends.transport import DirectTransport
from tests.gateway.waiting import TIMEOUT_SECONDS

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
# A response that has begun.
HALF = STREAM + b"5\r\nhello\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class Peer:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """Read one request with its body; return b"" when the client has closed."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            return error.partial
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        return head + await self._reader.readexactly(int(length[1]) if length else 0)

    async def respond(self, *chunks: bytes) -> bytes:
        """Read one request, send each chunk of the response, and return the request."""
        request = await self.request()
        if request:
            await self.send(*chunks)
        return request

    async def send(self, *chunks: bytes) -> None:
        """Send each chunk separately, as far as the system allows."""
        for chunk in chunks:
            self._writer.write(chunk)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def closed(self) -> None:
        """Wait until the client has closed or reset the connection."""
        with suppress(ConnectionError):
            while await self._reader.read(65536):
                pass

    async def forward_to(self, host: str, port: int, begin: bytes) -> None:
        """Send bytes to a server, then copy everything in both directions."""
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(begin)
        await asyncio.gather(_copy(self._reader, writer), _copy(reader, self._writer))

    def reset(self) -> None:
        """Close so that the client sees a reset."""
        raw: Any = self._writer.get_extra_info("socket")
        # A linger time of 0 makes close send a reset.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


Script = Callable[[Peer], Awaitable[None]]


class Server:
    """The running server: its address, and how many connections it had."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections = 0

    def request(self, body: bytes = b"{}", trace: Trace | None = None) -> httpx.Request:
        template = RequestTemplate(f"{self.address}/v1/x", connect_timeout=TIMEOUT_SECONDS)
        return template.post(body, trace=trace)


@asynccontextmanager
async def serving(
    script: Script, context: ssl.SSLContext | None = None
) -> AsyncGenerator[Server, None]:
    """Run a server with a script for each connection; an error in a script fails the test."""
    running: set[asyncio.Task[None]] = set()
    failures: list[BaseException] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            with suppress(ConnectionError):
                await script(Peer(reader, writer))
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(play(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    port: int = listener.sockets[0].getsockname()[1]
    server = Server(f"https://localhost:{port}" if context else f"http://127.0.0.1:{port}")
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


def always(*chunks: bytes, close: bool = False) -> Script:
    """Send the same bytes in reply to every request."""

    async def script(peer: Peer) -> None:
        while await peer.respond(*chunks) and not close:
            pass

    return script


class StalledServer:
    """A server that stops within its first response and notices that the client closes."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin
        self.reached = asyncio.Event()
        self.closed = asyncio.Event()

    async def play(self, peer: Peer) -> None:
        if self.closed.is_set():
            # The slot is free again.
            await peer.respond(OK)
            return
        await peer.respond(self._begin)
        self.reached.set()
        await peer.closed()
        self.closed.set()


def chunks_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """Return an iterator over the body as it arrives."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return aiter(response.stream)


class Link:
    """A transport and the server to which it sends requests."""

    def __init__(self, transport: httpx.AsyncBaseTransport, server: Server) -> None:
        self.transport = transport
        self.server = server

    @property
    def connections(self) -> int:
        """Return how many connections the server had."""
        return self.server.connections

    async def begin(self, body: bytes = b"{}", trace: Trace | None = None) -> httpx.Response:
        """Send a request, and return the response when its head has arrived."""
        return await self.transport.handle_async_request(self.server.request(body, trace))

    async def send(self, body: bytes = b"{}") -> tuple[int, bytes]:
        """Send a request; return the status and the whole body of the response."""
        response = await self.begin(body)
        try:
            chunks = [chunk async for chunk in chunks_of(response)]
        finally:
            await response.aclose()
        return response.status_code, b"".join(chunks)

    async def await_slot(self, seconds: float) -> None:
        """Send a request that waits this long for a slot in the pool."""
        request = self.server.request()
        request.extensions["timeout"] = {"pool": seconds}
        await self.transport.handle_async_request(request)


@asynccontextmanager
async def direct(**limits: Any) -> AsyncGenerator[DirectTransport, None]:
    """Return a transport that is closed at the end."""
    async with aclosing(DirectTransport(PoolLimits(**limits))) as transport:
        yield transport


@asynccontextmanager
async def linked(script: Script, **limits: Any) -> AsyncGenerator[Link, None]:
    """Run a server with a script for each connection, and a transport with these limits."""
    async with serving(script) as server, direct(**limits) as transport:
        yield Link(transport, server)
