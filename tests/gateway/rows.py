"""Looks into the database of a gateway, past the gateway."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

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


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement and give its rows."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(Path(url.removeprefix("sqlite:")), timeout=20)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows
    return asyncio.run(_execute(url, statement))


async def _execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def counts(url: str) -> dict[str, int]:
    """Count the rows of all tables that hold something of clients, but for those with none."""
    found = {table: execute(url, f"SELECT COUNT(*) FROM {table}")[0][0] for table in TABLES}  # noqa: S608 - our own names
    return {table: count for table, count in found.items() if count}
