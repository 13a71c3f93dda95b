"""Looks into the database of a gateway, past the gateway."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from tests.gateway.scripted import PATIENCE

TABLES = (
    "responses",
    "items",
    "jobs",
    "events",
    "conversations",
    "completions",
    "labels",
    "notes",
)


# What is raised where somebody else holds what is to be changed.
LOCKED = (sqlite3.OperationalError, asyncpg.LockNotAvailableError)


def execute(url: str, statement: str, patience: float = PATIENCE) -> list[tuple[Any, ...]]:
    """Run a statement and give its rows; wait so many seconds for those who hold them."""
    if url.startswith("sqlite:"):
        file = Path(url.removeprefix("sqlite:"))
        with closing(sqlite3.connect(file, timeout=patience)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows
    return asyncio.run(_execute(url, statement, patience))


async def _execute(url: str, statement: str, patience: float) -> list[tuple[Any, ...]]:
    limit = {"lock_timeout": f"{patience}s"}
    connection = await asyncpg.connect(url, server_settings=limit)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def counts(url: str) -> dict[str, int]:
    """Count the rows of all tables that hold something of clients, but for those with none."""
    found = {table: execute(url, f"SELECT COUNT(*) FROM {table}")[0][0] for table in TABLES}  # noqa: S608 - our own names
    return {table: count for table, count in found.items() if count}
