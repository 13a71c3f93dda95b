"""A SQLite database, in a file or in memory.

The file is in WAL mode: readers continue while a transaction writes, and see what was committed
last. Every commit is flushed to the disk. Several processes on one machine may share the file.

Operations that may wait for the disk run in a thread, one for each connection. Handing a statement
to a thread costs more than finding or inserting a few rows through an index, so these run directly
in the event loop: small reads on a connection of their own, and the statements of short
transactions, of which only the commit goes to the thread. With threads for everything, saving a
turn takes 1.5 instead of 0.8 ms if nobody else writes, and about a tenth more processor time if 64
clients write at once; a small read takes 0.10 instead of 0.03 ms.
"""

import asyncio
import re
import sqlite3
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

import aiosqlite

from gateway.store.database import Row, Signals, render_sql, sanitize_row
from gateway.store.records import (
    CommitOutcomeUnknownError,
    DatabaseUnavailableError,
    StoreUnavailableError,
)

_MEMORY: Final = ":memory:"
# How long to wait for other processes that write to the same file.
_BUSY_MILLISECONDS: Final = 30_000
# How often to try again to open a file that another process is creating.
_OPEN_RETRY_SECONDS: Final = 0.02
# Pages of 4 kB in the write-ahead log before they are copied into the file, which takes two more
# flushes.
_CHECKPOINT_PAGES: Final = 8000
# Error codes have details in their higher bits: SQLITE_BUSY_SNAPSHOT is a SQLITE_BUSY.
_PRIMARY_CODE_MASK: Final = 0xFF
# A required argument of aiosqlite, for iterating over rows, which is not done here.
_ITERATION_CHUNK_SIZE: Final = 64
# Other processes cannot send notifications; live streams are polled.
_POLL_SECONDS: Final = 0.1

_SQL: Final = {
    "{bytes}": "BLOB",
    "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "{now}": "((julianday('now') - 2440587.5) * 86400.0)",
    "{in_array}": "IN (SELECT value FROM json_each($2))",
    # There is one writer at a time.
    "{for_share}": "",
    "{global_lock}": "SELECT 1",
    "{tables}": "sqlite_master",
}
_PLACEHOLDER: Final = re.compile(r"\$(\d+)")
# Locks the file at once: a transaction that reads before it writes could otherwise fail because
# another process wrote in between.
_BEGIN: Final = "BEGIN IMMEDIATE"


@cache
def _render(statement: str) -> str:
    return _PLACEHOLDER.sub(r"?\1", render_sql(statement, _SQL))


@contextmanager
def _translated_errors() -> Generator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        # Locked by another process, or the disk is full.
        raise DatabaseUnavailableError(None, "the database is unavailable") from error
    except sqlite3.Error as error:
        raise StoreUnavailableError(None, "the database is unavailable") from error


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & _PRIMARY_CODE_MASK == sqlite3.SQLITE_BUSY


@dataclass(frozen=True, slots=True)
class _Connection:
    """One connection, used directly and through its thread."""

    direct: sqlite3.Connection
    threaded: aiosqlite.Connection


async def open_sqlite(path: str) -> "SqliteDatabase":
    """Open or create a file; an empty path means memory."""
    async with AsyncExitStack() as opened:
        writer = await _connect(path or _MEMORY, 0)
        opened.push_async_callback(writer.threaded.close)
        reader, small_reader = writer.threaded, None
        if path:
            reader = (await _connect(path, _BUSY_MILLISECONDS)).threaded
            opened.push_async_callback(reader.close)
            small_reader = sqlite3.connect(path, timeout=0)
        # All succeeded: the connections stay open.
        opened.pop_all()
        return SqliteDatabase(writer, reader, small_reader)


async def _connect(path: str, busy_milliseconds: int) -> _Connection:
    # Without an isolation level, transactions begin and end only where this module says so.
    direct = sqlite3.connect(
        path, timeout=busy_milliseconds / 1000, isolation_level=None, check_same_thread=False
    )
    threaded = await aiosqlite.Connection(lambda: direct, _ITERATION_CHUNK_SIZE)
    try:
        await _set_wal_mode(threaded)
        await threaded.execute("PRAGMA synchronous = FULL")
        await threaded.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    except BaseException:
        await threaded.close()
        raise
    return _Connection(direct, threaded)


async def _set_wal_mode(connection: aiosqlite.Connection) -> None:
    """Switch a file to WAL mode, unless it is.

    When several processes open a new file at once, only one of them can switch its mode. The others
    get "database is locked" at once in spite of `busy_timeout`: SQLite does not wait where two
    connections with read locks both want to write.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + _BUSY_MILLISECONDS / 1000
    while True:
        try:
            await connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or clock() > deadline:
                raise
        else:
            return
        await asyncio.sleep(_OPEN_RETRY_SECONDS)


class SqliteDatabase:
    """An open SQLite database."""

    def __init__(
        self,
        writer: _Connection,
        reader: aiosqlite.Connection,
        small_reader: sqlite3.Connection | None,
    ) -> None:
        self.signals = Signals()
        self.poll_seconds = _POLL_SECONDS
        self._writer = writer
        self._reader = reader
        # None for memory, which has a single connection.
        self._small_reader = small_reader
        # Two transactions at once on one connection would be a single one.
        self._lock = asyncio.Lock()
        # On the single connection of a database in memory, readers would see uncommitted changes.
        self._readers_lock = reader is writer.threaded

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a read-only statement on committed data."""
        if not self._readers_lock:
            return await _fetch_in_thread(self._reader, statement, arguments)
        async with self._lock:
            return await _fetch_in_thread(self._reader, statement, arguments)

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Run a small read-only statement directly, or in the thread if it would have to wait."""
        if self._small_reader is not None:
            with suppress(sqlite3.Error):
                return _fetch(self._small_reader, statement, arguments)
        return await self.fetch(statement, *arguments)

    @asynccontextmanager
    async def transaction(self, *, long: bool = False) -> AsyncGenerator["SqliteTransaction"]:
        """Start a transaction, when the one before it is finished."""
        async with self._lock:
            transaction = SqliteTransaction(self._writer, long=long)
            try:
                with _translated_errors():
                    await self._begin()
                yield transaction
                await self._commit()
            except BaseException:
                # After a cancellation the thread may still begin or commit; this runs after it, and
                # does nothing if there is no transaction.
                await self._writer.threaded.rollback()
                raise
        for name in transaction.notifications:
            self.signals.fire(name)

    async def _begin(self) -> None:
        """Begin directly, or in the thread if another process has locked the file."""
        try:
            self._writer.direct.execute(_BEGIN)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            try:
                await self._set_busy_timeout(_BUSY_MILLISECONDS)
                await self._writer.threaded.execute(_BEGIN)
            finally:
                await self._set_busy_timeout(0)

    async def _set_busy_timeout(self, milliseconds: int) -> None:
        await self._writer.threaded.execute(f"PRAGMA busy_timeout = {milliseconds}")

    async def _commit(self) -> None:
        try:
            await self._writer.threaded.commit()
        except sqlite3.Error as error:
            raise CommitOutcomeUnknownError(None, "the database is unavailable") from error

    async def listen(self) -> None:
        """Do nothing: SQLite has no notifications."""

    async def close(self) -> None:
        """Close all connections."""
        if self._small_reader is not None:
            self._small_reader.close()
        await self._writer.threaded.close()
        if self._reader is not self._writer.threaded:
            await self._reader.close()


class SqliteTransaction:
    """An open transaction; a long one runs in the thread."""

    def __init__(self, connection: _Connection, *, long: bool) -> None:
        self._direct = connection.direct
        self._threaded = connection.threaded if long else None
        self.notifications: set[str] = set()

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and return its rows."""
        if self._threaded is not None:
            return await _fetch_in_thread(self._threaded, statement, arguments)
        with _translated_errors():
            return _fetch(self._direct, statement, arguments)

    async def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement once for each row of arguments."""
        with _translated_errors():
            sanitized = list(map(sanitize_row, rows))
            if self._threaded is None:
                self._direct.executemany(_render(statement), sanitized)
            else:
                await self._threaded.executemany(_render(statement), sanitized)

    def notify(self, name: str) -> None:
        """Fire the signals of this name after the commit."""
        self.notifications.add(name)


async def _fetch_in_thread(
    connection: aiosqlite.Connection, statement: str, arguments: tuple[object, ...]
) -> list[Row]:
    with _translated_errors():
        return list(await connection.execute_fetchall(_render(statement), sanitize_row(arguments)))


def _fetch(
    connection: sqlite3.Connection, statement: str, arguments: tuple[object, ...]
) -> list[Row]:
    return connection.execute(_render(statement), sanitize_row(arguments)).fetchall()
