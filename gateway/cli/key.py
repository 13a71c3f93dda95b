"""`dragoman key`: creates API keys for clients."""

import rich_click as click
from click import option
from msgspec import Struct

from gateway.config.key_checks import check_shape, quoted
from gateway.config.schema import Name
from gateway.crypto import api_key_digest, new_api_key
from gateway.terminal import STANDARD_INPUT, exit_on_error, fail, open_input, write_output

_HELP = """Create an API key for a client, and print it with its configuration.

The first line is the key. It cannot be shown again: the configuration contains only its SHA-256.

\b
Examples:
  dragoman key --name laptop
  echo "$KEY" | dragoman key --name laptop --stdin
"""

_CONFIG = """\
[[access.keys]]
name = {name}
sha256 = "{digest}"
"""


class _NamedKey(Struct):
    name: Name


@click.command(help=_HELP)
@option("--name", default="client", help="Name of the client in logs (default: client).")
@option("--stdin", is_flag=True, help="Read the key from standard input instead.")
def key_command(name: str, *, stdin: bool) -> None:
    """Create or read a key, and print its configuration."""
    for error in check_shape({"name": name}, _NamedKey):
        raise click.UsageError(f"--{error}")
    with exit_on_error():
        if stdin:
            api_key = _read_key()
        else:
            api_key = new_api_key()
            write_output(f"{api_key}\n\n".encode())
        config = _CONFIG.format(name=quoted(name), digest=api_key_digest(api_key))
        write_output(config.encode())


def _read_key() -> str:
    with open_input(STANDARD_INPUT) as source:
        api_key = source.read().strip()
    if not api_key:
        fail("the input is empty; expected a key")
    if not api_key.isascii() or not api_key.decode().isprintable() or b" " in api_key:
        fail("expected one key of printable ASCII characters")
    return api_key.decode()
