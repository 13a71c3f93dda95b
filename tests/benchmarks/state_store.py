"""What the store costs by itself: to write turns, and to read what a turn stands on."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count

from msgspec import Raw

from gateway.store import Item, Response, Store, StoredTurn
from tests.gateway.stores import opened_store

# About what a turn of an agent holds: a tool's output in, and a call out.
INPUT = Raw(b'{"type":"function_call_output","output":"' + b"x" * 1500 + b'"}')
OUTPUT = Raw(b'{"type":"function_call","arguments":"' + b"y" * 300 + b'"}')
BODY = Raw(b'{"object":"response","tools":["' + b"z" * 3000 + b'"],"output":[]}')
SETTINGS = Raw(b'{"namespaces":{}}')

WRITERS = (1, 64)
DEPTHS = (2, 20, 200)
_NAMES = count()


def made(parent: str | None) -> StoredTurn:
    """Make the next turn of a chain."""
    name = f"resp_{next(_NAMES):032}"
    response = Response(name, "", 1000, "completed", BODY, SETTINGS, "m", parent)
    return StoredTurn(response, (Item(f"i{name}", INPUT),), (Item(f"o{name}", OUTPUT),))


async def write_chain(store: Store, turns: int) -> list[str]:
    """Write a chain; give its names."""
    names: list[str] = []
    for _ in range(turns):
        turn = made(names[-1] if names else None)
        await store.responses.save(turn)
        names.append(turn.response.id)
    return names


async def timed(work: Awaitable[object], number: int) -> tuple[float, float]:
    """Give the seconds and the processor's seconds of each of a number of things."""
    begin, begin_processor = time.perf_counter(), time.process_time()
    await work
    return (
        (time.perf_counter() - begin) / number,
        (time.process_time() - begin_processor) / number,
    )


async def measure_writing(store: Store, writers: int, turns: int) -> str:
    """Measure stored turns."""
    each = max(1, turns // writers)
    work = asyncio.gather(*(write_chain(store, each) for _ in range(writers)))
    seconds, processor = await timed(work, each * writers)
    return (
        f"{writers:3} writers: {1 / seconds:8.0f} turns/s,"
        f" {processor * 1e6:5.0f} µs of our processor each"
    )


async def measure_depth(store: Store, names: list[str], depth: int, times: int) -> str:
    """Measure a turn that stands on so many others."""
    parent = names[depth - 2]
    steps = await store.responses.load_chain("", parent) or ()
    size = sum(len(bytes(item.body)) for step in steps for item in step.input + step.output)

    async def repeat(work: Callable[[], Awaitable[object]]) -> None:
        for _ in range(times):
            await work()

    async def save() -> None:
        await store.responses.save(made(parent))

    reading, _ = await timed(repeat(partial(store.responses.load_chain, "", parent)), times)
    saving, _ = await timed(repeat(save), times)
    return (
        f"turn {depth:3}: reads {size / 1000:6.1f} kB in {reading * 1e6:6.0f} µs,"
        f" {reading * 1e9 / size:5.0f} ns a byte; is stored in {saving * 1e6:5.0f} µs"
    )


async def measure_store(url: str, turns: int, times: int) -> list[str]:
    """Measure one database."""
    async with opened_store(url) as store:
        lines = [await measure_writing(store, writers, turns) for writers in WRITERS]
        names = await write_chain(store, max(DEPTHS))
        return lines + [await measure_depth(store, names, depth, times) for depth in DEPTHS]
