"""Opens the store that a URL names."""

import sqlite3
from typing import Final

from gateway.store.database import Database
from gateway.store.migrations import migrate
from gateway.store.records import StoreError, StoreUnavailableError
from gateway.store.sql_store import SqlStore
from gateway.store.store import Store

_SQLITE: Final = "sqlite:"
_MEMORY: Final = "memory:"


async def open_store(url: str) -> Store:
    """Open a database, make its tables if need be; raise `StateError` if it cannot be used.

    `sqlite:FILE`, `postgresql://…`, or `memory:` for what is to be forgotten with the process.
    """
    database = await open_database(url)
    try:
        await migrate(database)
    except StoreUnavailableError as problem:
        await database.close()
        raise StoreError(f"the database cannot be used: {problem.__cause__}") from problem
    except BaseException:
        await database.close()
        raise
    return SqlStore(database)


async def open_database(url: str) -> Database:
    """Connect to a database."""
    if url.startswith((_SQLITE, _MEMORY)):
        from gateway.store.sqlite import open_sqlite  # noqa: PLC0415 - only what is used is loaded

        path = url.removeprefix(_SQLITE) if url.startswith(_SQLITE) else ""
        try:
            return await open_sqlite(path)
        except sqlite3.Error as problem:
            raise StoreError(f"{path}: {problem}") from problem
    from gateway.store.postgresql import open_postgresql  # noqa: PLC0415 - slow to import

    return await open_postgresql(url)
