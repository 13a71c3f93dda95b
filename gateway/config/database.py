"""The URL and the password of the database, which may be in a variable or a file."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import msgspec

from gateway.config.key_checks import describe, quoted
from gateway.config.schema import MEMORY_URL, StateConfig, StateUrl
from gateway.config.secret_sources import check_sources, read_secret


def database_url(state: StateConfig) -> str:
    """Return the URL of the database; raise `OSError` or `KeyError` if it cannot be read."""
    return read_secret(state.url_env, state.url_file) or state.url


def database_password(state: StateConfig) -> Callable[[], str] | None:
    """Return a function that reads the password, or None if it is not configured.

    A file is read for each connection, so that a password can change while the gateway runs.
    """
    if state.password_env is None and state.password_file is None:
        return None
    return lambda: read_secret(state.password_env, state.password_file) or ""


def describe_database(state: StateConfig) -> str:
    """Return the URL of the database without the parts that may contain a password."""
    url = database_url(state)
    if url == MEMORY_URL or url.startswith("sqlite:"):
        return url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    shown = parts._replace(netloc=user.partition(":")[0] + at + host, query="", fragment="")
    return shown.geturl()


def check_state(state: StateConfig, workers: int) -> Iterator[str]:
    """Yield the errors of the database's settings."""
    url_key = "url_env" if state.url_env else "url_file" if state.url_file else "url"
    if url_key != "url" and state.url != StateConfig().url:
        yield f"state.url: cannot be used together with {url_key}; remove one"
    errors = [
        *check_sources("state", "url", state.url_env, state.url_file),
        *check_sources("state", "password", state.password_env, state.password_file),
    ]
    if errors:
        yield from errors
        return
    url = database_url(state)
    if not _is_url(url):
        yield f"state.{url_key}: expected {describe(StateUrl)} in it (value not shown)"
    elif workers > 1 and url == MEMORY_URL:
        remedy = 'use "sqlite:FILE" or "postgresql://…"'
        yield f"state.{url_key}: {workers} workers cannot share {quoted(MEMORY_URL)}; {remedy}"


def _is_url(text: str) -> bool:
    try:
        msgspec.convert(text, StateUrl)
    except msgspec.ValidationError:
        return False
    return True
