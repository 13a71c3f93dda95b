"""A background task that deletes objects that were not used within the retention period."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from gateway.observability.logging import LOG
from gateway.store import Store

_SECONDS_PER_DAY: Final = 86_400
# The interval between runs is the retention period, limited to this range.
_MAX_INTERVAL_SECONDS: Final = 3600.0
_MIN_INTERVAL_SECONDS: Final = 1.0
# Short, so that services that are restarted often run it too.
_FIRST_DELAY_SECONDS: Final = 2.0

# Returns a random number from 0 to 1, so that nodes which start together do not delete together.
Jitter = Callable[[], float]


@asynccontextmanager
async def retention_task(store: Store, days: float, jitter: Jitter) -> AsyncGenerator[None]:
    """Delete unused objects in the background. If `days` is 0, nothing is deleted."""
    if not days:
        yield
        return
    task = asyncio.create_task(_run(store, days * _SECONDS_PER_DAY, jitter))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _run(store: Store, retention_seconds: float, jitter: Jitter) -> None:
    interval = max(_MIN_INTERVAL_SECONDS, min(_MAX_INTERVAL_SECONDS, retention_seconds))
    await asyncio.sleep(min(_FIRST_DELAY_SECONDS, interval) * jitter())
    while True:
        try:
            # Use the clock of the database, because the local one may be ahead.
            await _delete_unused(store, int(await store.now() - retention_seconds))
        except Exception as error:  # noqa: BLE001 - retried after the next interval
            LOG.warning("retention run failed", error=str(error))
        await asyncio.sleep(interval * (0.5 + jitter()))


async def _delete_unused(store: Store, before: int) -> None:
    count = 0
    while deleted := await store.delete_unused(before):
        count += deleted
    if count:
        LOG.info("unused objects deleted", count=count)
