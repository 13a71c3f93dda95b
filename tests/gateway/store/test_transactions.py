"""Transactions: who waits for one, and what is left of one that is given up."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from gateway.store.database import Database
from gateway.store.migrations import migrate
from gateway.store.store import open_database
from tests.gateway.scripted import PATIENCE
from tests.gateway.stores import DATABASES, new_url, opened, turn

TABLE = ("CREATE TABLE t (a INTEGER)",)


async def with_table(url: str, run: Callable[[Database], Awaitable[None]]) -> None:
    database = await open_database(url)
    try:
        await migrate(database, [TABLE])
        await run(database)
    finally:
        await database.close()


def test_who_waits_for_a_locked_file_holds_up_nobody(tmp_path: Path) -> None:
    url = new_url("sqlite", tmp_path)

    async def run() -> None:
        async with opened(url) as store:
            await store.responses.save(turn("a"))
            with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                saving = asyncio.ensure_future(store.responses.save(turn("b", "a")))
                deleting = asyncio.ensure_future(store.conversations.delete("me", "none"))
                for _ in range(3):
                    assert await store.responses.load("me", "a") is not None
                assert not saving.done()
                other.execute("COMMIT")
                async with asyncio.timeout(PATIENCE):
                    await saving
                    assert not await deleting
            assert await store.responses.load("me", "b") is not None

    asyncio.run(run())


INSERT = "INSERT INTO t VALUES ($1)"


async def insert(database: Database, number: int, *, long: bool = False) -> None:
    async with database.transaction(long=long) as transaction:
        await transaction.fetch(INSERT, number)
        await transaction.execute_many(INSERT, [(number,), (number,)])


async def inserted(database: Database) -> list[int]:
    return [row[0] for row in await database.fetch("SELECT a FROM t ORDER BY a")]


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("kind", [*DATABASES, "memory"])
def test_a_transaction_that_is_cancelled_leaves_room_for_the_next(
    kind: str, tmp_path: Path, *, long: bool
) -> None:
    url = "memory:" if kind == "memory" else new_url(kind, tmp_path)

    async def run(database: Database) -> None:
        for steps in range(12):
            writing = asyncio.ensure_future(insert(database, steps, long=long))
            for _ in range(steps):
                await asyncio.sleep(0)
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
        await insert(database, 99, long=long)
        found = await inserted(database)
        # Whole or not at all.
        assert all(found.count(number) == 3 for number in found)
        assert 99 in found

    asyncio.run(with_table(url, run))


def test_who_stops_waiting_for_a_locked_file_does_not_lock_it(tmp_path: Path) -> None:
    url = new_url("sqlite", tmp_path)

    async def run(database: Database) -> None:
        with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.ensure_future(insert(database, 1))
            # It has found the file locked, and waits in its thread.
            await database.fetch("SELECT a FROM t")
            writing.cancel()
            await asyncio.sleep(0)
            other.execute("COMMIT")
            with pytest.raises(asyncio.CancelledError):
                await writing
            other.execute("BEGIN IMMEDIATE")
            other.execute("COMMIT")
        await insert(database, 2)
        assert await inserted(database) == [2, 2, 2]

    asyncio.run(with_table(url, run))


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("kind", [*DATABASES, "memory"])
def test_transactions_at_once_do_not_undo_each_other(
    kind: str, tmp_path: Path, *, long: bool
) -> None:
    url = "memory:" if kind == "memory" else new_url(kind, tmp_path)

    async def run(database: Database) -> None:
        await asyncio.gather(*(insert(database, number, long=long) for number in range(4)))
        assert await inserted(database) == sorted([*range(4)] * 3)

    asyncio.run(with_table(url, run))
