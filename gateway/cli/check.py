"""`dragoman check`: tells whether a recorded stream is legal."""

import rich_click as click
from click import argument, option

import adapters
from gateway.terminal import STANDARD_INPUT, exit_on_error, open_input, write

_HELP = """Say whether FILE, or standard input, is a legal stream, and what in it is not.

\b
Example:
  dragoman check --dialect chat stream.sse
"""


@click.command(help=_HELP)
@argument("file", default=STANDARD_INPUT, type=click.Path(allow_dash=True))
@option(
    "--dialect",
    required=True,
    type=click.Choice(list(adapters.DIALECTS)),
    help="The dialect that the stream should be in.",
)
def check(file: str, dialect: str) -> None:
    """Check one stream."""
    with exit_on_error():
        with open_input(file) as source:
            breaches = adapters.check(dialect, source.read())
        if not breaches:
            write(f"This is a legal {dialect} stream.\n".encode())
            return
        for breach in breaches:
            write(f"line {breach.line}: {breach.why}\n".encode("utf-8", "backslashreplace"))
        raise SystemExit(1)
