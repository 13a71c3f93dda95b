"""What `dragoman serve` says when it starts: what is served, and where."""

import ipaddress
import sys
from urllib.parse import urlsplit

from gateway.config.schema import Backend, Configuration

# Host and port; those of IPv6 sockets have two numbers more, which nobody types.
Address = tuple[str, int]

_TRY = """No backend is configured: the built-in demo serves every model. Try
  curl {address}/v1/responses -H 'content-type: application/json' \\
    -d '{{"model": "demo", "input": "Hello!"}}'"""

_OPEN = """warning: whoever reaches {host} may use this gateway; `dragoman key` makes keys for it"""


def print_startup_banner(configuration: Configuration, address: Address) -> None:
    """Say what is served, before the service is there."""
    for backend in configuration.backends:
        _say(_describe(backend))
    if not configuration.backends:
        _say(_TRY.format(address=url(address)))
    if not configuration.access.keys and not _is_loopback(address):
        print(_OPEN.format(host=address[0]), file=sys.stderr, flush=True)  # noqa: T201 - for people


def print_listening(address: Address) -> None:
    """Say that the service is there, and where: scripts wait for this line."""
    _say(f"listening on {url(address)}")


def url(address: Address) -> str:
    """Give an address as clients write it."""
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def without_secrets(base: str) -> str:
    """Leave out of a URL where people put passwords and keys."""
    parts = urlsplit(base)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _describe(backend: Backend) -> str:
    rest = ("all that no other serves",) if backend.default else ()
    models = ", ".join((*backend.models, *rest))
    return f"{backend.name}: {backend.dialect} at {without_secrets(backend.url)} for {models}"


def _is_loopback(address: Address) -> bool:
    return ipaddress.ip_address(address[0].partition("%")[0]).is_loopback


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - for the person at the terminal, not for the log
