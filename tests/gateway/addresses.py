"""Addresses at which no backend can be reached."""

import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager


@contextmanager
def refusing_address() -> Generator[str]:
    """Return an address that refuses connections, and that no other process can take."""
    with socket.socket() as closed:
        # Bound but not listening.
        closed.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{closed.getsockname()[1]}"


@contextmanager
def full_address() -> Generator[str]:
    """Return an address whose queue is full, so that new connections are not established."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
