"""`dragoman check`: checks a recorded stream."""

import rich_click as click
from click import argument, option

import adapters
from gateway.terminal import STANDARD_INPUT, exit_on_error, open_input, write_output

_HELP = """Check that FILE, or standard input, is a valid stream of a dialect.

Each violation is printed with its line number. The exit code is 1 if there are any.

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
    help="Dialect of the stream.",
)
def check_command(file: str, dialect: str) -> None:
    """Check one stream."""
    with exit_on_error():
        with open_input(file) as source:
            violations = adapters.check(dialect, source.read())
        if not violations:
            write_output(f"This is a valid {dialect} stream.\n".encode())
            return
        for violation in violations:
            line = f"line {violation.line}: {violation.message}\n"
            write_output(line.encode("utf-8", "backslashreplace"))
        raise SystemExit(1)
