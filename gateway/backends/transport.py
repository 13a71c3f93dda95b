"""Requests that are built from prepared parts: httpx itself takes several times as long."""

import re
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Self

import httpx

from gateway.backends.connection import Connection
from gateway.backends.pool import SOCKET_OPTIONS, ConnectTimeouts, Origin, Pool, PoolLimits, closed
from gateway.config.schema import BackendConfig, TlsConfig

PORTS = {"http": 80, "https": 443}
# The extension of a request that says where it goes.
ORIGIN = "dragoman.origin"
# The extension with whom to tell that there is a connection, and the request is now sent.
CONNECTED = "dragoman.connected"


def origin_of(url: httpx.URL) -> Origin:
    """Tell where connections for a URL go."""
    if url.scheme not in PORTS:
        raise httpx.UnsupportedProtocol(f"No way to speak {url.scheme!r}.")
    return Origin(url.scheme, url.raw_host.decode("ascii"), url.port or PORTS[url.scheme])


class BytesStream(httpx.AsyncByteStream):
    """The body of a request, all of it."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.content


class RequestTemplate:
    """One address of a backend, with the headers that every request there has.

    `connect_timeout` is in seconds, for a connection and for a place in the pool; None: no limit.
    """

    def __init__(
        self,
        url: httpx.URL | str,
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        connect_timeout: float | None = None,
    ) -> None:
        self._url = httpx.URL(url)
        self._headers = [(b"Host", self._url.netloc), *headers]
        # The others are there because httpx's own transport asks for all four.
        limits = {"connect": connect_timeout, "pool": connect_timeout, "read": None, "write": None}
        # Found out once, so that the transport need not take every URL apart.
        self._extensions = {"timeout": limits, ORIGIN: origin_of(self._url)}

    def post(
        self,
        content: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        on_connected: Callable[[], None] | None = None,
    ) -> httpx.Request:
        """Build a POST request, with more headers for this one."""
        length = (b"Content-Length", b"%d" % len(content))
        return httpx.Request(
            "POST",
            self._url,
            headers=[*self._headers, *headers, length],
            stream=BytesStream(content),
            extensions={**self._extensions, CONNECTED: on_connected},
        )

    def get(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> httpx.Request:
        """Build a GET request, with more headers for this one."""
        return httpx.Request(
            "GET",
            self._url,
            headers=[*self._headers, *headers],
            stream=BytesStream(b""),
            extensions=self._extensions,
        )


# The head of a request, as it is written.


# A method and a target, then headers: a name of token characters, and a value of no control
# characters but the tab (RFC 9110, 5.5 and 5.6.2).
HEAD = re.compile(
    rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP/1\.1\r\n"
    rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*"
)


def write_head(request: httpx.Request, length: int) -> bytes:
    """Write the request line and the headers, with a Host and the length of the body.

    Refuses what would read as another header or another request.
    """
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    missing_host, missing_length = True, length > 0
    for name, value in request.headers.raw:
        match name.lower():
            case b"host":
                missing_host = False
            case b"content-length":
                # Ours is right: the whole body is there.
                missing_length = True
                continue
            case b"transfer-encoding":
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
    # A line break within a value would pass as the next header, so the lines are counted.
    if head.count(b"\n") != len(lines) or HEAD.fullmatch(head) is None:
        raise httpx.LocalProtocolError("A header of the request has illegal characters.")
    return head + b"\r\n"


# HTTP/1.1 straight over asyncio, behind the interface of httpx.
#
# It exists because the usual transports cost more than all else that the gateway does.


NO_PATIENCE_SAID = ConnectTimeouts()


class DirectTransport(httpx.AsyncBaseTransport):
    """Sends requests to backends, and gives their answers as they come.

    Of the timeouts in a request only `connect` and `pool` are minded; for the others the caller
    cancels. Bodies are given as they were sent: nothing is decompressed. An answer must be closed;
    before its end that closes the connection, so that the backend can stop its work.
    """

    def __init__(
        self,
        limits: PoolLimits = PoolLimits(),  # noqa: B008 - a frozen value
        context: ssl.SSLContext | None = None,
    ) -> None:
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
    if isinstance(request.stream, BytesStream):
        return request.stream.content
    return await request.aread()


def patience_of(request: httpx.Request) -> ConnectTimeouts:
    """Give how long a request may wait before it is sent."""
    timeout = request.extensions.get("timeout")
    if timeout is None:
        return NO_PATIENCE_SAID
    return ConnectTimeouts(pool=timeout.get("pool"), connect=timeout.get("connect"))


# Which transport serves a backend.


def make_transport(backend: BackendConfig) -> httpx.AsyncBaseTransport:
    """Make the transport for a backend: our own, or that of httpx where a proxy is in between.

    Raises OSError if a file of its TLS settings cannot be read or is not what it should be.
    """
    limits = PoolLimits(connections=backend.max_connections)
    context = make_ssl_context(backend.tls) if backend.url.startswith("https:") else None
    if backend.proxy is None:
        return DirectTransport(limits, context)
    return httpx.AsyncHTTPTransport(
        proxy=backend.proxy,
        # Without TLS there is nothing to verify, and to read all authorities takes its time.
        verify=context or False,
        limits=httpx.Limits(
            max_connections=limits.connections,
            max_keepalive_connections=limits.connections,
            keepalive_expiry=limits.idle_seconds,
        ),
        socket_options=SOCKET_OPTIONS,
    )


def make_ssl_context(tls: TlsConfig) -> ssl.SSLContext:
    """Make the TLS context that the settings ask for."""
    context = trusting(tls)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    # Some servers want to be told what is spoken, and we speak nothing else.
    context.set_alpn_protocols(["http/1.1"])
    return context


def trusting(tls: TlsConfig) -> ssl.SSLContext:
    """Make a context that trusts whom the settings trust."""
    if tls.verify and tls.ca_file is not None:
        return ssl.create_default_context(cafile=tls.ca_file)
    return httpx.create_ssl_context(verify=tls.verify)
