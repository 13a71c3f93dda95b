"""Tells, inside one process, that the server was told to stop.

The application itself hears of that only when all connections have ended, which a stream may put
off for as long as answers may take. What others could take over should not wait for that.
"""

from collections.abc import Callable

_LISTENERS: set[Callable[[], None]] = set()


def on_shutdown(listener: Callable[[], None]) -> Callable[[], None]:
    """Have something called when the server stops, perhaps several times; give what ends that."""
    _LISTENERS.add(listener)
    return lambda: _LISTENERS.discard(listener)


def notify_shutdown() -> None:
    """Tell everybody who listens."""
    for listener in [*_LISTENERS]:
        listener()
