"""The cost of the store alone: saving turns, and loading the history of a turn."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

from msgspec import Raw

from gateway.store import Item, Response, Store, StoredTurn
from tests.gateway.stores import opened_store

# The size of a typical turn of an agent: a tool's output, and a call.
INPUT = Raw(b'{"type":"function_call_output","output":"' + b"x" * 1500 + b'"}')
OUTPUT = Raw(b'{"type":"function_call","arguments":"' + b"y" * 300 + b'"}')
BODY = Raw(b'{"object":"response","tools":["' + b"z" * 3000 + b'"],"output":[]}')
SETTINGS = Raw(b'{"namespaces":{}}')

WRITERS = (1, 64)
DEPTHS = (2, 20, 200)
_NUMBERS = count()


def new_turn(parent: str | None) -> StoredTurn:
    """Return the next turn of a chain."""
    response_id = f"resp_{next(_NUMBERS):032}"
    response = Response(response_id, "", 1000, "completed", BODY, SETTINGS, "m", parent)
    items = (Item(f"i{response_id}", INPUT),), (Item(f"o{response_id}", OUTPUT),)
    return StoredTurn(response, *items)


async def save_chain(store: Store, turns: int) -> list[str]:
    """Save a chain and return its ids."""
    ids: list[str] = []
    for _ in range(turns):
        turn = new_turn(ids[-1] if ids else None)
        await store.responses.save(turn)
        ids.append(turn.response.id)
    return ids


async def measure_writers(store: Store, writers: int, turns: int) -> str:
    """Measure the time and the processor time of saving turns."""
    turns_each = max(1, turns // writers)
    total = turns_each * writers
    start, processor_start = time.perf_counter(), time.process_time()
    await asyncio.gather(*(save_chain(store, turns_each) for _ in range(writers)))
    seconds = time.perf_counter() - start
    processor_seconds = time.process_time() - processor_start
    return (
        f"{writers:3} writers: {total / seconds:8.0f} turns/s,"
        f" {processor_seconds / total * 1e6:5.0f} µs processor time each"
    )


async def measure_depth(store: Store, ids: list[str], depth: int, repetitions: int) -> str:
    """Measure loading the history of a turn, and saving it."""
    parent = ids[depth - 2]
    chain = await store.responses.load_chain("", parent) or ()
    size = sum(len(bytes(item.body)) for link in chain for item in link.input + link.output)

    async def microseconds(operation: Callable[[], Awaitable[object]]) -> float:
        start = time.perf_counter()
        for _ in range(repetitions):
            await operation()
        return (time.perf_counter() - start) / repetitions * 1e6

    loading = await microseconds(lambda: store.responses.load_chain("", parent))
    saving = await microseconds(lambda: store.responses.save(new_turn(parent)))
    return (
        f"turn {depth:3}: loads {size / 1000:6.1f} kB in {loading:6.0f} µs,"
        f" {loading * 1000 / size:5.0f} ns per byte; saved in {saving:5.0f} µs"
    )


async def measure_store(url: str, turns: int, repetitions: int) -> list[str]:
    """Measure the store on one database."""
    async with opened_store(url) as store:
        lines = [await measure_writers(store, writers, turns) for writers in WRITERS]
        ids = await save_chain(store, max(DEPTHS))
        return lines + [await measure_depth(store, ids, depth, repetitions) for depth in DEPTHS]
