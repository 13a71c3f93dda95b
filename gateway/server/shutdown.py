"""Listeners that are called as soon as the server starts to shut down.

ASGI's shutdown event follows only after all connections have ended, which may take long. Jobs that
another node can take over are released at once instead.
"""

from collections.abc import Callable

_LISTENERS: set[Callable[[], None]] = set()


def on_shutdown(listener: Callable[[], None]) -> Callable[[], None]:
    """Call a listener on shutdown, possibly more than once; return a function that removes it."""
    _LISTENERS.add(listener)
    return lambda: _LISTENERS.discard(listener)


def notify_shutdown() -> None:
    """Call all listeners."""
    for listener in [*_LISTENERS]:
        listener()
