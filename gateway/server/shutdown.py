"""The signal inside one process that the server is shutting down.

The application's own shutdown event comes only after all connections have ended, and a stream may
take long. Work that another node could take over should not wait for that.
"""

from collections.abc import Callable

_LISTENERS: set[Callable[[], None]] = set()


def on_shutdown(listener: Callable[[], None]) -> Callable[[], None]:
    """Call a listener on shutdown, perhaps several times; return a function that removes it."""
    _LISTENERS.add(listener)
    return lambda: _LISTENERS.discard(listener)


def notify_shutdown() -> None:
    """Call all listeners."""
    for listener in [*_LISTENERS]:
        listener()
