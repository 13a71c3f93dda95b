"""A PostgreSQL database that any number of nodes share."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg

from gateway.store.database import Password, Row, Signals, render_sql, sanitize_row
from gateway.store.records import (
    CommitOutcomeUnknownError,
    DatabaseUnavailableError,
    StoreError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    PooledConnection: TypeAlias = PoolConnectionProxy[asyncpg.Record]

# One connection for writing and several for reading.
_MAX_CONNECTIONS: Final = 8
# Longer than any statement takes on a healthy server.
_STATEMENT_TIMEOUT_SECONDS: Final = 30.0
# The delay after a lost notification.
_POLL_SECONDS: Final = 2.0
_CHANNEL: Final = "dragoman"

# Make all queries use their indexes: without statistics of new tables, the planner would read all
# rows. Plan each statement once, because compiling or planning takes longer than running it.
_SERVER_SETTINGS: Final = {
    "application_name": "dragoman",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}

# On a connection that the server has closed, the error depends on how much of the close has been
# received. It can be an internal error of asyncpg.
_CONNECTION_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionError,
)
# Raised by asyncpg instead of sending anything on a connection that it knows to be lost.
_NOT_SENT = (asyncpg.InterfaceError, asyncpg.InternalClientError)
# The server is unreachable, overloaded, shutting down, or does not respond.
_SERVER_UNAVAILABLE = (
    *_CONNECTION_LOST,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    OSError,
    TimeoutError,
)
_ALL_ERRORS = (*_SERVER_UNAVAILABLE, asyncpg.PostgresError)
# All connections of the pool may have been lost.
_READ_ATTEMPTS: Final = _MAX_CONNECTIONS + 1

_SQL: Final = {
    "{bytes}": "BYTEA",
    "{serial}": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "{now}": "EXTRACT(EPOCH FROM clock_timestamp())::DOUBLE PRECISION",
    # An array can be looked up in an index; a subquery would be compared with every row.
    "{in_array}": "= ANY (ARRAY(SELECT json_array_elements_text($2::json)))",
    "{for_share}": "FOR SHARE",
    # Any number that no other program uses: "dragoman" in ASCII.
    "{global_lock}": "SELECT pg_advisory_xact_lock(x'647261676f6d616e'::bigint)",
    "{tables}": "(SELECT relname AS name FROM pg_class WHERE pg_table_is_visible(oid)) AS tables",
}


@cache
def _render(statement: str) -> str:
    return render_sql(statement, _SQL)


@contextmanager
def _translated_errors() -> Generator[None]:
    try:
        yield
    except _SERVER_UNAVAILABLE as error:
        raise DatabaseUnavailableError(None, "the database is unavailable") from error
    except asyncpg.PostgresError as error:
        raise StoreUnavailableError(None, "the database is unavailable") from error


async def open_postgresql(url: str, password: Password = None) -> "PostgresDatabase":
    """Connect to a server."""
    try:
        pool = await asyncpg.create_pool(
            url,
            password=password,
            min_size=1,
            max_size=_MAX_CONNECTIONS,
            command_timeout=_STATEMENT_TIMEOUT_SECONDS,
            server_settings=_SERVER_SETTINGS,
            reset=_skip_reset,
        )
    except (*_ALL_ERRORS, ValueError) as error:
        raise StoreError(f"the database cannot be opened: {error}") from error
    return PostgresDatabase(url, password, pool)


async def _skip_reset(_connection: object) -> None:
    """Omit the reset of a connection and its round trip: nothing outlives a transaction."""


class PostgresDatabase:
    """A pool of connections to a PostgreSQL server."""

    def __init__(self, url: str, password: Password, pool: "Pool") -> None:
        self.signals = Signals()
        self.poll_seconds = _POLL_SECONDS
        self._url = url
        self._password = password
        self._pool = pool
        # Opened when a task first waits for a signal.
        self._listener: Connection | None = None
        self._listener_lock = asyncio.Lock()

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a read-only statement on committed data."""
        query, values = _render(statement), sanitize_row(arguments)
        with _translated_errors():
            for _ in range(_READ_ATTEMPTS - 1):
                with suppress(*_CONNECTION_LOST):
                    return _rows(await self._pool.fetch(query, *values))
            return _rows(await self._pool.fetch(query, *values))

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Run a read-only statement, as `fetch` does."""
        return await self.fetch(statement, *arguments)

    @asynccontextmanager
    async def transaction(self, *, long: bool = False) -> AsyncGenerator["PostgresTransaction"]:  # noqa: ARG002 - only SQLite treats long transactions differently
        """Start a transaction on a connection of the pool."""
        try:
            connection = await self._pool.acquire()
        except _ALL_ERRORS as error:
            raise DatabaseUnavailableError(None, "the database is unavailable") from error
        try:
            transaction = PostgresTransaction(connection)
            block = connection.transaction()
            with _translated_errors():
                await block.start()
            try:
                yield transaction
                await transaction.send_notifications()
            except BaseException:
                # A broken connection has nothing to roll back.
                with suppress(*_ALL_ERRORS):
                    await block.rollback()
                raise
            try:
                await block.commit()
            except _NOT_SENT as error:
                raise DatabaseUnavailableError(None, "the database is unavailable") from error
            except _ALL_ERRORS as error:
                raise CommitOutcomeUnknownError(None, "the database is unavailable") from error
        finally:
            with suppress(*_ALL_ERRORS):
                await self._pool.release(connection)

    async def listen(self) -> None:
        """Listen for notifications on a separate connection; replace it if it was lost."""
        async with self._listener_lock:
            if self._listener is not None and not self._listener.is_closed():
                return
            # Without a listener, waiting tasks poll the database.
            with suppress(*_ALL_ERRORS):
                self._listener = await asyncpg.connect(self._url, password=self._password)
                await self._listener.add_listener(_CHANNEL, self._on_notification)

    def _on_notification(
        self, _connection: object, _process: int, _channel: str, payload: object
    ) -> None:
        self.signals.fire(str(payload))

    async def close(self) -> None:
        """Close all connections."""
        if self._listener is not None:
            with suppress(*_ALL_ERRORS):
                await self._listener.close()
        await self._pool.close()


class PostgresTransaction:
    """An open transaction."""

    def __init__(self, connection: "PooledConnection") -> None:
        self._connection = connection
        self._notifications: set[str] = set()

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and return its rows."""
        with _translated_errors():
            query, values = _render(statement), sanitize_row(arguments)
            return _rows(await self._connection.fetch(query, *values))

    async def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement once for each row of arguments, in one round trip."""
        with _translated_errors():
            await self._connection.executemany(_render(statement), list(map(sanitize_row, rows)))

    def notify(self, name: str) -> None:
        """Fire the signals of this name on all nodes after the commit."""
        self._notifications.add(name)

    async def send_notifications(self) -> None:
        """Send the notifications to the server, which delivers them after the commit."""
        if self._notifications:
            rows = [(_CHANNEL, name) for name in sorted(self._notifications)]
            await self.execute_many("SELECT pg_notify($1, $2)", rows)


def _rows(records: list[Any]) -> list[Row]:
    """Return records as rows: records can be indexed and unpacked like tuples."""
    return records
