"""A database in one file, or in memory: one connection writes, another reads.

Both do so in threads of their own, because the disk may take its time. But to have a thread do
something costs more than to find a few rows by an index: a third connection does that at once.

The file is in WAL mode: readers go on while somebody writes, and see what was last committed. Every
commit is flushed to the disk. Several processes on one machine may share the file.
"""

import asyncio
import re
import sqlite3
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import Final

import aiosqlite

from gateway.state.database import Row, plain, spell
from gateway.state.problems import Away, Unavailable, Uncertain
from gateway.state.signals import Signals

_MEMORY: Final = ":memory:"
# How long a process waits for the others that write to the same file.
_BUSY_MILLISECONDS: Final = 30_000
# So many pages (of 4 kB) are written to the log before they are moved into the file itself, which
# takes two more flushes to the disk.
_LOG_PAGES: Final = 8000
# An error's code without what further describes it: SQLITE_BUSY_SNAPSHOT is a SQLITE_BUSY too.
_PRIMARY_CODE: Final = 0xFF
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
_PLACEHOLDER: Final = re.compile(r"\$(\d+)")


@cache
def _spell(statement: str) -> str:
    return _PLACEHOLDER.sub(r"?\1", spell(statement, _WORDS))


@contextmanager
def _problems() -> Generator[None]:
    try:
        yield
    except sqlite3.OperationalError as problem:
        # Somebody else has it locked, or there is no room on the disk.
        raise Away(None, "the gateway's database failed") from problem
    except sqlite3.Error as problem:
        raise Unavailable(None, "the gateway's database failed") from problem


async def open_sqlite(path: str) -> "SqliteDatabase":
    """Open a file, or make it; an empty path means memory."""
    # One that cannot be opened is better found out here: aiosqlite would leave a thread behind.
    near = sqlite3.connect(path or _MEMORY, timeout=0)
    try:
        writer = await _connect(path or _MEMORY)
        if path:
            return SqliteDatabase(writer, await _connect(path), near)
    except BaseException:
        near.close()
        raise
    near.close()
    return SqliteDatabase(writer, writer, None)


async def _connect(path: str) -> aiosqlite.Connection:
    # Transactions are begun and ended by hand.
    connection = await aiosqlite.connect(path, isolation_level=None)
    try:
        await connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        await _keep_a_log(connection)
        await connection.execute("PRAGMA synchronous = FULL")
        await connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    except BaseException:
        await connection.close()
        raise
    return connection


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
            busy = problem.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not busy or asyncio.get_running_loop().time() > last_try:
                raise
        else:
            return
        await asyncio.sleep(_OPENING_PAUSE)


class SqliteDatabase:
    """An open file."""

    def __init__(
        self,
        writer: aiosqlite.Connection,
        reader: aiosqlite.Connection,
        near: sqlite3.Connection | None,
    ) -> None:
        self.signals = Signals()
        self.patience = _PATIENCE
        self._writer = writer
        self._reader = reader
        # Reads little things without a thread; None for memory, which only the writer sees.
        self._near = near
        # Memory has a single connection, on which readers would see what is not committed yet.
        self._turns = asyncio.Lock() if reader is writer else None

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Read what has been committed."""
        if self._turns is None:
            return await _fetch(self._reader, statement, arguments)
        async with self._turns:
            return await _fetch(self._reader, statement, arguments)

    async def look_up(self, statement: str, *arguments: object) -> list[Row]:
        """Read little, at once; whoever would have to wait does so in the reader's thread."""
        if self._near is not None:
            with suppress(sqlite3.Error):
                plain_arguments = tuple(map(plain, arguments))
                return self._near.execute(_spell(statement), plain_arguments).fetchall()
        return await self.fetch(statement, *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator["SqliteTransaction"]:
        """Write; there is only one transaction at a time."""
        if self._turns is not None:
            await self._turns.acquire()
        try:
            transaction = SqliteTransaction(self._writer)
            with _problems():
                await self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield transaction
                await self._commit()
            except BaseException:
                if self._writer.in_transaction:
                    await self._writer.execute("ROLLBACK")
                raise
        finally:
            if self._turns is not None:
                self._turns.release()
        for name in transaction.names:
            self.signals.fire(name)

    async def _commit(self) -> None:
        try:
            await self._writer.execute("COMMIT")
        except sqlite3.Error as problem:
            raise Uncertain(None, "the gateway's database failed") from problem

    async def listen(self) -> None:
        """Do nothing: nobody can tell us anything."""

    async def close(self) -> None:
        """Close the file."""
        if self._near is not None:
            self._near.close()
        await self._writer.close()
        if self._reader is not self._writer:
            await self._reader.close()


class SqliteTransaction:
    """What is being written."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection
        self.names: set[str] = set()

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and give its rows."""
        return await _fetch(self._connection, statement, arguments)

    async def each(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement for each row."""
        with _problems():
            plain_rows = [tuple(map(plain, row)) for row in rows]
            await self._connection.executemany(_spell(statement), plain_rows)

    def announce(self, name: str) -> None:
        """Tell others once it is committed."""
        self.names.add(name)


async def _fetch(
    connection: aiosqlite.Connection, statement: str, arguments: tuple[object, ...]
) -> list[Row]:
    with _problems():
        plain_arguments = tuple(map(plain, arguments))
        return list(await connection.execute_fetchall(_spell(statement), plain_arguments))
