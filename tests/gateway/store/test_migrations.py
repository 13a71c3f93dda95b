"""Opening databases of older, newer and no version."""

import asyncio
from pathlib import Path

import pytest
from msgspec import Raw

from gateway.store import (
    Completion,
    NewerSchemaError,
    StoreError,
    StoreUnavailableError,
    open_store,
)
from gateway.store.migrations import MIGRATIONS, migrate
from tests.gateway.postgres import new_database
from tests.gateway.rows import execute
from tests.gateway.store.databases import opened_database
from tests.gateway.stores import opened_store, turn, with_url

FIRST = ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
SECOND = ("ALTER TABLE t ADD COLUMN b INTEGER", "UPDATE t SET b = a + 1")
BROKEN = ("INSERT INTO t VALUES (5)", "NONSENSE")


@with_url
async def test_older_database_is_migrated(url: str) -> None:
    async with opened_database(url) as database:
        await migrate(database, [FIRST])
        await migrate(database, [FIRST])
        await migrate(database, [FIRST, SECOND])
        assert [tuple(row) for row in await database.fetch("SELECT a, b FROM t")] == [(1, 2)]


@with_url
async def test_failed_migration_changes_nothing(url: str) -> None:
    async with opened_database(url) as database:
        await migrate(database, [FIRST])
        with pytest.raises(StoreUnavailableError):
            await migrate(database, [FIRST, SECOND, BROKEN])
        assert [tuple(row) for row in await database.fetch("SELECT * FROM t")] == [(1,)]
        await migrate(database, [FIRST, SECOND])


@with_url
async def test_newer_database_is_refused_and_not_changed(url: str) -> None:
    newer = [*MIGRATIONS, FIRST]
    async with opened_database(url) as database:
        await migrate(database, newer)
        with pytest.raises(NewerSchemaError, match=f"version {len(newer)}"):
            await open_store(url)
        await migrate(database, newer)


@with_url
async def test_nodes_may_create_the_tables_at_once(url: str) -> None:
    stores = await asyncio.gather(*(open_store(url) for _ in range(8)))
    await stores[0].responses.save(turn("a"))
    assert await stores[-1].responses.load("me", "a") is not None
    for store in stores:
        await store.close()


def test_role_without_the_right_to_create_tables_uses_existing_ones() -> None:
    url = new_database()
    role = f"user_of_{url.partition('?')[0].rpartition('/')[2]}"

    async def run() -> None:
        async with opened_store(url) as store:
            await store.responses.save(turn("a"))
        await asyncio.to_thread(grant_data_access, url, role)
        async with opened_store(url.replace("postgres:@", f"{role}:@")) as store:
            await store.responses.save(turn("b", "a"))
            assert await store.responses.load_chain("me", "b") is not None
            await store.completions.save(Completion("c", "me", 1, Raw(b"1"), Raw(b"1")))

    asyncio.run(run())


def grant_data_access(url: str, role: str) -> None:
    execute(url, f"CREATE ROLE {role} LOGIN")
    execute(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    execute(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:{folder}/missing/state.db",
        "sqlite:{folder}/text",
        "postgresql://127.0.0.1:1/x?host={folder}",
        "postgresql://me@127.0.0.1:port/x",
    ],
)
def test_database_that_cannot_be_opened_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, " * 100)
    with pytest.raises(StoreError):
        asyncio.run(open_store(url.format(folder=tmp_path)))
