"""The URL and the password of the database, in the file, a variable or a file of its own."""

import asyncio
from pathlib import Path

import pytest

from gateway.config import ConfigError, load_config
from gateway.config.database import database_password, database_url, describe_database
from gateway.config.schema import StateConfig
from gateway.store import StoreError, open_store
from tests.gateway.postgres import database_name, new_database
from tests.gateway.rows import execute

PASSWORD = "pass:w@rd /"  # noqa: S105 - of a server that this test starts


def errors_in(text: str, folder: Path) -> list[str]:
    file = folder / "dragoman.toml"
    file.write_text(f"[state]\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    return [error.removeprefix(f"{file}: state.") for error in caught.value.errors]


@pytest.mark.parametrize("url", ["postgres://me@h/db", "postgresql://h/db", "sqlite:x", "memory:"])
def test_url_is_read_from_each_source(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{url}\n")
    monkeypatch.setenv("DB_URL", url)
    file = tmp_path / "dragoman.toml"
    for line in (f'url = "{url}"', 'url_env = "DB_URL"', f'url_file = "{secret}"'):
        file.write_text(f"[state]\n{line}\n")
        state = load_config(file).state
        assert database_url(state) == describe_database(state) == url


def test_mistakes_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAD_URL", "mysql://me:sk-1@h")
    monkeypatch.setenv("MEMORY", "memory:")
    empty = tmp_path / "empty"
    empty.write_text("\n")
    both = 'url_env = "MEMORY"\nurl_file = "f"\npassword_env = "NO"\npassword_file = "p"'
    assert errors_in(both, tmp_path) == [
        "url_file: cannot be used together with url_env; remove one",
        'url_file: cannot read "f": No such file or directory',
        "password_file: cannot be used together with password_env; remove one",
        "password_env: the environment variable NO is not set",
        'password_file: cannot read "p": No such file or directory',
    ]
    expected = 'expected "sqlite:FILE", "postgresql://…" or "memory:" in it (value not shown)'
    assert errors_in('url_env = "BAD_URL"', tmp_path) == [f"url_env: {expected}"]
    assert errors_in('url = "sqlite:x"\nurl_env = "MEMORY"', tmp_path) == [
        "url: cannot be used together with url_env; remove one"
    ]
    assert errors_in('url_env = "MEMORY"\n[server]\nworkers = 2', tmp_path) == [
        'url_env: 2 workers cannot share "memory:"; use "sqlite:FILE" or "postgresql://…"'
    ]
    assert errors_in(f'password_file = "{empty}"', tmp_path) == [
        f'password_file: "{empty}" is empty'
    ]
    hidden = "got a value that is not shown because it may be a secret"
    assert errors_in('url_env = "postgres://me:sk-1@h"', tmp_path) == [
        f"url_env: expected the name of an environment variable, {hidden}"
    ]


@pytest.mark.parametrize("key", ["password_env", "password_file"])
def test_password_is_used_for_connections(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = new_database()
    url = with_password_role(database)
    file = tmp_path / "password"
    if key == "password_file":
        state = StateConfig(url, password_file=str(file))
    else:
        state = StateConfig(url, password_env="DB_PASSWORD")  # noqa: S106 - the name of a variable

    def open_with(password: str) -> None:
        file.write_text(password + "\n")
        monkeypatch.setenv("DB_PASSWORD", password)
        asyncio.run(open_and_close(state))

    open_with(PASSWORD)
    with pytest.raises(StoreError, match="password authentication failed"):
        open_with("other")


async def open_and_close(state: StateConfig) -> None:
    store = await open_store(database_url(state), database_password(state))
    await store.close()


def with_password_role(url: str) -> str:
    """Return a URL of the same database for a role that needs a password."""
    role = f"role_of_{database_name(url)}"
    execute(url, f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    [[name]] = execute(url, "SHOW hba_file")
    rules = Path(name)
    rules.write_text(f"local all {role} scram-sha-256\n{rules.read_text()}")
    execute(url, "SELECT pg_reload_conf()")
    return url.replace("postgres:@", f"{role}@").replace("postgresql:", "postgres:")
