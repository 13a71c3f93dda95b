"""Where a configuration comes from: a file, and the options that replace some of its values."""

from pathlib import Path

from msgspec import Struct

from gateway.config import load_config
from gateway.config.key_checks import Table
from gateway.config.schema import Config

# The file in the working directory that is used unless another one is given.
DEFAULT_FILE = "dragoman.toml"
# The options of `dragoman serve`, which have environment variables.
OPTIONS = (
    "--config",
    "--host",
    "--port",
    "--workers",
    "--pid-file",
    "--tls-cert-file",
    "--tls-key-file",
    "--backend",
    "--dialect",
    "--profile",
    "--state-url",
    "--log-format",
    "--log-bodies",
    "--record",
)


def variable_of(option: str) -> str:
    """Return the name of the environment variable of an option."""
    return "DRAGOMAN_" + option.removeprefix("--").replace("-", "_").upper()


VARIABLES = frozenset(map(variable_of, OPTIONS))


class ConfigSource(Struct, frozen=True):
    """The file of a configuration, if there is one, and values that replace those in it."""

    path: Path | None = None
    overrides: Table = {}
    # A copy that is read instead, once it exists: of several processes, all use the same content.
    copy: Path | None = None

    def load(self) -> Config:
        """Return the configuration; raise `ConfigError` with all its errors."""
        return load_config(self.path, self.overrides, self.copy)

    def describe(self) -> str:
        """Return the name of the file, for a message."""
        return f"none (no {DEFAULT_FILE} here)" if self.path is None else str(self.path)


def find_config_file(given: str | None) -> Path | None:
    """Return the given file, or the default file in the working directory if there is one."""
    if given is not None:
        return Path(given).absolute()
    default = Path(DEFAULT_FILE).absolute()
    return default if default.exists() else None
