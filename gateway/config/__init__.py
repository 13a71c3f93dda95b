"""Loading of the configuration file."""

import tomllib
from pathlib import Path
from typing import cast

import msgspec

from gateway.config.key_checks import Table, check_shape, valid_table
from gateway.config.schema import Config, ServerConfig, backend_capabilities
from gateway.config.value_checks import check_values

__all__ = ["ConfigError", "backend_capabilities", "load_config", "load_server_table"]


class ConfigError(Exception):
    """An invalid configuration: one line for each error, none of which shows a secret."""

    def __init__(self, path: Path | None, errors: list[str]) -> None:
        self.errors = errors if path is None else [f"{path}: {error}" for error in errors]
        super().__init__("\n".join(self.errors))


def load_config(
    path: str | Path | None, overrides: Table | None = None, copy: Path | None = None
) -> Config:
    """Read a configuration file, or raise all its errors at once.

    `overrides` are values that replace those of the file, in tables of the same form; a value of
    None removes that of the file. Without a file they are the whole configuration. A copy is read
    instead of the file if it exists.
    """
    path = None if path is None else Path(path)
    table = {} if path is None else _read_toml(path, copy)
    table = _merge(table, overrides or {})
    if errors := [*check_shape(table, Config), *check_values(table)]:
        raise ConfigError(path, errors)
    _inherit_limits(table)
    return msgspec.convert(table, Config)


def load_server_table(path: Path) -> ServerConfig:
    """Read the valid keys of the table `[server]`; raise `ConfigError` if it is not TOML."""
    table = _read_toml(path).get("server")
    part = valid_table(cast("Table", table), ServerConfig) if isinstance(table, dict) else {}
    return msgspec.convert(part, ServerConfig)


def _merge(table: Table, overrides: Table) -> Table:
    merged = dict(table)
    for key, value in overrides.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            given = merged.get(key)
            # Anything else than a table is reported as an error of the file.
            if given is None or isinstance(given, dict):
                merged[key] = _merge(cast("Table", given or {}), cast("Table", value))
        else:
            merged[key] = value
    return merged


def _inherit_limits(table: Table) -> None:
    """Copy general timeouts, retries and circuit breakers to backends that override some keys."""
    for name in ("timeouts", "retries", "circuit_breaker"):
        general = cast("Table", table.get(name, {}))
        for backend in cast("list[Table]", table.get("backends", [])):
            if name in backend:
                backend[name] = general | cast("Table", backend[name])


def _read_toml(path: Path, copy: Path | None = None) -> Table:
    try:
        source = path if copy is None or not copy.exists() else copy
        # Some editors begin a file with a byte order mark, which TOML does not allow.
        return tomllib.loads(source.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(path, [error.strerror or str(error)]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, [f"the file is not UTF-8 (line {line})"]) from None
    except RecursionError:
        raise ConfigError(path, ["the file is nested too deeply"]) from None
    except ValueError as error:
        raise ConfigError(path, [f"invalid TOML: {error}"]) from None
