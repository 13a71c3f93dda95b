"""Reads the configuration file, and says all that is wrong with it."""

import tomllib
from pathlib import Path
from typing import cast

import msgspec

from gateway.config.checks import check_parts
from gateway.config.schema import Config, backend_capabilities
from gateway.config.validation import Table, check_shape

__all__ = ["ConfigError", "backend_capabilities", "load_config"]


class ConfigError(Exception):
    """The file will not do: one line for each mistake, none with a secret in it."""

    def __init__(self, path: Path, mistakes: list[str]) -> None:
        self.mistakes = [f"{path}: {mistake}" for mistake in mistakes]
        super().__init__("\n".join(self.mistakes))


def load_config(path: str | Path) -> Config:
    """Read a file that says everything right, or raise all its mistakes."""
    path = Path(path)
    table = _read_table(path)
    mistakes = [*check_shape(table, Config), *check_parts(table)]
    if mistakes:
        raise ConfigError(path, mistakes)
    _inherit(table)
    return msgspec.convert(table, Config)


def _inherit(table: Table) -> None:
    """Let what a backend leaves out of its own timeouts and retries be as for all backends."""
    for name in ("timeouts", "retries"):
        general = cast("Table", table.get(name, {}))
        for backend in cast("list[Table]", table.get("backends", [])):
            if name in backend:
                backend[name] = general | cast("Table", backend[name])


def _read_table(path: Path) -> Table:
    try:
        # Some editors begin a file with a byte order mark, which TOML does not know.
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as problem:
        raise ConfigError(path, [problem.strerror or str(problem)]) from None
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        raise ConfigError(path, [f"the file is not UTF-8 (at line {line})"]) from None
    except RecursionError:
        raise ConfigError(path, ["the file is nested too deeply"]) from None
    except ValueError as problem:
        raise ConfigError(path, [f"this is not TOML: {problem}"]) from None
