"""`dragoman serve` refuses an unusable database with one line on standard error."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.gateway_process import COMMAND, ROOT
from tests.gateway.postgres import new_database, server
from tests.gateway.rows import execute
from tests.gateway.waiting import TIMEOUT_SECONDS

# Documented in the help of the command.
CANNOT_START = 3


def newer(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "newer.db")) as database:
        database.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        database.execute("INSERT INTO schema_version VALUES (99)")
        database.commit()
    return "sqlite:newer.db"


def garbage(folder: Path) -> str:
    (folder / "garbage.db").write_bytes(b"This is no database. " * 100)
    return "sqlite:garbage.db"


def missing_folder(folder: Path) -> str:
    del folder
    return "sqlite:missing/folder/state.db"


def unreachable(folder: Path) -> str:
    del folder
    return "postgresql://somebody:secret-word@127.0.0.1:1/state"


def forbidden(folder: Path) -> str:
    """Create a database, and a role that may create nothing in it."""
    del folder
    url = new_database()
    role = f"weak_{url.partition('?')[0].rpartition('/')[2]}"
    execute(server().get_uri(), f"CREATE ROLE {role} LOGIN")
    execute(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    return url.replace("postgres:@", f"{role}:@")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("make_url", "message"),
    [
        (newer, "the database has schema version 99, but this release supports only 1"),
        (garbage, "file is not a database"),
        (missing_folder, "unable to open database file"),
        (unreachable, "the database cannot be opened"),
        (forbidden, "permission denied for schema public"),
    ],
)
def test_unusable_database_is_refused(
    make_url: Callable[[Path], str], message: str, workers: int, tmp_path: Path
) -> None:
    (tmp_path / "dragoman.toml").write_text(f'[state]\nurl = "{make_url(tmp_path)}"\n')
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
    assert process.returncode == CANNOT_START
    assert process.stdout == ""
    (line,) = process.stderr.splitlines()
    assert line.startswith("dragoman: state.url: ")
    assert message in line
    assert "secret-word" not in line
