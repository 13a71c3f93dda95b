"""Forgets, from time to time, what nobody has used for as long as things are kept."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from gateway.observability.logging import LOG
from gateway.store import Store

_DAY: Final = 86_400
# So often it is looked for what is old; more often only where things are kept for less than that.
_LONGEST_PAUSE: Final = 3600.0
_SHORTEST_PAUSE: Final = 1.0
# The first time comes soon: a service that is often restarted would never come to it otherwise.
_FIRST_PAUSE: Final = 2.0

# Gives a number from 0 to 1, by chance: many nodes that start at once should not sweep at once.
Chance = Callable[[], float]


@asynccontextmanager
async def retention_task(store: Store, days: float, chance: Chance) -> AsyncGenerator[None]:
    """Sweep in the background; not at all if things are kept for ever."""
    if not days:
        yield
        return
    task = asyncio.create_task(_sweep_always(store, days * _DAY, chance))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _sweep_always(store: Store, seconds: float, chance: Chance) -> None:
    pause = max(_SHORTEST_PAUSE, min(_LONGEST_PAUSE, seconds))
    await asyncio.sleep(min(_FIRST_PAUSE, pause) * chance())
    while True:
        try:
            # A machine whose clock is ahead must not forget what is young to all others.
            await _sweep(store, int(await store.now() - seconds))
        except Exception as problem:  # noqa: BLE001 - whatever it is, there is a next time
            LOG.warning("retention run failed", error=str(problem))
        await asyncio.sleep(pause * (0.5 + chance()))


async def _sweep(store: Store, before: int) -> None:
    """Forget part after part: each is written with what others have to write, and between."""
    count = 0
    while part := await store.delete_unused(before):
        count += part
    if count:
        LOG.info("expired data deleted", count=count)
