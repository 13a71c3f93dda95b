"""Opening databases of older, newer and no version, and databases that cannot be used."""

import asyncio
import os
import subprocess
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
from tests.gateway.gateway_process import COMMAND, ROOT
from tests.gateway.postgres import new_database, restricted
from tests.gateway.rows import execute
from tests.gateway.stores import load, opened_database, opened_store, run_async, turn, with_url
from tests.gateway.waiting import TIMEOUT_SECONDS

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
    await load(stores[-1], "a")
    for store in stores:
        await store.close()


def test_role_without_the_right_to_create_tables_uses_existing_ones() -> None:
    url = new_database()

    @run_async
    async def save(url: str, name: str, parent: str | None = None) -> None:
        async with opened_store(url) as store:
            await store.responses.save(turn(name, parent))
            assert await store.responses.load_chain("me", name) is not None
            await store.completions.save(Completion(name, "me", 1, Raw(b"1"), Raw(b"1")))

    save(url, "a")
    save(restricted(url), "b", "a")


# Unusable databases


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


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:newer.db", "the database has schema version 99, but this release supports only 1"),
        ("sqlite:text.db", "file is not a database"),
        ("sqlite:missing/folder/state.db", "unable to open database file"),
        ("postgresql://me:secret-word@127.0.0.1:1/state", "the database cannot be opened"),
        ("restricted", "permission denied for schema public"),
    ],
    ids=["newer", "no database", "missing folder", "unreachable", "restricted"],
)
def test_gateway_does_not_start(url: str, message: str, workers: int, tmp_path: Path) -> None:
    newer = f"sqlite:{tmp_path}/newer.db"
    execute(newer, "CREATE TABLE schema_version (version INTEGER NOT NULL)")
    execute(newer, "INSERT INTO schema_version VALUES (99)")
    (tmp_path / "text.db").write_text("This is no database. " * 100)
    used_url = restricted(new_database()) if url == "restricted" else url
    (tmp_path / "dragoman.toml").write_text(f'[state]\nurl = "{used_url}"\n')
    arguments = ["serve", "--config", "dragoman.toml", "--port", "0", "--workers", str(workers)]
    process = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=TIMEOUT_SECONDS,
    )
    # The exit code is documented in the help of the command.
    assert (process.returncode, process.stdout) == (3, "")
    (line,) = process.stderr.splitlines()
    assert line.startswith("dragoman: state.url: ")
    assert message in line
    assert "secret-word" not in line
