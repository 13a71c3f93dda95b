"""A SQLite database, in a file or in memory.

The file is in WAL mode: queries do not wait for a writing transaction, and see the last committed
data. Every commit is flushed to the disk. Several processes on one machine may share the file.

Operations that may wait for the disk run in the thread of their connection. Passing a statement to
a thread takes longer than finding or inserting a few rows through an index. Therefore small reads,
on a separate connection, and short transactions up to their commit run directly in the event loop.
With threads for all statements, saving a turn takes 1.5 instead of 0.8 ms if there is no other
writer, and a tenth more processor time with 64; a small read takes 0.10 instead of 0.03 ms.
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

# How long to wait for other processes that write to the same file.
_BUSY_MILLISECONDS: Final = 30_000
# The delay between attempts to open a file that another process is creating.
_OPEN_RETRY_SECONDS: Final = 0.02
# The number of 4 kB pages in the write-ahead log after which they are copied into the file. High,
# because this takes two more flushes.
_CHECKPOINT_PAGES: Final = 8000
# Error codes have details in their higher bits: SQLITE_BUSY_SNAPSHOT is a SQLITE_BUSY.
_PRIMARY_CODE_MASK: Final = 0xFF
# A required argument of aiosqlite, which it uses for iterators only.
_ITERATION_CHUNK_SIZE: Final = 64
# Short, because other processes cannot send notifications.
_POLL_SECONDS: Final = 0.1

_SQL: Final = {
    "{bytes}": "BLOB",
    "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "{now}": "((julianday('now') - 2440587.5) * 86400.0)",
    "{in_array}": "IN (SELECT value FROM json_each($2))",
    # Locks are not needed, because there is one writer at a time.
    "{for_share}": "",
    "{global_lock}": "SELECT 1",
    "{tables}": "sqlite_master",
}
_PLACEHOLDER: Final = re.compile(r"\$(\d+)")
# Locks the file at once. Otherwise a transaction that reads before it writes could fail, because
# another process has written meanwhile.
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
    """One connection, which is used directly and in its thread."""

    direct: sqlite3.Connection
    threaded: aiosqlite.Connection


async def open_sqlite(path: str) -> "SqliteDatabase":
    """Open or create a file; an empty path means memory."""
    async with AsyncExitStack() as opened:
        write_connection = await _connect(path or ":memory:", 0)
        opened.push_async_callback(write_connection.threaded.close)
        read_connection, small_read_connection = write_connection.threaded, None
        if path:
            read_connection = (await _connect(path, _BUSY_MILLISECONDS)).threaded
            opened.push_async_callback(read_connection.close)
            small_read_connection = sqlite3.connect(path, timeout=0)
        # Keep the connections open, because all attempts succeeded.
        opened.pop_all()
        return SqliteDatabase(write_connection, read_connection, small_read_connection)


async def _connect(path: str, busy_milliseconds: int) -> _Connection:
    # Without an isolation level, transactions do not begin implicitly.
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
    """Switch a file to WAL mode, if necessary.

    If several processes open a new file at once, only one of them can switch its mode. The others
    fail with "database is locked" in spite of `busy_timeout`, because SQLite does not wait if two
    connections with read locks both need to write.
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
        write_connection: _Connection,
        read_connection: aiosqlite.Connection,
        small_read_connection: sqlite3.Connection | None,
    ) -> None:
        self.signals = Signals()
        self.poll_seconds = _POLL_SECONDS
        self._write_connection = write_connection
        self._read_connection = read_connection
        # None for a database in memory, which has a single connection.
        self._small_read_connection = small_read_connection
        # Held during a transaction, because a connection can have only one at a time.
        self._lock = asyncio.Lock()
        # With a single connection, queries during a transaction would see uncommitted changes.
        self._reads_need_lock = read_connection is write_connection.threaded

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a read-only statement on committed data."""
        if not self._reads_need_lock:
            return await _fetch_in_thread(self._read_connection, statement, arguments)
        async with self._lock:
            return await _fetch_in_thread(self._read_connection, statement, arguments)

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Run a small read-only statement directly, or in the thread if the file is locked."""
        if self._small_read_connection is not None:
            with suppress(sqlite3.Error):
                return _fetch(self._small_read_connection, statement, arguments)
        return await self.fetch(statement, *arguments)

    @asynccontextmanager
    async def transaction(self, *, long: bool = False) -> AsyncGenerator["SqliteTransaction"]:
        """Start a transaction when the previous one has ended."""
        async with self._lock:
            transaction = SqliteTransaction(self._write_connection, long=long)
            try:
                with _translated_errors():
                    await self._begin()
                yield transaction
                await self._commit()
            except BaseException:
                # After a cancellation the thread may still begin or commit. The rollback runs after
                # that, and does nothing without a transaction.
                await self._write_connection.threaded.rollback()
                raise
        for name in transaction.notifications:
            self.signals.fire(name)

    async def _begin(self) -> None:
        """Begin directly, or in the thread if another process has locked the file."""
        try:
            self._write_connection.direct.execute(_BEGIN)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            try:
                await self._set_busy_timeout(_BUSY_MILLISECONDS)
                await self._write_connection.threaded.execute(_BEGIN)
            finally:
                await self._set_busy_timeout(0)

    async def _set_busy_timeout(self, milliseconds: int) -> None:
        await self._write_connection.threaded.execute(f"PRAGMA busy_timeout = {milliseconds}")

    async def _commit(self) -> None:
        try:
            await self._write_connection.threaded.commit()
        except sqlite3.Error as error:
            raise CommitOutcomeUnknownError(None, "the database is unavailable") from error

    async def listen(self) -> None:
        """Do nothing: SQLite has no notifications."""

    async def close(self) -> None:
        """Close all connections."""
        if self._small_read_connection is not None:
            self._small_read_connection.close()
        await self._write_connection.threaded.close()
        if not self._reads_need_lock:
            await self._read_connection.close()


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
