"""The connections to one origin: how many there may be, and which are idle."""

import asyncio
import socket
import ssl
from collections import deque
from contextlib import suppress
from typing import NamedTuple

import httpx
from msgspec import Struct

from gateway.backends.connection import Connection

# How the sockets to backends are set.


# A model may think for minutes before it says a word. Without a sign of life in between, routers
# forget the connection (some after 350 seconds), and a backend that is gone is not noticed.
_SECONDS_OF_SILENCE = 60
_SIGNS_UNANSWERED = 5

_OPTIONS = {
    "TCP_KEEPIDLE": _SECONDS_OF_SILENCE,
    "TCP_KEEPINTVL": _SECONDS_OF_SILENCE,
    "TCP_KEEPCNT": _SIGNS_UNANSWERED,
}

# Not every system has all of them.
SOCKET_OPTIONS: list[tuple[int, int, int]] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _OPTIONS.items()
        if hasattr(socket, name)
    ),
]


def enable_tcp_keepalive(transport: asyncio.BaseTransport) -> None:
    """Have the system give signs of life on a connection."""
    raw: socket.socket | None = transport.get_extra_info("socket")
    if raw is None or transport.is_closing():
        return
    # Some systems refuse when the other side has closed already; whoever writes will see that.
    with suppress(OSError):
        for level, option, value in SOCKET_OPTIONS:
            raw.setsockopt(level, option, value)


class Origin(NamedTuple):
    """Where connections go."""

    scheme: str
    host: str
    port: int


class PoolLimits(Struct, frozen=True):
    """How many connections there may be to an origin, and how long one may be idle."""

    connections: int = 1000
    idle_seconds: float = 60


class ConnectTimeouts(Struct, frozen=True):
    """How many seconds to wait for a place in the pool, and for a connection; None: for ever."""

    pool: float | None = None
    connect: float | None = None


class Pool:
    """The connections to one origin.

    There are as many places as there may be connections. A place is held by an idle connection or
    by a request, and passed on by `_vacate`. Who waits for one is served in the order of coming:
    as long as somebody waits, no connection is idle and no place is free.
    """

    def __init__(self, origin: Origin, limits: PoolLimits, context: ssl.SSLContext | None) -> None:
        self._origin = origin
        self._limits = limits
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._connections: set[Connection] = set()
        # The last one used is the next one used, so that those not needed grow old.
        self._idle: list[Connection] = []
        self._places = limits.connections
        # Given a connection, or a place to open one.
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False

    async def acquire(self, patience: ConnectTimeouts) -> Connection:
        """Give an idle connection or a new one. It must be released or discarded."""
        self._check_open()
        if self._idle:
            return self._idle.pop()
        if self._places:
            self._places -= 1
        elif (connection := await self._wait(patience.pool)) is not None:
            return connection
        try:
            return await self.connect(patience)
        except BaseException:
            self._release_slot()
            raise

    async def connect(self, patience: ConnectTimeouts) -> Connection:
        """Open a connection in a place that the caller holds."""
        self._check_open()
        try:
            async with asyncio.timeout(patience.connect):
                connection = await self._open()
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"No connection to {self._address} in time.") from error
        except (OSError, UnicodeError) as error:
            # A UnicodeError is of a host name that cannot be one.
            raise httpx.ConnectError(f"No connection to {self._address}: {error}") from error
        if self._closed:
            connection.abort()
        self._check_open()
        return connection

    async def replace(self, connection: Connection, patience: ConnectTimeouts) -> Connection:
        """Open a connection in the place of one that is no good any more."""
        connection.abort()
        return await self.connect(patience)

    def release(self, connection: Connection) -> None:
        """Take a connection back, whose answer is whole."""
        if self._closed or not connection.reusable:
            self.discard(connection)
            return
        connection.mark_idle(self._loop.time())
        if not self._pass_on(connection):
            self._idle.append(connection)
            self._expire_later()

    def discard(self, connection: Connection) -> None:
        """Close a connection at once, and free its place."""
        connection.abort()
        self._release_slot()

    async def aclose(self) -> None:
        """Close every connection, and send away who waits."""
        self._closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(closed())
        connections = tuple(self._connections)
        for connection in connections:
            connection.abort()
        if connections:
            await asyncio.wait([connection.lost for connection in connections])

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    @property
    def _address(self) -> str:
        return f"{self._origin.host}:{self._origin.port}"

    async def _open(self) -> Connection:
        secure = self._context is not None
        transport, connection = await self._loop.create_connection(
            lambda: Connection(self._gone),
            self._origin.host,
            self._origin.port,
            ssl=self._context,
            server_hostname=self._origin.host if secure else None,
        )
        self._connections.add(connection)
        connection.lost.add_done_callback(lambda _: self._connections.discard(connection))
        enable_tcp_keepalive(transport)
        return connection

    def _gone(self, connection: Connection) -> None:
        """Free the place of a connection that was idle. A request frees its own."""
        if connection in self._idle:
            self._idle.remove(connection)
            self._release_slot()

    # Waiting

    async def _wait(self, seconds: float | None) -> Connection | None:
        waiter: asyncio.Future[Connection | None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                return await waiter
        except TimeoutError as error:
            self._withdraw(waiter)
            raise httpx.PoolTimeout(f"Too many requests to {self._address}.") from error
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise

    def _withdraw(self, waiter: asyncio.Future[Connection | None]) -> None:
        """Stop waiting; what was given in the same moment goes to the next."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if not waiter.done() or waiter.cancelled() or waiter.exception() is not None:
            return
        match waiter.result():
            case None:
                self._release_slot()
            case connection:
                self.release(connection)

    def _release_slot(self) -> None:
        if not self._pass_on(None):
            self._places += 1

    def _pass_on(self, given: Connection | None) -> bool:
        """Give a connection, or the place for one, to who waited longest."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(given)
                return True
        return False

    # Growing old

    def _expire_later(self) -> None:
        if self._expiry is None and self._idle:
            moment = self._idle[0].idle_since + self._limits.idle_seconds
            self._expiry = self._loop.call_at(moment, self._expire)

    def _expire(self) -> None:
        """Close the connections that were idle for too long: those at the bottom."""
        self._expiry = None
        limit = self._loop.time() - self._limits.idle_seconds
        while self._idle and self._idle[0].idle_since <= limit:
            self._idle[0].close()
        self._expire_later()


def closed() -> httpx.ConnectError:
    """Say that no request is sent any more."""
    return httpx.ConnectError("The transport is closed.")
