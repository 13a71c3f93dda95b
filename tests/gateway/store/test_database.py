"""Transactions, group commit and lost databases."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import pytest

from gateway.store import Store, StoreUnavailableError
from gateway.store.database import Database, GroupCommitter, Transaction
from gateway.store.migrations import migrate
from gateway.store.reasoning_notes import FIND_NOTES
from gateway.store.responses import FIND_ITEMS, FIND_PARENTS
from tests.gateway.postgres import disconnect_all, new_database
from tests.gateway.stores import (
    DATABASES,
    ids,
    load,
    new_url,
    opened_database,
    opened_store,
    run_async,
    turn,
    two_stores,
    with_two_stores,
)
from tests.gateway.waiting import TIMEOUT_SECONDS

INSERT = "INSERT INTO t VALUES ($1)"
SHORT_AND_LONG = pytest.mark.parametrize("long", [False, True], ids=["short", "long"])


@pytest.fixture(params=[*DATABASES, "memory"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return new_url("sqlite", tmp_path)


@pytest.fixture
def postgresql_url() -> str:
    return new_database()


@asynccontextmanager
async def database_with_table(url: str) -> AsyncGenerator[Database]:
    async with opened_database(url) as database:
        await migrate(database, [("CREATE TABLE t (a INTEGER)",)])
        yield database


async def insert(database: Database, number: int, *, long: bool = False) -> None:
    async with database.transaction(long=long) as transaction:
        await transaction.fetch(INSERT, number)
        await transaction.execute_many(INSERT, [(number,), (number,)])


async def load_numbers(database: Database) -> list[int]:
    return [row[0] for row in await database.fetch("SELECT a FROM t ORDER BY a")]


@contextmanager
def locked(url: str) -> Generator[sqlite3.Connection]:
    """Lock the SQLite file as another process does, until COMMIT is executed."""
    file = url.removeprefix("sqlite:")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


# Transactions


@SHORT_AND_LONG
@run_async
async def test_cancelled_transaction_is_rolled_back(any_url: str, *, long: bool) -> None:
    async with database_with_table(any_url) as database:
        for steps in range(12):
            task = asyncio.ensure_future(insert(database, steps, long=long))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await insert(database, 99, long=long)
        numbers = await load_numbers(database)
    assert all(numbers.count(number) == 3 for number in numbers)
    assert 99 in numbers


@SHORT_AND_LONG
@run_async
async def test_concurrent_transactions_are_independent(any_url: str, *, long: bool) -> None:
    async with database_with_table(any_url) as database:
        await asyncio.gather(*(insert(database, number, long=long) for number in range(4)))
        assert await load_numbers(database) == sorted([*range(4)] * 3)


@run_async
async def test_cancelled_wait_for_a_locked_file_does_not_lock_it(sqlite_url: str) -> None:
    async with database_with_table(sqlite_url) as database:
        with locked(sqlite_url) as other:
            task = asyncio.ensure_future(insert(database, 1))
            # Meanwhile the task waits in its thread.
            await load_numbers(database)
            task.cancel()
            await asyncio.sleep(0)
            other.execute("COMMIT")
            with pytest.raises(asyncio.CancelledError):
                await task
            other.execute("BEGIN IMMEDIATE")
            other.execute("COMMIT")
        await insert(database, 2)
        assert await load_numbers(database) == [2, 2, 2]


@run_async
async def test_locked_file_delays_only_writers(sqlite_url: str) -> None:
    async with opened_store(sqlite_url) as store:
        await store.responses.save(turn("a"))
        with locked(sqlite_url) as other:
            save = asyncio.ensure_future(store.responses.save(turn("b", "a")))
            delete = asyncio.ensure_future(store.conversations.delete("me", "none"))
            for _ in range(3):
                await load(store, "a")
            assert not save.done()
            other.execute("COMMIT")
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await save
                assert not await delete
        await load(store, "b")


@run_async
async def test_memory_database_shows_only_committed_turns() -> None:
    async with opened_store("memory:") as store, opened_store("memory:") as stranger:
        for number in range(50):
            response_id = f"r{number}"
            save = asyncio.ensure_future(store.responses.save(turn(response_id)))
            while not save.done():
                loaded = await store.responses.load("me", response_id)
                assert loaded is None or ids(loaded.output) == [f"{response_id}-out"]
            await load(store, response_id)
        assert await stranger.responses.load("me", "r0") is None


# Group commit


@with_two_stores
async def test_failed_change_does_not_affect_the_others(store: Store, other: Store) -> None:
    saves = [store.responses.save(turn(name)) for name in ("a", "twice", "twice", "b")]
    results = await asyncio.gather(*saves, return_exceptions=True)
    assert [type(result) for result in results].count(StoreUnavailableError) == 1
    for name in ("a", "twice", "b"):
        loaded = await load(other, name)
        assert ids(loaded.input + loaded.output) == [f"{name}-in", f"{name}-out"]


@with_two_stores
async def test_change_is_made_even_if_its_task_is_cancelled(store: Store, other: Store) -> None:
    first = asyncio.ensure_future(store.responses.save(turn("a")))
    second = asyncio.ensure_future(store.responses.save(turn("b")))
    await asyncio.sleep(0)
    first.cancel()
    await second
    await load(other, "a")


@run_async
async def test_all_writers_fail_at_once_if_the_file_stays_locked(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.sqlite._BUSY_MILLISECONDS", 500)
    async with opened_store(sqlite_url) as store:
        await store.responses.save(turn("a"))
        with locked(sqlite_url):
            saves = [store.responses.save(turn(f"b{number}")) for number in range(100)]
            async with asyncio.timeout(TIMEOUT_SECONDS):
                results = await asyncio.gather(*saves, return_exceptions=True)
            assert all(isinstance(result, StoreUnavailableError) for result in results)
            await load(store, "a")
        await asyncio.gather(*(store.responses.save(turn(f"b{n}")) for n in range(100)))
        await load(store, "b99")


# PostgreSQL


@run_async
async def test_lost_connections_are_replaced(postgresql_url: str) -> None:
    async with two_stores(postgresql_url) as (store, other):
        await store.responses.save(turn("a"))
        assert await other.jobs.wait_until_finished("me", "a", 5) is not None
        await disconnect_all(postgresql_url)
        await load(store, "a")
        await disconnect_all(postgresql_url)
        await store.responses.save(turn("b", "a"))
        assert await other.responses.load_chain("me", "b") is not None
        assert await other.jobs.wait_until_finished("me", "b", 5) is not None


@run_async
async def test_commit_that_was_not_sent_is_repeated(postgresql_url: str) -> None:
    attempts: list[int] = []

    async def change(transaction: Transaction, batch: Sequence[str]) -> Sequence[str]:
        attempts.append(len(batch))
        if len(attempts) == 1:
            await disconnect_all(postgresql_url)
            # After this the connection is known to be lost.
            with pytest.raises(StoreUnavailableError):
                await transaction.fetch("SELECT 1")
        return batch

    async with opened_database(postgresql_url) as database:
        assert await GroupCommitter(database).write(change, "a") == "a"
    assert attempts == [1, 1]


@pytest.mark.parametrize(
    "statement", [FIND_PARENTS, FIND_ITEMS, FIND_NOTES], ids=["parents", "items", "notes"]
)
@run_async
async def test_ids_are_found_through_an_index(statement: str, postgresql_url: str) -> None:
    """A server without statistics must not compare the ids with every row."""
    async with opened_database(postgresql_url) as database:
        await migrate(database)
        rows = await database.fetch(f"EXPLAIN {statement}", "owner", '["a","b"]')
    plan = "\n".join(row[0] for row in rows)
    assert "= ANY" in plan
    assert "Index Cond" in plan
    assert "Join Filter" not in plan
