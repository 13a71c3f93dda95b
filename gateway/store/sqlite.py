"""A database in one file, or in memory: one connection writes, another reads.

The disk may take its time: whatever waits for it does so in a thread, one for each connection. But
to have a thread do something costs more than to find a few rows by an index, or to add some: at
every row it waits until the interpreter is free again. So that is done at once: a third connection
finds rows, and of what is written only the commit, which flushes it, is left to the thread.

The file is in WAL mode: readers go on while somebody writes, and see what was last committed. Every
commit is flushed to the disk. Several processes on one machine may share the file.
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

from gateway.store.database import Row, Signals, plain_row, render_sql
from gateway.store.records import (
    CommitOutcomeUnknownError,
    DatabaseUnavailableError,
    StoreUnavailableError,
)

_MEMORY: Final = ":memory:"
# How long a process waits for the others that write to the same file.
_BUSY_MILLISECONDS: Final = 30_000
# So many pages (of 4 kB) are written to the log before they are moved into the file itself, which
# takes two more flushes to the disk.
_LOG_PAGES: Final = 8000
# An error's code without what further describes it: SQLITE_BUSY_SNAPSHOT is a SQLITE_BUSY too.
_PRIMARY_CODE: Final = 0xFF
# How many rows aiosqlite fetches at once where it is asked for one after the other: it never is.
_CHUNK: Final = 64
# Whoever finds the file locked by the process that makes it tries again so often, in seconds.
_OPENING_PAUSE: Final = 0.02
# Other processes cannot tell us anything: a live stream of theirs is looked at so often.
_PATIENCE: Final = 0.1

_WORDS: Final = {
    "{bytes}": "BLOB",
    "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "{now}": "((julianday('now') - 2440587.5) * 86400.0)",
    "{among}": "IN (SELECT value FROM json_each($2))",
    # There is one writer at a time anyway.
    "{shared}": "",
    "{alone}": "SELECT 1",
    "{tables}": "sqlite_master",
}
# Who reads first and writes then may find that another has written in between.
_BEGIN: Final = "BEGIN IMMEDIATE"
_PLACEHOLDER: Final = re.compile(r"\$(\d+)")


@cache
def _spell(statement: str) -> str:
    return _PLACEHOLDER.sub(r"?\1", render_sql(statement, _WORDS))


@contextmanager
def _problems() -> Generator[None]:
    try:
        yield
    except sqlite3.OperationalError as problem:
        # Somebody else has it locked, or there is no room on the disk.
        raise DatabaseUnavailableError(None, "the gateway's database failed") from problem
    except sqlite3.Error as problem:
        raise StoreUnavailableError(None, "the gateway's database failed") from problem


def _is_busy(problem: sqlite3.OperationalError) -> bool:
    return problem.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY


@dataclass(frozen=True, slots=True)
class _Connection:
    """One connection by two ways: what is done at once, and what is done in its thread."""

    near: sqlite3.Connection
    far: aiosqlite.Connection


async def open_sqlite(path: str) -> "SqliteDatabase":
    """Open a file, or make it; an empty path means memory."""
    async with AsyncExitStack() as unless_all_are_open:
        writer = await _connect(path or _MEMORY, 0)
        unless_all_are_open.push_async_callback(writer.far.close)
        reader, near = writer.far, None
        if path:
            reader = (await _connect(path, _BUSY_MILLISECONDS)).far
            unless_all_are_open.push_async_callback(reader.close)
            near = sqlite3.connect(path, timeout=0)
        unless_all_are_open.pop_all()
        return SqliteDatabase(writer, reader, near)


async def _connect(path: str, milliseconds: int) -> _Connection:
    """Connect; what is done waits so long for other processes."""
    # Transactions are begun and ended by hand.
    near = sqlite3.connect(
        path, timeout=milliseconds / 1000, isolation_level=None, check_same_thread=False
    )
    far = await aiosqlite.Connection(lambda: near, _CHUNK)
    try:
        await _keep_a_log(far)
        await far.execute("PRAGMA synchronous = FULL")
        await far.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    except BaseException:
        await far.close()
        raise
    return _Connection(near, far)


async def _keep_a_log(connection: aiosqlite.Connection) -> None:
    """Put the file into WAL mode, or find it there.

    Several processes may open a new file at once. Only one of them can change its mode, and the
    others are told "locked" without the wait that `busy_timeout` asks for: SQLite does not wait
    where two that hold a read lock would both like to write.
    """
    last_try = asyncio.get_running_loop().time() + _BUSY_MILLISECONDS / 1000
    while True:
        try:
            await connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            if not _is_busy(problem) or asyncio.get_running_loop().time() > last_try:
                raise
        else:
            return
        await asyncio.sleep(_OPENING_PAUSE)


class SqliteDatabase:
    """An open file."""

    def __init__(
        self,
        writer: _Connection,
        reader: aiosqlite.Connection,
        near: sqlite3.Connection | None,
    ) -> None:
        self.signals = Signals()
        self.poll_interval = _PATIENCE
        self._writer = writer
        self._reader = reader
        # Reads little things without a thread; None for memory, which only the writer sees.
        self._near = near
        # Two transactions at once on one connection would be one, and undone with either.
        self._turns = asyncio.Lock()
        # Memory has a single connection, on which readers would see what is not committed yet.
        self._readers_wait = reader is writer.far

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Read what has been committed."""
        if not self._readers_wait:
            return await _fetch(self._reader, statement, arguments)
        async with self._turns:
            return await _fetch(self._reader, statement, arguments)

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Read little, at once; whoever would have to wait does so in the reader's thread."""
        if self._near is not None:
            with suppress(sqlite3.Error):
                return _fetch_at_once(self._near, statement, arguments)
        return await self.fetch(statement, *arguments)

    @asynccontextmanager
    async def transaction(self, *, long: bool = False) -> AsyncGenerator["SqliteTransaction"]:
        """Write; there is only one transaction at a time."""
        async with self._turns:
            transaction = SqliteTransaction(self._writer, long=long)
            try:
                with _problems():
                    await self._begin()
                yield transaction
                await self._commit()
            except BaseException:
                # The thread may still begin or commit, though nobody waits for it any more: this
                # is done after that. Where there is nothing to roll back, nothing happens.
                await self._writer.far.rollback()
                raise
        for name in transaction.names:
            self.signals.fire(name)

    async def _begin(self) -> None:
        """Begin at once, or else in the thread, when other processes let us."""
        try:
            self._writer.near.execute(_BEGIN)
        except sqlite3.OperationalError as problem:
            if not _is_busy(problem):
                raise
            try:
                await self._be_patient(_BUSY_MILLISECONDS)
                await self._writer.far.execute(_BEGIN)
            finally:
                await self._be_patient(0)

    async def _be_patient(self, milliseconds: int) -> None:
        await self._writer.far.execute(f"PRAGMA busy_timeout = {milliseconds}")

    async def _commit(self) -> None:
        try:
            await self._writer.far.commit()
        except sqlite3.Error as problem:
            raise CommitOutcomeUnknownError(None, "the gateway's database failed") from problem

    async def listen(self) -> None:
        """Do nothing: nobody can tell us anything."""

    async def close(self) -> None:
        """Close the file."""
        if self._near is not None:
            self._near.close()
        await self._writer.far.close()
        if self._reader is not self._writer.far:
            await self._reader.close()


class SqliteTransaction:
    """What is being written."""

    def __init__(self, connection: _Connection, *, long: bool) -> None:
        self._near = connection.near
        # For what is long, the thread.
        self._far = connection.far if long else None
        self.names: set[str] = set()

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and give its rows."""
        if self._far is not None:
            return await _fetch(self._far, statement, arguments)
        with _problems():
            return _fetch_at_once(self._near, statement, arguments)

    async def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement for each row."""
        with _problems():
            plain_rows = list(map(plain_row, rows))
            if self._far is None:
                self._near.executemany(_spell(statement), plain_rows)
            else:
                await self._far.executemany(_spell(statement), plain_rows)

    def notify(self, name: str) -> None:
        """Tell others once it is committed."""
        self.names.add(name)


async def _fetch(
    connection: aiosqlite.Connection, statement: str, arguments: tuple[object, ...]
) -> list[Row]:
    with _problems():
        found = await connection.execute_fetchall(_spell(statement), plain_row(arguments))
        return list(found)


def _fetch_at_once(
    connection: sqlite3.Connection, statement: str, arguments: tuple[object, ...]
) -> list[Row]:
    return connection.execute(_spell(statement), plain_row(arguments)).fetchall()
