"""A database that cannot be served from: said in one line, before anything is served."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.postgres import new_database, server
from tests.gateway.process import COMMAND, ROOT
from tests.gateway.rows import execute
from tests.gateway.scripted import PATIENCE

# As the help of the command says.
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


def nowhere(folder: Path) -> str:
    del folder
    return "sqlite:not/there/state.db"


def unreachable(folder: Path) -> str:
    del folder
    return "postgresql://somebody:hidden-word@127.0.0.1:1/state"


def forbidden(folder: Path) -> str:
    """Make a database in which nobody else may make anything."""
    del folder
    url = new_database()
    role = f"weak_{url.partition('?')[0].rpartition('/')[2]}"
    execute(server().get_uri(), f"CREATE ROLE {role} LOGIN")
    execute(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    return url.replace("postgres:@", f"{role}:@")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (newer, "the database has version 99, and this gateway knows 1"),
        (garbage, "file is not a database"),
        (nowhere, "unable to open database file"),
        (unreachable, "the database cannot be opened"),
        (forbidden, "permission denied for schema public"),
    ],
)
def test_it_is_said_in_one_line(
    make: Callable[[Path], str], why: str, workers: int, tmp_path: Path
) -> None:
    (tmp_path / "dragoman.toml").write_text(f'[state]\nurl = "{make(tmp_path)}"\n')
    asked = ["serve", "--config", "dragoman.toml", "--port", "0", "--workers", str(workers)]
    ended = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, *asked],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE,
    )
    assert ended.returncode == CANNOT_START
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("dragoman: state.url: ")
    assert why in line
    assert "hidden-word" not in line
