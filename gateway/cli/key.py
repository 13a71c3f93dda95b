"""`dragoman key`: a key for clients of the gateway, and what the configuration keeps of it."""

import rich_click as click
from click import option
from msgspec import Struct

from gateway.config.schema import Name
from gateway.config.validation import check_shape, quoted
from gateway.crypto import api_key_digest, new_api_key
from gateway.terminal import STANDARD_INPUT, exit_on_error, fail, open_input, write

_HELP = """Make a key for a client, and print it with the lines that let it in.

The key is the first line, and is shown only now. The configuration knows no more than its SHA-256.

\b
Examples:
  dragoman key --name laptop
  echo "$KEY" | dragoman key --name laptop --stdin
"""

_LINES = """\
[[access.keys]]
name = {name}
sha256 = "{digest}"
"""


class Named(Struct):
    """What the file says of the name."""

    name: Name


@click.command(help=_HELP)
@option("--name", default="client", help="What the logs call who uses it (client).")
@option("--stdin", is_flag=True, help="Take the key from standard input instead of making one.")
def key(name: str, *, stdin: bool) -> None:
    """Make or take a key, and print what is stored of it."""
    for mistake in check_shape({"name": name}, Named):
        raise click.UsageError(f"--{mistake}")
    with exit_on_error():
        if stdin:
            given = _read_key()
        else:
            given = new_api_key()
            write(f"{given}\n\n".encode())
        write(_LINES.format(name=quoted(name), digest=api_key_digest(given)).encode())


def _read_key() -> str:
    with open_input(STANDARD_INPUT) as source:
        given = source.read().strip()
    if not given:
        fail("the input is empty; expected a key")
    if not given.isascii() or not given.decode().isprintable() or b" " in given:
        fail("expected one key of printable ASCII characters")
    return given.decode()
