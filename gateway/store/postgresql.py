"""A PostgreSQL server that any number of nodes share."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg

from gateway.store.database import Row, Signals, plain_row, render_sql
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
    Proxy: TypeAlias = PoolConnectionProxy[asyncpg.Record]

# One writes for all, the others read.
_CONNECTIONS: Final = 8
# Longer than any statement of ours takes on a server that is well.
_STATEMENT_SECONDS: Final = 30.0
# A lost announcement costs this much time.
_PATIENCE: Final = 2.0
_CHANNEL: Final = "dragoman"

# All that we ask is found by an index. The planner would not know it of tables that have just been
# filled, and read them whole until their statistics are made; nor does it know that to compile a
# statement, or to plan it anew, takes longer than to run it.
_SETTINGS: Final = {
    "application_name": "dragoman",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}

# What is raised on a connection that the server has closed depends on how much of that was read
# when it is next used: it can be an internal error of the library too.
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionError,
)
# Raised by the library itself, in place of sending anything on a connection that it knows is lost.
_UNSENT = (asyncpg.InterfaceError, asyncpg.InternalClientError)
# A server that is not there, has no room, is being stopped or does not answer.
_AWAY = (
    *_LOST,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    OSError,
    TimeoutError,
)
_FAILURES = (*_AWAY, asyncpg.PostgresError)
# One connection after the other may have been lost while it was idle.
_ATTEMPTS: Final = _CONNECTIONS + 1

_WORDS: Final = {
    "{bytes}": "BYTEA",
    "{serial}": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "{now}": "EXTRACT(EPOCH FROM clock_timestamp())::DOUBLE PRECISION",
    # As an array, which an index can be searched for: a query would be held against every row.
    "{among}": "= ANY (ARRAY(SELECT json_array_elements_text($2::json)))",
    "{shared}": "FOR SHARE",
    # Any number will do that nobody else takes: these are the letters of our name.
    "{alone}": "SELECT pg_advisory_xact_lock(x'647261676f6d616e'::bigint)",
    "{tables}": "(SELECT relname AS name FROM pg_class WHERE pg_table_is_visible(oid)) AS tables",
}


@cache
def _spell(statement: str) -> str:
    return render_sql(statement, _WORDS)


@contextmanager
def _problems() -> Generator[None]:
    try:
        yield
    except _AWAY as problem:
        raise DatabaseUnavailableError(None, "the gateway's database failed") from problem
    except _FAILURES as problem:
        raise StoreUnavailableError(None, "the gateway's database failed") from problem


async def open_postgresql(url: str) -> "PostgresDatabase":
    """Connect to a server."""
    try:
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=_CONNECTIONS,
            command_timeout=_STATEMENT_SECONDS,
            server_settings=_SETTINGS,
            reset=_leave_as_it_is,
        )
    except (*_FAILURES, ValueError) as problem:
        raise StoreError(f"the database cannot be opened: {problem}") from problem
    return PostgresDatabase(url, pool)


async def _leave_as_it_is(_connection: object) -> None:
    """Ask nothing of the server when a connection goes back to the pool.

    What is still open has been rolled back by then. Nothing of ours outlasts a transaction, so the
    usual round of unlocking and resetting, after everything that is read, would be for nothing.
    """


class PostgresDatabase:
    """Connections to a server."""

    def __init__(self, url: str, pool: "Pool") -> None:
        self.signals = Signals()
        self.poll_interval = _PATIENCE
        self._url = url
        self._pool = pool
        # There once somebody has waited for something.
        self._listener: Connection | None = None
        self._opening = asyncio.Lock()

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Read what has been committed, by whichever node."""
        query, values = _spell(statement), plain_row(arguments)
        with _problems():
            for _ in range(_ATTEMPTS - 1):
                with suppress(*_LOST):
                    return _rows(await self._pool.fetch(query, *values))
            return _rows(await self._pool.fetch(query, *values))

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Read little, in the same way: the server is asked in any case."""
        return await self.fetch(statement, *arguments)

    @asynccontextmanager
    async def transaction(self, *, long: bool = False) -> AsyncGenerator["PostgresTransaction"]:  # noqa: ARG002 - the server does it in any case
        """Write."""
        try:
            connection = await self._pool.acquire()
        except _FAILURES as problem:
            # Whyever it lets nobody in, it does nothing for anybody.
            raise DatabaseUnavailableError(None, "the gateway's database failed") from problem
        try:
            transaction = PostgresTransaction(connection)
            block = connection.transaction()
            with _problems():
                await block.start()
            try:
                yield transaction
                await transaction.tell()
            except BaseException:
                # A connection that is broken has nothing to roll back.
                with suppress(*_FAILURES):
                    await block.rollback()
                raise
            try:
                await block.commit()
            except _UNSENT as problem:
                raise DatabaseUnavailableError(None, "the gateway's database failed") from problem
            except _FAILURES as problem:
                raise CommitOutcomeUnknownError(None, "the gateway's database failed") from problem
        finally:
            with suppress(*_FAILURES):
                await self._pool.release(connection)

    async def listen(self) -> None:
        """Listen for announcements, on a connection of its own; on another one if it was lost."""
        async with self._opening:
            if self._listener is not None and not self._listener.is_closed():
                return
            # Without it, those who wait look for themselves.
            with suppress(*_FAILURES):
                self._listener = await asyncpg.connect(self._url)
                await self._listener.add_listener(_CHANNEL, self._heard)

    def _heard(self, _connection: object, _process: int, _channel: str, payload: object) -> None:
        self.signals.fire(str(payload))

    async def close(self) -> None:
        """Close all connections."""
        if self._listener is not None:
            with suppress(*_FAILURES):
                await self._listener.close()
        await self._pool.close()


class PostgresTransaction:
    """What is being written."""

    def __init__(self, connection: "Proxy") -> None:
        self._connection = connection
        self._names: set[str] = set()

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and give its rows."""
        with _problems():
            found = await self._connection.fetch(_spell(statement), *plain_row(arguments))
            return _rows(found)

    async def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement for each row, without waiting for one before sending the next."""
        with _problems():
            await self._connection.executemany(_spell(statement), list(map(plain_row, rows)))

    def notify(self, name: str) -> None:
        """Tell others once it is committed."""
        self._names.add(name)

    async def tell(self) -> None:
        """Leave the announcements with the server, which tells them when it commits."""
        if self._names:
            names = [(_CHANNEL, name) for name in sorted(self._names)]
            await self.execute_many("SELECT pg_notify($1, $2)", names)


def _rows(records: list[Any]) -> list[Row]:
    """Take records as rows: they can be indexed and unpacked as tuples can."""
    return records
