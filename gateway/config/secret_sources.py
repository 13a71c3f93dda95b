"""Secrets that are in environment variables or files, which the configuration names."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gateway.config.key_checks import key_path, preview

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def read_secret(variable: str | None, file: str | None) -> str | None:
    """Return a secret without the line break at its end; None if neither source is given.

    Raises `KeyError`, `OSError` or `ValueError` if it cannot be read.
    """
    if variable is not None:
        return os.environ[variable].strip()
    return None if file is None else Path(file).read_text("utf-8").strip()


def check_sources(path: str, name: str, variable: str | None, file: str | None) -> Iterator[str]:
    """Yield the errors of the keys `{name}_env` and `{name}_file` in the table at a path."""
    variable_path, file_path = key_path(path, f"{name}_env"), key_path(path, f"{name}_file")
    if variable is not None and file is not None:
        yield f"{file_path}: cannot be used together with {name}_env; remove one"
    yield from check_variable(variable, variable_path)
    if file is not None:
        yield from _check_file(file, file_path)


def check_variable(name: str | None, path: str) -> Iterator[str]:
    """Yield an error if an environment variable is not set."""
    if name is None or os.environ.get(name):
        return
    if _VARIABLE.fullmatch(name):
        yield f"{path}: the environment variable {name} is not set"
    else:
        # The value may be a secret that was given instead of the name of a variable.
        shown = "a value that is not shown because it may be a secret"
        yield f"{path}: expected the name of an environment variable, got {shown}"


def _check_file(file: str, path: str) -> Iterator[str]:
    try:
        if not read_secret(None, file):
            yield f"{path}: {preview(file, '')} is empty"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        yield f"{path}: cannot read {preview(file, '')}: {reason}"
