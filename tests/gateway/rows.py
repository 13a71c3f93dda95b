"""Direct access to the database of a gateway."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import asyncpg

from tests.gateway.waiting import TIMEOUT_SECONDS

# The tables with data of clients.
TABLES = ("responses", "items", "jobs", "events", "conversations", "completions", "labels", "notes")
# Raised if another transaction has locked the rows.
LOCK_ERRORS = (sqlite3.OperationalError, asyncpg.LockNotAvailableError)


def execute(
    url: str, statement: str, lock_seconds: float = TIMEOUT_SECONDS
) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows; wait this long for locks."""
    if not url.startswith("sqlite:"):
        return asyncio.run(execute_postgresql(url, statement, lock_seconds))
    file = url.removeprefix("sqlite:")
    with closing(sqlite3.connect(file, timeout=lock_seconds)) as connection:
        rows = connection.execute(statement).fetchall()
        connection.commit()
        return rows


async def execute_postgresql(
    url: str, statement: str, lock_seconds: float = TIMEOUT_SECONDS
) -> list[tuple[Any, ...]]:
    settings = {"lock_timeout": f"{lock_seconds}s"}
    connection = await asyncpg.connect(url, server_settings=settings)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def count_rows(url: str) -> dict[str, int]:
    """Return the number of rows of each table that is not empty."""
    counts = {table: execute(url, f"SELECT COUNT(*) FROM {table}")[0][0] for table in TABLES}  # noqa: S608 - our own names
    return {table: count for table, count in counts.items() if count}
