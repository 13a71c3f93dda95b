"""The command line: one module per command."""

import sys


def run() -> None:
    """Run the command `dragoman`."""
    from gateway.cli.main import main  # noqa: PLC0415 - imports `adapters`

    sys.exit(main(prog_name="dragoman"))
