"""The options of `dragoman serve` that replace values of the configuration file.

Each of them has an environment variable.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, TypeVar

import msgspec
import rich_click as click
from click import option
from msgspec import Struct

from adapters import DIALECTS, dialects_by_path
from gateway.config import ConfigError
from gateway.config.key_checks import Table, preview
from gateway.config.schema import BackendConfig, Config, DialectName
from gateway.config.sources import ConfigSource, find_config_file, variable_of
from gateway.config.value_checks import check_profile, check_url
from gateway.terminal import print_error

# EX_CONFIG of sysexits.h, so that service managers can avoid useless restarts.
EXIT_INVALID_CONFIG = 78

_Command = TypeVar("_Command", bound=Callable[..., object])


class Options(Struct, frozen=True):
    """The options; None keeps the value of the file."""

    config: str | None
    host: str | None
    port: int | None
    workers: int | None
    pid_file: str | None
    tls_cert_file: str | None
    tls_key_file: str | None
    backend: str | None
    dialect: DialectName | None
    profile: str | None
    state_url: str | None
    log_format: Literal["auto", "json", "text"] | None
    log_bodies: bool
    record: str | None


class _Option(click.RichOption):
    """An option with an environment variable."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the variable.

        Kubernetes sets variables such as DRAGOMAN_PORT to a URL, if a service has this name.
        """
        value = super().resolve_envvar_value(ctx)
        return None if value is not None and value.startswith("tcp://") else value


def _option(name: str, **settings: Any) -> Callable[[_Command], _Command]:
    return option(name, cls=_Option, envvar=variable_of(name), show_envvar=True, **settings)


def _any_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


config_option = _option(
    "--config",
    metavar="FILE",
    type=click.Path(),
    help="Configuration file, in TOML (default: dragoman.toml, if it exists).",
)
pid_file_option = _option(
    "--pid-file", metavar="FILE", type=click.Path(), help="File with the process id of the gateway."
)
_OPTIONS = (
    config_option,
    _option("--host", help="Address to listen on (default: 127.0.0.1)."),
    _option(
        "--port",
        type=click.IntRange(0, 65535),
        help="Port to listen on; 0 selects a free one (default: 8080).",
    ),
    _option(
        "--workers", type=click.IntRange(1), metavar="N", help="Number of processes (default: 1)."
    ),
    pid_file_option,
    _option("--tls-cert-file", metavar="FILE", type=click.Path(), help="Certificate, to use TLS."),
    _option("--tls-key-file", metavar="FILE", type=click.Path(), help="Key of the certificate."),
    _option(
        "--backend",
        metavar="URL",
        help=f"Base URL of a backend for every model, without {_any_of(dialects_by_path())}.",
    ),
    _option("--dialect", type=click.Choice(list(DIALECTS)), help="Dialect of the --backend."),
    _option("--profile", metavar="NAME", help="Profile of the --backend, for example vllm."),
    _option("--state-url", metavar="URL", help="Database, sqlite:FILE, postgresql://… or memory:."),
    _option(
        "--log-format",
        type=click.Choice(["auto", "json", "text"]),
        help="Format of the log (default: auto, text on a terminal and otherwise json).",
    ),
    _option(
        "--log-bodies", is_flag=True, help="Log request and response bodies, secrets redacted."
    ),
    _option(
        "--record",
        metavar="DIR",
        help="Write each exchange into a folder in DIR, secrets redacted.",
    ),
)


def config_options(command: _Command) -> _Command:
    """Add all options to a command."""
    for one in reversed(_OPTIONS):
        command = one(command)
    return command


def read_source(given: dict[str, object]) -> ConfigSource:
    """Return the source of the configuration; raise `UsageError` for an invalid option."""
    options = msgspec.convert(given, Options)
    if options.host == "":
        raise click.UsageError("--host is empty; use 0.0.0.0 for all addresses.")
    if options.record == "":
        raise click.UsageError("--record is empty; use . for the current folder.")
    return ConfigSource(find_config_file(options.config), _overrides(options))


def load_or_exit(source: ConfigSource) -> Config:
    """Load a configuration, or print all its errors and exit."""
    try:
        return source.load()
    except ConfigError as error:
        exit_with_errors(error.errors)


def exit_with_errors(errors: Iterable[str]) -> NoReturn:
    """Print the errors of a configuration and exit."""
    for error in errors:
        print_error(error)
    raise SystemExit(EXIT_INVALID_CONFIG) from None


def _overrides(options: Options) -> Table:
    """Return the values of the options, in the tables of the file."""
    given: dict[str, Table] = {
        "server": {
            "host": options.host,
            "port": options.port,
            "workers": options.workers,
            "pid_file": options.pid_file,
            "tls": _given(cert_file=options.tls_cert_file, key_file=options.tls_key_file) or None,
        },
        "state": {"url": options.state_url},
        "logging": {"format": options.log_format, "bodies": options.log_bodies or None},
        "recording": {"directory": options.record},
    }
    tables = {name: _given(**table) for name, table in given.items()}
    overrides: Table = {name: table for name, table in tables.items() if table}
    if options.state_url is not None:
        overrides["state"] = {"url": options.state_url, "url_env": None, "url_file": None}
    if backend := _make_backend(options):
        overrides["backends"] = [backend]
    return overrides


def _given(**values: object) -> Table:
    return {key: value for key, value in values.items() if value is not None}


def _make_backend(options: Options) -> Table | None:
    """Return the backend of the options, if there is one."""
    if options.backend is None:
        for name in ("dialect", "profile"):
            if getattr(options, name) is not None:
                raise click.UsageError(f"--{name} requires --backend.")
        return None
    if options.dialect is None:
        raise click.UsageError(f"--backend requires --dialect: {_any_of(DIALECTS)}.")
    backend: Table = {"name": "backend", "url": options.backend, "dialect": options.dialect}
    try:
        msgspec.convert(backend, BackendConfig)
    except msgspec.ValidationError:
        expected = "expected a URL, http://… or https://…"
        raise click.UsageError(
            f"--backend: {expected}, got {preview(options.backend, '')}"
        ) from None
    for error in (
        *check_url(options.backend, "--backend"),
        *check_profile(options.profile, "--profile"),
    ):
        raise click.UsageError(error)
    return backend if options.profile is None else backend | {"profile": options.profile}
