"""The pool of the connections to one origin."""

import asyncio
import socket
import ssl
from collections import deque
from contextlib import suppress

import httpx
from msgspec import Struct

from gateway.backends.connection import Connection

# A model may take minutes before its first token. Without TCP keepalive, routers drop the idle
# connection (some after 350 seconds), and the failure of a backend is not noticed.
_KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}
# Some systems do not have all options.
SOCKET_OPTIONS: list[tuple[int, int, int]] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _KEEPALIVE_OPTIONS.items()
        if hasattr(socket, name)
    ),
]


class PoolLimits(Struct, frozen=True):
    """The limits for the number of connections to an origin and for their idle time."""

    connections: int = 1000
    idle_seconds: float = 60


class ConnectTimeouts(Struct, frozen=True):
    """Seconds to wait for a free slot in the pool, and for a connection; None for no limit."""

    pool: float | None = None
    connect: float | None = None


class Pool:
    """A pool of connections to one origin.

    There are as many slots as connections are allowed. A slot is held by an idle connection or by
    a request. Waiting requests are served in order of arrival: while one waits, no connection is
    idle and no slot is free.
    """

    def __init__(
        self, host: str, port: int, limits: PoolLimits, ssl_context: ssl.SSLContext | None
    ) -> None:
        self._host = host
        self._port = port
        self._limits = limits
        self._ssl_context = ssl_context
        self._loop = asyncio.get_running_loop()
        self._connections: set[Connection] = set()
        # The last element is the most recently used and is taken first, so that the others expire.
        self._idle: list[Connection] = []
        self._free_slots = limits.connections
        # Each waiter gets a connection, or None for a slot in which to open one.
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False
        self._retired = False

    async def acquire(self, timeouts: ConnectTimeouts) -> Connection:
        """Return an idle or a new connection, which the caller must release or discard."""
        self._check_open()
        if self._idle:
            return self._idle.pop()
        if self._free_slots:
            self._free_slots -= 1
        elif (connection := await self._wait_for_slot(timeouts.pool)) is not None:
            return connection
        try:
            return await self._connect(timeouts.connect)
        except BaseException:
            self._release_slot()
            raise

    async def replace(self, connection: Connection, timeouts: ConnectTimeouts) -> Connection:
        """Return a new connection in the slot of an unusable one."""
        connection.abort()
        return await self._connect(timeouts.connect)

    def release(self, connection: Connection) -> None:
        """Take a connection back; close it if its response was not read to the end."""
        if self._closed or self._retired or not connection.reusable:
            self.discard(connection)
            return
        connection.mark_idle(self._loop.time())
        if not self._hand_over(connection):
            self._idle.append(connection)
            self._schedule_expiry()

    def discard(self, connection: Connection) -> None:
        """Close a connection at once and free its slot."""
        connection.abort()
        self._release_slot()

    def retire(self) -> None:
        """Close the idle connections, and from now on each connection after its request."""
        self._retired = True
        for connection in [*self._idle]:
            connection.close()

    async def aclose(self) -> None:
        """Close every connection, and fail the requests that wait for one."""
        self._closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(closed_error())
        connections = tuple(self._connections)
        for connection in connections:
            connection.abort()
        if connections:
            await asyncio.wait([connection.lost for connection in connections])

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error()

    # Connecting

    async def _connect(self, timeout: float | None) -> Connection:  # noqa: ASYNC109 - errors differ
        """Open a connection in a slot that the caller holds."""
        self._check_open()
        address = f"{self._host}:{self._port}"
        try:
            async with asyncio.timeout(timeout):
                connection = await self._open()
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"Connecting to {address} timed out.") from error
        except (OSError, UnicodeError) as error:
            # A host name that cannot be encoded raises a UnicodeError.
            raise httpx.ConnectError(f"Connecting to {address} failed: {error}") from error
        if self._closed:
            connection.abort()
        self._check_open()
        return connection

    async def _open(self) -> Connection:
        transport, connection = await self._loop.create_connection(
            lambda: Connection(self._on_close),
            self._host,
            self._port,
            ssl=self._ssl_context,
            server_hostname=self._host if self._ssl_context is not None else None,
        )
        self._connections.add(connection)
        connection.lost.add_done_callback(lambda _: self._connections.discard(connection))
        _enable_tcp_keepalive(transport)
        return connection

    def _on_close(self, connection: Connection) -> None:
        """Free the slot of an idle connection; `discard` frees the slot of a request."""
        if connection in self._idle:
            self._idle.remove(connection)
            self._release_slot()

    # Slots

    async def _wait_for_slot(self, timeout: float | None) -> Connection | None:  # noqa: ASYNC109 - errors differ
        waiter: asyncio.Future[Connection | None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter
        except TimeoutError as error:
            self._withdraw(waiter)
            raise httpx.PoolTimeout(f"Too many requests to {self._host}:{self._port}.") from error
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def _withdraw(self, waiter: asyncio.Future[Connection | None]) -> None:
        """Remove a waiter; pass a slot that it received at the same moment to the next waiter."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        if not waiter.done() or waiter.cancelled() or waiter.exception() is not None:
            return
        match waiter.result():
            case None:
                self._release_slot()
            case connection:
                self.release(connection)

    def _release_slot(self) -> None:
        if not self._hand_over(None):
            self._free_slots += 1

    def _hand_over(self, connection: Connection | None) -> bool:
        """Pass a connection, or a free slot for None, to the first waiter, if there is one."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    # Expiry

    def _schedule_expiry(self) -> None:
        if self._expiry is None and self._idle:
            expires_at = self._idle[0].idle_since + self._limits.idle_seconds
            self._expiry = self._loop.call_at(expires_at, self._expire)

    def _expire(self) -> None:
        """Close the connections that were idle for too long, which are first in the list."""
        self._expiry = None
        limit = self._loop.time() - self._limits.idle_seconds
        while self._idle and self._idle[0].idle_since <= limit:
            self._idle[0].close()
        self._schedule_expiry()


def closed_error() -> httpx.ConnectError:
    """Return the error for requests after the transport was closed."""
    return httpx.ConnectError("The transport is closed.")


def _enable_tcp_keepalive(transport: asyncio.BaseTransport) -> None:
    raw: socket.socket | None = transport.get_extra_info("socket")
    if raw is None or transport.is_closing():
        return
    # Some systems raise an error if the backend has closed already; so will the next write.
    with suppress(OSError):
        for level, option, value in SOCKET_OPTIONS:
            raw.setsockopt(level, option, value)
