"""The cost of stored state.

    python -m tests.benchmarks.state [--quick]

First the store alone: saved turns per second, with one and with many writers; and the cost of early
and late turns of a conversation. Then a gateway process in front of a fake backend: the same
requests with `store` and without; and turns that continue a short and a long conversation, compared
with requests that carry the conversation themselves. Needs Linux.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx
import msgspec
import uvloop
from msgspec import Raw, Struct

from gateway.store import Item, Response, Store, StoredTurn
from tests.benchmarks.load import LIMIT, call
from tests.benchmarks.measure import reach
from tests.benchmarks.processes import Target, gateway, helper
from tests.benchmarks.traffic import post, request
from tests.gateway.stores import DATABASES, new_url, opened_store

_PATH = "/v1/responses"
_CONNECTIONS = 32
_SHALLOW, _DEEP = 2, 200


class Amount(Struct, frozen=True):
    rounds: int
    calls: int
    # Of the store alone: saved turns, and how often one is loaded.
    turns: int
    reads: int


FULL = Amount(rounds=7, calls=600, turns=2000, reads=100)
QUICK = Amount(rounds=1, calls=8, turns=64, reads=2)


# The size of a typical turn of an agent: a tool's output, and a call.
INPUT = Raw(b'{"type":"function_call_output","output":"' + b"x" * 1500 + b'"}')
OUTPUT = Raw(b'{"type":"function_call","arguments":"' + b"y" * 300 + b'"}')
BODY = Raw(b'{"object":"response","tools":["' + b"z" * 3000 + b'"],"output":[]}')
SETTINGS = Raw(b'{"namespaces":{}}')

WRITERS = (1, 64)
DEPTHS = (2, 20, 200)
_NUMBERS = count()


def new_turn(parent: str | None) -> StoredTurn:
    response_id = f"resp_{next(_NUMBERS):032}"
    response = Response(response_id, "", 1000, "completed", BODY, SETTINGS, "m", parent)
    items = (Item(f"i{response_id}", INPUT),), (Item(f"o{response_id}", OUTPUT),)
    return StoredTurn(response, *items)


async def save_chain(store: Store, turns: int) -> list[str]:
    ids: list[str] = []
    for _ in range(turns):
        turn = new_turn(ids[-1] if ids else None)
        await store.responses.save(turn)
        ids.append(turn.response.id)
    return ids


async def measure_writers(store: Store, writers: int, turns: int) -> str:
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
    async with opened_store(url) as store:
        lines = [await measure_writers(store, writers, turns) for writers in WRITERS]
        ids = await save_chain(store, max(DEPTHS))
        return lines + [await measure_depth(store, ids, depth, repetitions) for depth in DEPTHS]


class Cost(Struct, frozen=True):
    """The time and the processor time of one call, in microseconds."""

    time: float
    processor: float


async def measure_gateway(url: str, folder: Path, amount: Amount) -> list[str]:
    """Measure a gateway on one database; each round has all loads, against slow minutes."""
    with ExitStack() as stack:
        backend = stack.enter_context(helper("backend", "chat", "text"))
        target = stack.enter_context(gateway(folder, "chat", backend.port, url))
        await reach(target, "responses")
        loads = await _create_loads(target)
        for load in loads.values():
            await call(target.port, load, amount.calls // 4, _CONNECTIONS)
        samples: dict[str, list[Cost]] = {name: [] for name in loads}
        for _ in range(amount.rounds):
            for name, load in loads.items():
                samples[name].append(await _sample(target, load, amount.calls))
    return _report({name: _median(costs) for name, costs in samples.items()})


async def _create_loads(target: Target) -> dict[str, bytes]:
    loads: dict[str, bytes] = {}
    for name, model in (("unary", "unary"), ("stream of 64 events", "burst-64")):
        body = msgspec.json.decode(request("responses", model).partition(b"\r\n\r\n")[2])
        loads[f"{name}, not stored"] = _post(body, store=False)
        loads[f"{name}, stored"] = _post(body, store=True)
    chain = await _create_chain(target, _DEEP - 1)
    for depth in (_SHALLOW, _DEEP):
        response_id, items = chain[depth - 2]
        body = {"model": "unary", "input": "Go on.", "previous_response_id": response_id}
        loads[f"turn {depth}, continued"] = _post(body)
        carried = [*items, {"role": "user", "content": "Go on."}]
        loads[f"turn {depth}, carried"] = _post({"model": "unary", "input": carried}, store=False)
    return loads


def _post(body: Mapping[str, object], **fields: object) -> bytes:
    return post(_PATH, msgspec.json.encode({**body, **fields}))


async def _create_chain(target: Target, length: int) -> list[tuple[str, list[object]]]:
    """Create a conversation; return the id of each turn with all items up to it."""
    items: list[object] = []
    previous: str | None = None
    chain: list[tuple[str, list[object]]] = []
    headers = {"Authorization": "Bearer benchmark"}
    async with httpx.AsyncClient(headers=headers, timeout=LIMIT) as client:
        for _ in range(length):
            new_items = [{"role": "user", "content": "And what else?" * 20}]
            body = {"model": "unary", "input": new_items, "previous_response_id": previous}
            reply = await client.post(f"http://127.0.0.1:{target.port}{_PATH}", json=body)
            response = msgspec.json.decode(reply.raise_for_status().content)
            previous = response["id"]
            items += [*new_items, *response["output"]]
            chain.append((response["id"], [*items]))
    return chain


async def _sample(target: Target, load: bytes, calls: int) -> Cost:
    start, processor_start = time.perf_counter_ns(), target.processor_time()
    total = processor = 0
    # The processor time of another process is coarse: a few calls may not show in it.
    while not processor:
        await call(target.port, load, calls, _CONNECTIONS)
        total += calls
        processor = target.processor_time() - processor_start
    nanoseconds = time.perf_counter_ns() - start
    return Cost(nanoseconds / total / 1000, processor / total / 1000)


def _median(costs: list[Cost]) -> Cost:
    return Cost(median(one.time for one in costs), median(one.processor for one in costs))


def _report(costs: Mapping[str, Cost]) -> list[str]:
    lines = [
        f"{name:<32} {1e6 / cost.time:8,.0f} per second, {cost.processor:7,.0f} µs processor time"
        for name, cost in costs.items()
    ]
    for kind in ("unary", "stream of 64 events"):
        stored, unstored = costs[f"{kind}, stored"], costs[f"{kind}, not stored"]
        lines.append(
            f"{kind}: with state {unstored.time / stored.time:.2f} of the throughput without;"
            f" a stored turn costs {stored.processor - unstored.processor:+,.0f} µs"
        )
    for depth in (_SHALLOW, _DEEP):
        continued, carried = costs[f"turn {depth}, continued"], costs[f"turn {depth}, carried"]
        lines.append(
            f"turn {depth}: continued, it costs {continued.processor / carried.processor:.2f}"
            " of a request that carries the conversation and is not stored"
        )
    return lines


def _measure(kind: str, amount: Amount) -> None:
    with TemporaryDirectory() as directory:
        url = new_url(kind, Path(directory))
        lines = uvloop.run(measure_store(url, amount.turns, amount.reads))
        _print(f"{kind}: the store alone", lines)
    with TemporaryDirectory() as directory:
        url = new_url(kind, Path(directory))
        lines = uvloop.run(measure_gateway(url, Path(directory), amount))
        _print(f"{kind}: through the gateway", lines)


def _print(title: str, lines: list[str]) -> None:
    sys.stdout.write("\n  ".join([title, *lines]) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.state")
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    amount = QUICK if parser.parse_args().quick else FULL
    for kind in DATABASES:
        _measure(kind, amount)


if __name__ == "__main__":
    main()
