"""`dragoman config`: checks a configuration file, or prints the configuration in force."""

import rich_click as click
from click import argument, echo

from gateway.cli.config_options import config_options, load_or_exit, read_source
from gateway.config.display import HIDDEN, write_toml
from gateway.config.sources import DEFAULT_FILE, ConfigSource, find_config_file, variable_of
from gateway.observability.key_formats import replace_keys

_CHECK_HELP = """Check the configuration file FILE, by default the one that `serve` would use.

All errors are printed, each with its key, the value and what was expected. The files and the
environment variables that it names must exist. Exit codes: 0 if it is valid, 78 otherwise.

\b
Examples:
  dragoman config check
  dragoman config check dragoman.toml
"""
_SHOW_HELP = """Print the configuration that `dragoman serve` would use with the same options.

It is complete, with all defaults, and has the form of a configuration file. Secrets are not shown.

\b
Examples:
  dragoman config show
  dragoman config show --config dragoman.toml --workers 4
"""


_HELP = """Check a configuration file, or show the configuration of the gateway.

\b
Examples:
  dragoman config check dragoman.toml
  dragoman config show
"""


@click.group("config", help=_HELP)
def config_command() -> None:
    """Group the commands."""


@config_command.command("check", help=_CHECK_HELP)
@argument("file", required=False, type=click.Path(), envvar=variable_of("--config"))
def _check(file: str | None) -> None:
    source = ConfigSource(find_config_file(file))
    if source.path is None:
        raise click.UsageError(f"There is no {DEFAULT_FILE} here; name the file.")
    load_or_exit(source)
    echo(f"{source.path}: valid")


@config_command.command("show", help=_SHOW_HELP)
@config_options
def _show(**given: object) -> None:
    source = read_source(given)
    shown = write_toml(load_or_exit(source))
    echo(f"# configuration: {source.describe()}\n{replace_keys(shown, HIDDEN)}", nl=False)
