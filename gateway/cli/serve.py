"""`dragoman serve`: runs the gateway."""

from collections.abc import Iterable
from typing import Literal, NoReturn, TypeVar

import msgspec
import rich_click as click
from click import option
from msgspec import Struct, structs

from adapters import DIALECTS, dialects_by_path
from gateway.config import ConfigError, load_config
from gateway.config.key_checks import preview
from gateway.config.schema import BackendConfig, Config, DialectName
from gateway.config.value_checks import check_profile, check_shared_state, check_url
from gateway.terminal import exit_on_error, print_error

_HELP = """Run the gateway, with backends from a configuration file or from options.

Without either, a built-in demo backend serves every model; it needs no key. Options override the
file. --backend replaces all backends of the file.

Exit codes: 0 after a signal to stop, 1 if the address cannot be used, 2 for an invalid option, 3 if
the gateway cannot start for another reason, 78 for an invalid configuration file.

\b
Examples:
  dragoman serve
  dragoman serve --backend http://127.0.0.1:8000/v1 --dialect chat --profile vllm
  dragoman serve --config dragoman.toml --port 9000 --workers 4
  dragoman serve --backend http://127.0.0.1:8000/v1 --dialect chat --record recordings
"""

_StructType = TypeVar("_StructType", bound=Struct)

# EX_CONFIG of sysexits.h, so that service managers can avoid useless restarts.
_EXIT_INVALID_CONFIG = 78


def _any_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


class Options(Struct, frozen=True):
    """The options of the command; None keeps the value of the file."""

    config: str | None
    host: str | None
    port: int | None
    workers: int | None
    backend: str | None
    dialect: DialectName | None
    profile: str | None
    log_format: Literal["json", "text"] | None
    log_bodies: bool
    record: str | None


@click.command(help=_HELP)
@option("--config", metavar="FILE", type=click.Path(), help="Configuration file, in TOML.")
@option("--host", help="Address to listen on (default: 127.0.0.1).")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 selects a free one (default: 8080).",
)
@option("--workers", type=click.IntRange(1), metavar="N", help="Number of processes (default: 1).")
@option(
    "--backend",
    metavar="URL",
    help=f"Base URL of a backend for every model, without {_any_of(dialects_by_path())}.",
)
@option("--dialect", type=click.Choice(list(DIALECTS)), help="Dialect of the --backend.")
@option("--profile", metavar="NAME", help="Profile of the --backend, for example vllm.")
@option(
    "--log-format", type=click.Choice(["json", "text"]), help="Format of the log (default: json)."
)
@option("--log-bodies", is_flag=True, help="Log request and response bodies, secrets redacted.")
@option(
    "--record", metavar="DIR", help="Write each exchange into a folder in DIR, secrets redacted."
)
def serve_command(**given: object) -> None:
    """Serve until a signal to stop."""
    options = msgspec.convert(given, Options)
    if options.host == "":
        raise click.UsageError("--host is empty; use 0.0.0.0 for all addresses.")
    if options.record == "":
        raise click.UsageError("--record is empty; use . for the current folder.")
    config = _make_config(options, _make_backends(options))
    with exit_on_error():
        # Imported here because it takes half a second, which other commands do not need.
        from gateway.server.run import run_server  # noqa: PLC0415

        code = run_server(config)
    raise SystemExit(code)


def _make_backends(options: Options) -> tuple[BackendConfig, ...]:
    """Return the backend of the options, if there is one."""
    if options.backend is None:
        for name in ("dialect", "profile"):
            if getattr(options, name) is not None:
                raise click.UsageError(f"--{name} requires --backend.")
        return ()
    if options.dialect is None:
        raise click.UsageError(f"--backend requires --dialect: {_any_of(DIALECTS)}.")
    return (_make_backend(options.backend, options.dialect, options.profile),)


def _make_backend(url: str, dialect: DialectName, profile: str | None) -> BackendConfig:
    try:
        backend = msgspec.convert(
            {"name": "backend", "url": url, "dialect": dialect, "profile": profile}, BackendConfig
        )
    except msgspec.ValidationError:
        message = f"--backend: expected a URL, http://… or https://…, got {preview(url, '')}"
        raise click.UsageError(message) from None
    for error in (*check_url(url, "--backend"), *check_profile(profile, "--profile")):
        raise click.UsageError(error)
    return backend


def _make_config(options: Options, backends: tuple[BackendConfig, ...]) -> Config:
    """Load the file and override its values by the options."""
    try:
        config = Config() if options.config is None else load_config(options.config)
    except ConfigError as error:
        _exit_invalid_config(error.errors)
    server = _override(config.server, host=options.host, port=options.port, workers=options.workers)
    logging = _override(
        config.logging, format=options.log_format, bodies=options.log_bodies or None
    )
    recording = _override(config.recording, directory=options.record)
    # Checked again, because the options may change the number of workers.
    if errors := list(check_shared_state(server, config.state)):
        _exit_invalid_config(errors)
    return _override(
        config, server=server, logging=logging, recording=recording, backends=backends or None
    )


def _exit_invalid_config(errors: list[str]) -> NoReturn:
    for error in errors:
        print_error(error)
    raise SystemExit(_EXIT_INVALID_CONFIG) from None


def _override(struct: _StructType, **values: object) -> _StructType:
    """Replace the fields whose values are not None."""
    return structs.replace(
        struct, **{name: value for name, value in values.items() if value is not None}
    )
