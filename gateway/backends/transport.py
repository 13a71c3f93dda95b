"""HTTP transports for backends, behind httpx's transport interface.

`DirectTransport` implements HTTP/1.1 on asyncio, because httpx's own transport takes more CPU time
than everything else in the gateway. A proxy requires httpx's transport.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Self, cast

import httpx

from gateway.backends.connection import Connection
from gateway.backends.pool import SOCKET_OPTIONS, ConnectTimeouts, Pool, PoolLimits, closed_error
from gateway.config.schema import BackendConfig, TlsConfig

# The event of httpx's `trace` extension before a request is sent over an open connection.
SENDING_EVENT = "http11.send_request_headers.started"

_DEFAULT_PORTS = {"http": 80, "https": 443}
_NO_TIMEOUTS = ConnectTimeouts()
# A request line, then headers: a name of token characters, and a value without control characters
# other than the tab (RFC 9110, sections 5.5 and 5.6.2).
_HEAD = re.compile(
    rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP/1\.1\r\n"
    rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*"
)


def make_transport(backend: BackendConfig) -> "DirectTransport | LibraryTransport":
    """Return the configured transport for a backend; with a proxy it is always that of httpx.

    Raises `OSError` if a file of the TLS settings is missing or invalid.
    """
    limits = PoolLimits(connections=backend.max_connections)
    ssl_context = make_ssl_context(backend.tls) if backend.url.startswith("https:") else None
    if backend.transport == "direct" and backend.proxy is None:
        return DirectTransport(limits, ssl_context)
    return make_library_transport(backend)


def make_library_transport(backend: BackendConfig) -> "LibraryTransport":
    """Return httpx's transport for a backend, which can stream the body of a request, too."""
    limits = PoolLimits(connections=backend.max_connections)
    ssl_context = make_ssl_context(backend.tls) if backend.url.startswith("https:") else None
    return LibraryTransport(
        httpx.AsyncHTTPTransport(
            proxy=backend.proxy,
            # Without TLS nothing is verified, and loading all certificate authorities takes time.
            verify=ssl_context or False,
            limits=httpx.Limits(
                max_connections=limits.connections,
                max_keepalive_connections=limits.connections,
                keepalive_expiry=limits.idle_seconds,
            ),
            socket_options=SOCKET_OPTIONS,
        )
    )


def make_ssl_context(tls: TlsConfig) -> ssl.SSLContext:
    """Return the TLS context for the settings of a backend."""
    if tls.verify and tls.ca_file is not None:
        context = ssl.create_default_context(cafile=tls.ca_file)
    else:
        context = httpx.create_ssl_context(verify=tls.verify)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    # Some servers require ALPN, and both transports speak only HTTP/1.1.
    context.set_alpn_protocols(["http/1.1"])
    return context


class DirectTransport(httpx.AsyncBaseTransport):
    """A transport with its own connection pools.

    Of the timeouts in a request, only `connect` and `pool` apply; for others the caller cancels the
    request. `SENDING_EVENT` is the only event for the `trace` extension. Bodies are not
    decompressed. A response must be closed; closing it before its end closes the connection, so
    that the backend can stop its work.
    """

    def __init__(
        self,
        limits: PoolLimits = PoolLimits(),  # noqa: B008 - a frozen value
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits
        self._ssl_context = ssl_context
        # By scheme, host and port; the port is None if it is the default of the scheme.
        self._pools: dict[tuple[str, bytes, int | None], Pool] = {}
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response as soon as its head has arrived."""
        body = await request.aread()
        head = write_head(request, len(body))
        timeouts = _read_timeouts(request)
        pool = self._pool_for(request.url)
        connection = await pool.acquire(timeouts)
        expects_body = request.method != "HEAD"
        try:
            trace = request.extensions.get("trace")
            if trace is not None:
                await trace(SENDING_EVENT, {"request": request})
            try:
                await connection.send_request(head, body, expects_body=expects_body)
            except httpx.TransportError:
                if not connection.stale:
                    raise
                # The backend closed the idle connection while the request was on its way.
                connection = await pool.replace(connection, timeouts)
                await connection.send_request(head, body, expects_body=expects_body)
        except BaseException:
            pool.discard(connection)
            raise
        return httpx.Response(
            connection.status, headers=connection.headers, stream=ResponseStream(pool, connection)
        )

    def retire(self) -> None:
        """Close each connection once it is idle: no new requests will be sent."""
        for pool in self._pools.values():
            pool.retire()

    async def aclose(self) -> None:
        """Close all connections, including those in use."""
        self._closed = True
        for pool in self._pools.values():
            await pool.aclose()

    def _pool_for(self, url: httpx.URL) -> Pool:
        if self._closed:
            raise closed_error()
        key = (url.scheme, url.raw_host, url.port)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._make_pool(url)
        return pool

    def _make_pool(self, url: httpx.URL) -> Pool:
        if url.scheme not in _DEFAULT_PORTS:
            raise httpx.UnsupportedProtocol(f"Unsupported URL scheme {url.scheme!r}.")
        if url.scheme == "https" and self._ssl_context is None:
            self._ssl_context = httpx.create_ssl_context()
        ssl_context = self._ssl_context if url.scheme == "https" else None
        port = url.port or _DEFAULT_PORTS[url.scheme]
        return Pool(url.raw_host.decode("ascii"), port, self._limits, ssl_context)


class ResponseStream(httpx.AsyncByteStream):
    """The body of a response; each chunk is all data that has arrived since the last chunk.

    Cancelling the wait for a chunk loses no data.
    """

    __slots__ = ("_connection", "_ended", "_pool")

    def __init__(self, pool: Pool, connection: Connection) -> None:
        self._pool = pool
        # None after the connection was released.
        self._connection: Connection | None = connection
        # Whether the body was read to its end.
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            # A truncated body must not look complete.
            raise StopAsyncIteration if self._ended else httpx.StreamClosed
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
        """Release the connection; the pool closes it before the end of the body."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)

    def _finish(self, connection: Connection) -> None:
        self._connection = None
        self._ended = True
        self._pool.release(connection)


class LibraryTransport(httpx.AsyncBaseTransport):
    """The transport of httpx, which counts its requests so that it can be closed after them."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport
        self._running = 0
        self._retired = False
        self._closing: asyncio.Task[None] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response as soon as its head has arrived."""
        self._running += 1
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException:
            self._end_request()
            raise
        stream = cast("httpx.AsyncByteStream", response.stream)
        response.stream = _CountedStream(stream, self._end_request)
        return response

    def retire(self) -> None:
        """Close all connections once no request is running: no new ones will be sent."""
        self._retired = True
        self._close_if_unused()

    async def aclose(self) -> None:
        """Close all connections, including those in use."""
        await self._transport.aclose()

    def _end_request(self) -> None:
        self._running -= 1
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._retired and not self._running:
            self._closing = asyncio.get_running_loop().create_task(self.aclose())


class _CountedStream(httpx.AsyncByteStream):
    """The body of a response that calls a function once when it is closed."""

    __slots__ = ("_on_close", "_stream")

    def __init__(self, stream: httpx.AsyncByteStream, on_close: Callable[[], None]) -> None:
        self._stream = stream
        self._on_close: Callable[[], None] | None = on_close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            if self._on_close is not None:
                self._on_close()
                self._on_close = None


def _read_timeouts(request: httpx.Request) -> ConnectTimeouts:
    timeout = request.extensions.get("timeout")
    if timeout is None:
        return _NO_TIMEOUTS
    return ConnectTimeouts(pool=timeout.get("pool"), connect=timeout.get("connect"))


def write_head(request: httpx.Request, length: int) -> bytes:
    """Write the request line and the headers, with a Host and the length of the body.

    Raises `httpx.LocalProtocolError` for a header that contains another header or request.
    """
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    missing_host, missing_length = True, length > 0
    for name, value in request.headers.raw:
        match name.lower():
            case b"host":
                missing_host = False
            case b"content-length" | b"transfer-encoding":
                # The whole body is known, so its length is written below.
                missing_length = True
                continue
            case _:
                pass
        lines.append(b"%b: %b\r\n" % (name, value))
    if missing_host:
        lines.append(b"Host: %b\r\n" % request.url.netloc)
    if missing_length:
        lines.append(b"Content-Length: %d\r\n" % length)
    head = b"".join(lines)
    # Lines are counted, because the pattern accepts a line break in a value as the next header.
    if head.count(b"\n") != len(lines) or _HEAD.fullmatch(head) is None:
        raise httpx.LocalProtocolError("A request header contains invalid characters.")
    return head + b"\r\n"
