"""Loading of the configuration file."""

import tomllib
from pathlib import Path
from typing import cast

import msgspec

from gateway.config.key_checks import Table, check_shape
from gateway.config.schema import Config, backend_capabilities
from gateway.config.value_checks import check_values

__all__ = ["ConfigError", "backend_capabilities", "load_config"]


class ConfigError(Exception):
    """An invalid configuration file: one line for each error, none of which shows a secret."""

    def __init__(self, path: Path, errors: list[str]) -> None:
        self.errors = [f"{path}: {error}" for error in errors]
        super().__init__("\n".join(self.errors))


def load_config(path: str | Path) -> Config:
    """Read a configuration file, or raise all its errors at once."""
    path = Path(path)
    table = _read_toml(path)
    if errors := [*check_shape(table, Config), *check_values(table)]:
        raise ConfigError(path, errors)
    _inherit_limits(table)
    return msgspec.convert(table, Config)


def _inherit_limits(table: Table) -> None:
    """Copy general timeouts and retries to backends that override only some of them."""
    for name in ("timeouts", "retries"):
        general = cast("Table", table.get(name, {}))
        for backend in cast("list[Table]", table.get("backends", [])):
            if name in backend:
                backend[name] = general | cast("Table", backend[name])


def _read_toml(path: Path) -> Table:
    try:
        # Some editors begin a file with a byte order mark, which TOML does not allow.
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(path, [error.strerror or str(error)]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, [f"the file is not UTF-8 (line {line})"]) from None
    except RecursionError:
        raise ConfigError(path, ["the file is nested too deeply"]) from None
    except ValueError as error:
        raise ConfigError(path, [f"invalid TOML: {error}"]) from None
