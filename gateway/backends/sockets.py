"""How the sockets to backends are set."""

import asyncio
import socket
from contextlib import suppress

# A model may think for minutes before it says a word. Without a sign of life in between, routers
# forget the connection (some after 350 seconds), and a backend that is gone is not noticed.
_SECONDS_OF_SILENCE = 60
_SIGNS_UNANSWERED = 5

_OPTIONS = {
    "TCP_KEEPIDLE": _SECONDS_OF_SILENCE,
    "TCP_KEEPINTVL": _SECONDS_OF_SILENCE,
    "TCP_KEEPCNT": _SIGNS_UNANSWERED,
}

# Not every system has all of them.
SOCKET_OPTIONS: list[tuple[int, int, int]] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _OPTIONS.items()
        if hasattr(socket, name)
    ),
]


def enable_tcp_keepalive(transport: asyncio.BaseTransport) -> None:
    """Have the system give signs of life on a connection."""
    raw: socket.socket | None = transport.get_extra_info("socket")
    if raw is None or transport.is_closing():
        return
    # Some systems refuse when the other side has closed already; whoever writes will see that.
    with suppress(OSError):
        for level, option, value in SOCKET_OPTIONS:
            raw.setsockopt(level, option, value)
