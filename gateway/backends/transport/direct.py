"""HTTP/1.1 straight over asyncio, behind the interface of httpx.

It exists because the usual transports cost more than all else that the gateway does.
"""

import ssl
from typing import Self

import httpx

from gateway.backends.connection import Connection
from gateway.backends.pool import Limits, Origin, Pool, Timeouts, closed
from gateway.backends.transport.head import write_head
from gateway.backends.transport.target import CONNECTED, ORIGIN, Content, origin_of

NO_PATIENCE_SAID = Timeouts()


class DirectTransport(httpx.AsyncBaseTransport):
    """Sends requests to backends, and gives their answers as they come.

    Of the timeouts in a request only `connect` and `pool` are minded; for the others the caller
    cancels. Bodies are given as they were sent: nothing is decompressed. An answer must be closed;
    before its end that closes the connection, so that the backend can stop its work.
    """

    def __init__(self, limits: Limits = Limits(), context: ssl.SSLContext | None = None) -> None:  # noqa: B008 - a frozen value
        self._limits = limits
        self._context = context
        self._pools: dict[Origin, Pool] = {}
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and give the answer when its head is there."""
        body = await content_of(request)
        head = write_head(request, len(body))
        patience = patience_of(request)
        without_body = request.method == "HEAD"
        pool = self._pool(request.extensions.get(ORIGIN) or origin_of(request.url))
        connection = await pool.acquire(patience)
        _tell_connected(request)
        try:
            try:
                await connection.send_request(head, body, without_body=without_body)
            except httpx.TransportError:
                if not connection.stale:
                    raise
                # The server had closed an idle connection while we wrote: nobody's failure.
                connection = await pool.replace(connection, patience)
                await connection.send_request(head, body, without_body=without_body)
        except BaseException:
            pool.discard(connection)
            raise
        return httpx.Response(
            connection.status, headers=connection.headers, stream=ResponseStream(pool, connection)
        )

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, origin: Origin) -> Pool:
        if self._closed:
            raise closed()
        pool = self._pools.get(origin)
        if pool is None:
            context = self._context_for(origin.scheme)
            pool = self._pools[origin] = Pool(origin, self._limits, context)
        return pool

    def _context_for(self, scheme: str) -> ssl.SSLContext | None:
        if scheme == "http":
            return None
        if self._context is None:
            self._context = httpx.create_ssl_context()
        return self._context


class ResponseStream(httpx.AsyncByteStream):
    """The body of an answer: gives what came since it was last asked, as soon as something came.

    A wait that is cancelled does no harm: the next one goes on where it was.
    """

    __slots__ = ("_connection", "_pool", "_whole")

    def __init__(self, pool: Pool, connection: Connection) -> None:
        self._pool = pool
        # None: given back.
        self._connection: Connection | None = connection
        # Given to its end.
        self._whole = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise self._after_the_end()
        while not (chunk := connection.read_available()):
            if connection.complete:
                self._finish(connection)
                raise StopAsyncIteration
            if connection.failure is not None:
                await self.aclose()
                raise connection.failure
            await connection.wait_readable()
        if connection.complete:
            self._finish(connection)
        return chunk

    async def aclose(self) -> None:
        """Give the connection back, or close it when the answer is not at its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)

    def _finish(self, connection: Connection) -> None:
        self._connection = None
        self._whole = True
        self._pool.release(connection)

    def _after_the_end(self) -> Exception:
        """Say what an answer gives that was given back: a cut one must not look whole."""
        return StopAsyncIteration() if self._whole else httpx.StreamClosed()


def _tell_connected(request: httpx.Request) -> None:
    tell = request.extensions.get(CONNECTED)
    if tell is not None:
        tell()


async def content_of(request: httpx.Request) -> bytes:
    """Give the whole body of a request."""
    if isinstance(request.stream, Content):
        return request.stream.content
    return await request.aread()


def patience_of(request: httpx.Request) -> Timeouts:
    """Give how long a request may wait before it is sent."""
    timeout = request.extensions.get("timeout")
    if timeout is None:
        return NO_PATIENCE_SAID
    return Timeouts(pool=timeout.get("pool"), connect=timeout.get("connect"))
