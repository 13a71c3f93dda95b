"""Waking those who wait for something to change."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress


class Signals:
    """Knows who waits for which name."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def fire(self, name: str) -> None:
        """Wake all who wait for this name."""
        for event in self._waiting.get(name, ()):
            event.set()

    @contextmanager
    def watching(self, name: str, event: asyncio.Event | None = None) -> Generator[asyncio.Event]:
        """Give an event that is set when the name is fired, however early in this block."""
        event = event or asyncio.Event()
        self._waiting.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            others = self._waiting[name]
            others.discard(event)
            if not others:
                del self._waiting[name]


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not for long; be ready for the next one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()
