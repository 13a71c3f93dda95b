"""The database under the store: its versions, its failures, and what is left in it."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import Raw

from gateway.store import (
    Completion,
    Conversation,
    NewerSchemaError,
    Page,
    Store,
    StoredTurn,
    StoreError,
    StoreUnavailableError,
    open_store,
)
from gateway.store.database import Database, GroupCommitter, Transaction
from gateway.store.migrations import MIGRATIONS, migrate
from gateway.store.reasoning_notes import FIND_NOTES
from gateway.store.responses import FIND_ITEMS, FIND_PARENTS
from gateway.store.store import open_database
from tests.gateway.postgres import disconnect_all, new_database
from tests.gateway.rows import execute
from tests.gateway.scripted import PATIENCE
from tests.gateway.stores import (
    BOTH,
    item,
    names,
    new_url,
    opened,
    over_both,
    response,
    turn,
    two_nodes,
)

Run: TypeAlias = Callable[[Database], Awaitable[None]]

TABLES = ("responses", "items", "jobs", "events", "conversations", "completions", "labels", "notes")


async def count_rows(url: str) -> dict[str, int]:
    """Count what is in each table that is not empty."""
    database = await open_database(url)
    try:
        counts = {
            table: (await database.fetch(f"SELECT COUNT(*) FROM {table}"))[0][0]  # noqa: S608 - names of ours
            for table in TABLES
        }
    finally:
        await database.close()
    return {table: number for table, number in counts.items() if number}


# Versions

FIRST = ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
SECOND = ("ALTER TABLE t ADD COLUMN b INTEGER", "UPDATE t SET b = a + 1")
BROKEN = ("INSERT INTO t VALUES (5)", "NONSENSE")


@BOTH
def test_an_old_database_is_brought_forward(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run(database: Database) -> None:
        await migrate(database, [FIRST])
        await migrate(database, [FIRST])
        await migrate(database, [FIRST, SECOND])
        assert [tuple(row) for row in await database.fetch("SELECT a, b FROM t")] == [(1, 2)]

    asyncio.run(with_database(url, run))


@BOTH
def test_a_step_that_fails_leaves_everything_as_it_was(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run(database: Database) -> None:
        await migrate(database, [FIRST])
        with pytest.raises(StoreUnavailableError):
            await migrate(database, [FIRST, SECOND, BROKEN])
        assert [tuple(row) for row in await database.fetch("SELECT * FROM t")] == [(1,)]
        await migrate(database, [FIRST, SECOND])

    asyncio.run(with_database(url, run))


@BOTH
def test_a_newer_database_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)
    newer = [*MIGRATIONS, FIRST]

    async def run(database: Database) -> None:
        await migrate(database, newer)
        with pytest.raises(NewerSchemaError, match=f"version {len(newer)}"):
            await open_store(url)
        await migrate(database, newer)

    asyncio.run(with_database(url, run))


def test_whoever_may_make_no_tables_can_use_those_that_are_there() -> None:
    url = new_database()
    role = f"user_of_{url.partition('?')[0].rpartition('/')[2]}"

    async def run() -> None:
        async with opened(url) as store:
            await store.responses.save(turn("a"))
        await asyncio.to_thread(_grant, url, role)
        async with opened(url.replace("postgres:@", f"{role}:@")) as store:
            await store.responses.save(turn("b", "a"))
            assert await store.responses.load_chain("me", "b") is not None
            await store.completions.save(Completion("c", "me", 1, Raw(b"1"), Raw(b"1")))

    asyncio.run(run())


def _grant(url: str, role: str) -> None:
    """Let a role use all tables that there are, and make none."""
    execute(url, f"CREATE ROLE {role} LOGIN")
    execute(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    execute(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")


async def with_database(url: str, run: Run) -> None:
    database = await open_database(url)
    try:
        await run(database)
    finally:
        await database.close()


@BOTH
def test_many_nodes_may_start_at_once(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run() -> None:
        stores = await asyncio.gather(*(open_store(url) for _ in range(8)))
        await stores[0].responses.save(turn("a"))
        assert await stores[-1].responses.load("me", "a") is not None
        for store in stores:
            await store.close()

    asyncio.run(run())


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, " * 100)
    for url in (
        f"sqlite:{tmp_path}/nowhere/state.db",
        f"sqlite:{tmp_path}/text",
        f"postgresql://127.0.0.1:1/x?host={tmp_path}",
        "postgresql://me@127.0.0.1:port/x",
    ):
        with pytest.raises(StoreError):
            asyncio.run(open_store(url))


# Failures


@over_both
async def test_one_that_cannot_be_written_does_not_spoil_the_others(
    store: Store, other: Store
) -> None:
    saves = [store.responses.save(turn(name)) for name in ("a", "twice", "twice", "b")]
    results = await asyncio.gather(*saves, return_exceptions=True)
    assert [type(result) for result in results].count(StoreUnavailableError) == 1
    for name in ("a", "twice", "b"):
        found = await other.responses.load("me", name)
        assert found is not None
        assert names(found.input + found.output) == [f"{name}-in", f"{name}-out"]


@over_both
async def test_what_nobody_waits_for_any_more_is_written_all_the_same(
    store: Store, other: Store
) -> None:
    first = asyncio.ensure_future(store.responses.save(turn("a")))
    second = asyncio.ensure_future(store.responses.save(turn("b")))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert await other.responses.load("me", "a") is not None


def test_all_who_wait_for_a_locked_file_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.sqlite._BUSY_MILLISECONDS", 500)
    url = new_url("sqlite", tmp_path)

    async def run() -> None:
        async with opened(url) as store:
            await store.responses.save(turn("a"))
            with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                saves = [store.responses.save(turn(f"b{number}")) for number in range(100)]
                async with asyncio.timeout(PATIENCE):
                    results = await asyncio.gather(*saves, return_exceptions=True)
                assert all(isinstance(result, StoreUnavailableError) for result in results)
                # Who reads is not disturbed.
                assert await store.responses.load("me", "a") is not None
            await asyncio.gather(*(store.responses.save(turn(f"b{n}")) for n in range(100)))
            assert await store.responses.load("me", "b99") is not None

    asyncio.run(run())


def test_lost_connections_are_made_again() -> None:
    url = new_database()

    async def run() -> None:
        async with two_nodes(url) as (store, other):
            await store.responses.save(turn("a"))
            assert await other.jobs.wait_until_finished("me", "a", 5) is not None
            await disconnect_all(url)
            assert await store.responses.load("me", "a") is not None
            await disconnect_all(url)
            await store.responses.save(turn("b", "a"))
            assert await other.responses.load_chain("me", "b") is not None
            assert await other.jobs.wait_until_finished("me", "b", 5) is not None

    asyncio.run(run())


def test_a_commit_that_was_never_sent_is_tried_again() -> None:
    url = new_database()
    attempts: list[int] = []

    async def change(transaction: Transaction, names: Sequence[str]) -> Sequence[str]:
        attempts.append(len(names))
        if len(attempts) == 1:
            await disconnect_all(url)
            # The connection is lost, and known to be.
            with pytest.raises(StoreUnavailableError):
                await transaction.fetch("SELECT 1")
        return names

    async def run(database: Database) -> None:
        assert await GroupCommitter(database).write(change, "a") == "a"
        assert attempts == [1, 1]

    asyncio.run(with_database(url, run))


def test_memory_is_a_store_too() -> None:
    async def run() -> None:
        async with opened("memory:") as store, opened("memory:") as stranger:
            for number in range(50):
                saving = asyncio.ensure_future(store.responses.save(turn(f"r{number}")))
                while not saving.done():
                    # Seen whole or not at all.
                    found = await store.responses.load("me", f"r{number}")
                    assert found is None or names(found.output) == [f"r{number}-out"]
                assert await store.responses.load("me", f"r{number}") is not None
            assert await stranger.responses.load("me", "r0") is None

    asyncio.run(run())


@over_both
async def test_notes_are_found_on_every_node(store: Store, other: Store) -> None:
    await store.reasoning_notes.save(
        "backend\0me", {"call_1": "old", "call_2": "two", "x" * 5000: "long"}
    )
    await asyncio.gather(
        store.reasoning_notes.save("backend\0me", {"call_1": "one"}),
        store.reasoning_notes.save("backend\0you", {}),
    )
    wanted = ["call_1", "call_2", "call_3", "\0", "x" * 5000]
    assert await other.reasoning_notes.find("backend\0me", wanted) == {
        "call_1": "one",
        "call_2": "two",
    }
    assert await other.reasoning_notes.find("backend\0you", wanted) == {}
    assert await other.reasoning_notes.find("backend\0me", []) == {}
    assert await store.delete_unused(2**40) == 2
    assert await other.reasoning_notes.find("backend\0me", wanted) == {}


# What is left

DAY = 86400


@BOTH
def test_what_nobody_has_used_for_long_is_swept_in_parts(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run() -> None:
        async with opened(url) as store:
            for number in range(5):
                await store.responses.save(turn(f"old{number}"))
                await store.responses.save(turn(f"old{number}b", f"old{number}", created=1005))
            await store.responses.save(turn("used"))
            await store.responses.save(turn("recent", "used", created=2 * DAY))
            for name, created in (("x", 1000), ("y", 2 * DAY)):
                await store.completions.save(
                    Completion(name, "me", created, Raw(b"1"), Raw(b"1"), metadata={"a": "b"})
                )
                await store.conversations.create(Conversation(name, "me", created), [item(name)])
            swept = [await store.delete_unused(DAY, 2) for _ in range(4)]
            assert swept == [4, 2, 1, 0]
            assert await store.responses.load_chain("me", "old0b") is None
            assert await store.responses.load_chain("me", "recent") is not None
            assert await store.completions.load("me", "x") is None
            assert await store.completions.load("me", "y") is not None
            assert await store.conversations.load("me", "x") is None
            assert await store.conversations.list_items("me", "y", Page()) is not None
            assert await count_rows(url) == {
                "responses": 2,
                "items": 5,
                "conversations": 1,
                "completions": 1,
                "labels": 1,
            }
            await store.delete_unused(3 * DAY)
        assert await count_rows(url) == {}

    asyncio.run(run())


@BOTH
def test_what_a_living_chain_began_with_is_not_swept(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)
    later = int(time.time()) + 2 * DAY

    async def run() -> None:
        async with opened(url) as store:
            await store.conversations.create(Conversation("c", "me", 1000), [item("long ago")])
            await store.responses.save(turn("first", conversation="c"))
            await store.responses.save(turn("second", "first", created=later))
            assert await store.delete_unused(later - DAY) == 0
            said = await store.conversations.list_items_before("me", "c", "first")
            assert names(said) == ["long ago"]
            await store.delete_unused(later + DAY)
        assert await count_rows(url) == {}

    asyncio.run(run())


@BOTH
def test_nothing_is_left_of_what_was_deleted(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run() -> None:
        async with opened(url) as store:
            for number in range(4):
                await store.responses.save(turn(f"r{number}", f"r{number - 1}" if number else None))
            known = (await store.responses.find_items("me", ["r0-in"]))["r0-in"]
            await store.conversations.create(Conversation("c", "me", 1000), [known])
            await store.responses.save(turn("in", conversation="c"))
            await store.jobs.enqueue(
                StoredTurn(response("j", status="queued"), (known,)), Raw(b"1"), "A", 60
            )
            for name in ("r1", "r0", "r2", "in", "j", "r3"):
                assert await store.responses.delete("me", name)
            assert await count_rows(url) == {"items": 3, "conversations": 1}
            assert await store.conversations.delete("me", "c")
        assert await count_rows(url) == {}

    asyncio.run(run())


@BOTH
def test_each_turn_adds_only_itself(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, tmp_path)

    async def run() -> None:
        async with opened(url) as store:
            await store.conversations.create(Conversation("c", "me", 1000))
            for number in range(20):
                parent = f"r{number - 1}" if number else None
                await store.responses.save(turn(f"r{number}", parent, conversation="c"))
        assert await count_rows(url) == {"responses": 20, "items": 40, "conversations": 1}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        (FIND_PARENTS, ("me", '["a","b"]')),
        (FIND_ITEMS, ("me", '["a","b"]')),
        (FIND_NOTES, ("scope", '["a","b"]')),
    ],
    ids=["parents", "items", "notes"],
)
def test_names_are_looked_up_in_an_index(statement: str, arguments: tuple[str, str]) -> None:
    """A server whose statistics say nothing yet must not hold the names against every row."""

    url = new_database()

    async def run() -> str:
        database = await open_database(url)
        try:
            await migrate(database)
            plan = await database.fetch(f"EXPLAIN {statement}", *arguments)
        finally:
            await database.close()
        return "\n".join(row[0] for row in plan)

    plan = asyncio.run(run())
    assert "= ANY" in plan
    assert "Index Cond" in plan
    assert "Join Filter" not in plan
