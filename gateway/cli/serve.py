"""`dragoman serve`: the service."""

from typing import Literal, NoReturn, TypeVar

import msgspec
import rich_click as click
from click import option
from msgspec import Struct, structs

from gateway.config import ConfigError, load_config
from gateway.config.checks import check_shared_state
from gateway.config.schema import BackendConfig, Config, DialectName
from gateway.config.validation import check_profile, check_url, preview_value
from gateway.terminal import exit_on_error, print_error

_HELP = """Put the service on the network, in front of the backends that FILE or the options name.

With neither, a built-in demo backend serves every model: no key is needed to try it. The options
win over the file. Backends of the file give way to --backend.

Ends with code 0 when it was told to stop. Before anything is served it ends with 2 for a wrong
option, 78 for a mistake in the file, 1 when it cannot listen, and 3 when it cannot start otherwise.

\b
Examples:
  dragoman serve
  dragoman serve --backend http://127.0.0.1:8000/v1 --dialect chat --profile vllm
  dragoman serve --config dragoman.toml --port 9000 --workers 4
"""

Value = TypeVar("Value", bound=Struct)

# EX_CONFIG of sysexits: a service manager can tell that starting again will not help.
_BAD_CONFIGURATION = 78


class Options(Struct, frozen=True):
    """What was asked for on the command line; None: as the file says."""

    config: str | None
    host: str | None
    port: int | None
    workers: int | None
    backend: str | None
    dialect: DialectName | None
    profile: str | None
    log_format: Literal["json", "text"] | None
    log_bodies: bool


@click.command(help=_HELP)
@option("--config", metavar="FILE", type=click.Path(), help="The configuration, in TOML.")
@option("--host", help="The address to listen on (127.0.0.1).")
@option("--port", type=click.IntRange(0, 65535), help="The port; 0 finds a free one (8080).")
@option("--workers", type=click.IntRange(1), metavar="N", help="How many processes serve (1).")
@option(
    "--backend",
    metavar="URL",
    help="A backend for every model: what comes before /chat/completions or /responses.",
)
@option(
    "--dialect",
    type=click.Choice(["chat", "responses", "legacy"]),
    help="What the --backend speaks.",
)
@option("--profile", metavar="NAME", help="What the --backend takes, for example vllm.")
@option("--log-format", type=click.Choice(["json", "text"]), help="How log lines look (json).")
@option("--log-bodies", is_flag=True, help="Log requests and answers too, secrets blacked out.")
def serve(**given: object) -> None:
    """Serve until told to stop."""
    options = msgspec.convert(given, Options)
    if options.host == "":
        raise click.UsageError("--host is empty; 0.0.0.0 stands for all addresses.")
    backends = _backends(options)
    config = _config(options, backends)
    with exit_on_error():
        # What serves takes half a second to import, which the other commands need not wait for.
        from gateway.server import run as server  # noqa: PLC0415

        code = server.run(config)
    raise SystemExit(code)


def _backends(options: Options) -> tuple[BackendConfig, ...]:
    """Give the backend that the options name, or none."""
    if options.backend is None:
        for name in ("dialect", "profile"):
            if getattr(options, name) is not None:
                raise click.UsageError(f"--{name} is said of a --backend; add --backend URL.")
        return ()
    if options.dialect is None:
        raise click.UsageError("--backend needs --dialect: chat, responses or legacy.")
    return (_backend(options.backend, options.dialect, options.profile),)


def _backend(url: str, dialect: DialectName, profile: str | None) -> BackendConfig:
    try:
        backend = msgspec.convert(
            {"name": "backend", "url": url, "dialect": dialect, "profile": profile}, BackendConfig
        )
    except msgspec.ValidationError:
        message = f"--backend: expected a URL, http://… or https://…, got {preview_value(url, '')}"
        raise click.UsageError(message) from None
    for mistake in (*check_url(url, "--backend"), *check_profile(profile, "--profile")):
        raise click.UsageError(mistake)
    return backend


def _config(options: Options, backends: tuple[BackendConfig, ...]) -> Config:
    """Read the file, and put the options over it."""
    config = _read(options.config)
    server = _replace(config.server, host=options.host, port=options.port, workers=options.workers)
    logging = _replace(config.logging, format=options.log_format, bodies=options.log_bodies or None)
    # The options may ask for more workers than the file does.
    if mistakes := list(check_shared_state(server, config.state)):
        _end(mistakes)
    return _replace(config, server=server, logging=logging, backends=backends or None)


def _read(file: str | None) -> Config:
    if file is None:
        return Config()
    try:
        return load_config(file)
    except ConfigError as problem:
        _end(problem.mistakes)


def _end(mistakes: list[str]) -> NoReturn:
    for mistake in mistakes:
        print_error(mistake)
    raise SystemExit(_BAD_CONFIGURATION) from None


def _replace(struct: Value, **changes: object) -> Value:
    """Change what was given."""
    return structs.replace(
        struct, **{name: value for name, value in changes.items() if value is not None}
    )
