"""The URL and the password of the database, which may be in a variable or a file."""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gateway.config.key_checks import describe, preview, quoted
from gateway.config.schema import MEMORY_URL, StateConfig, StateUrl

# A lower-case name is possible, but so is a secret that was given instead of the name.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def database_url(state: StateConfig) -> str:
    """Return the URL of the database; raise `OSError` or `KeyError` if it cannot be read."""
    if state.url_env is not None:
        return os.environ[state.url_env].strip()
    return state.url if state.url_file is None else _read(state.url_file)


def database_password(state: StateConfig) -> Callable[[], str] | None:
    """Return a function that reads the password, or None if it is not configured.

    A file is read for each connection, so that a password can change while the gateway runs.
    """
    if state.password_env is not None:
        return os.environ[state.password_env].strip
    return None if state.password_file is None else partial(_read, state.password_file)


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
    for name in ("url", "password"):
        variable, file = f"{name}_env", f"{name}_file"
        if getattr(state, variable) is not None and getattr(state, file) is not None:
            yield f"state.{file}: cannot be used together with {variable}; remove one"
    url_key = "url_env" if state.url_env else "url_file" if state.url_file else "url"
    if url_key != "url" and state.url != StateConfig().url:
        yield f"state.url: cannot be used together with {url_key}; remove one"
    if errors := [*_check_sources(state)]:
        yield from errors
        return
    url = database_url(state)
    if not _is_url(url):
        yield f"state.{url_key}: expected {describe(StateUrl)} in it (value not shown)"
    elif workers > 1 and url == MEMORY_URL:
        remedy = 'use "sqlite:FILE" or "postgresql://…"'
        yield f"state.{url_key}: {workers} workers cannot share {quoted(MEMORY_URL)}; {remedy}"


def _check_sources(state: StateConfig) -> Iterator[str]:
    """Yield an error for each variable and file that has no value."""
    for name, key in ((state.url_env, "url_env"), (state.password_env, "password_env")):
        if name is None or os.environ.get(name, "").strip():
            continue
        if _VARIABLE.fullmatch(name):
            yield f"state.{key}: the environment variable {name} is not set"
        else:
            shown = "a value that is not shown because it may be a secret"
            yield f"state.{key}: expected the name of an environment variable, got {shown}"
    for file, key in ((state.url_file, "url_file"), (state.password_file, "password_file")):
        if file is None:
            continue
        where, shown = f"state.{key}", preview(file, key)
        try:
            if not _read(file):
                yield f"{where}: {shown} is empty"
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            yield f"{where}: cannot read {shown}: {reason}"


def _is_url(text: str) -> bool:
    try:
        msgspec.convert(text, StateUrl)
    except msgspec.ValidationError:
        return False
    return True


def _read(file: str) -> str:
    return Path(file).read_text("utf-8").strip()
