"""`dragoman reload`: makes a running gateway read its configuration file again."""

import os
import signal
from pathlib import Path

import rich_click as click
from click import echo

from gateway.cli.config_options import config_option, exit_with_errors, pid_file_option
from gateway.config import ConfigError, load_server_table
from gateway.config.sources import find_config_file
from gateway.terminal import exit_on_error, fail

_HELP = """Make a running gateway read its configuration file again, without a restart.

Its process id is in the file of --pid-file, or else in that of `server.pid_file` in the
configuration file. The gateway checks its file first: if it is valid, it applies to new requests,
and otherwise nothing changes. The result is in the log of the gateway. Exit codes: 0 if the gateway
was notified, 1 if no gateway is running, 78 if the configuration file cannot be read.

\b
Examples:
  dragoman reload
  dragoman reload --pid-file /run/dragoman/dragoman.pid
"""


@click.command(help=_HELP)
@config_option
@pid_file_option
def reload_command(config: str | None, pid_file: str | None) -> None:
    """Send SIGHUP to the process whose id is in the file."""
    if not hasattr(signal, "SIGHUP"):
        fail("this system has no SIGHUP; restart the gateway instead")
    path = Path(_find_pid_file(config) if pid_file is None else pid_file)
    # Imported here because it takes long, which other commands do not need.
    from gateway.server.pid_file import running_process  # noqa: PLC0415

    with exit_on_error():
        process = running_process(path)
        if process is None:
            fail(f"{path}: no gateway is running with this file")
        os.kill(process, signal.SIGHUP)
    echo(f"process {process} reads its configuration again; its log has the result")


def _find_pid_file(config: str | None) -> str:
    path = find_config_file(config)
    try:
        found = None if path is None else load_server_table(path).pid_file
    except ConfigError as error:
        exit_with_errors(error.errors)
    if found is None:
        raise click.UsageError("--pid-file is required, unless the file has server.pid_file.")
    return found
