"""The cost of stored state in a gateway process: the same requests with and without it."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import httpx
import msgspec
from msgspec import Struct

from tests.benchmarks.load import LIMIT, call
from tests.benchmarks.measure import reach
from tests.benchmarks.processes import Target, gateway, helper
from tests.benchmarks.traffic import post, request

_PATH = "/v1/responses"
_CONNECTIONS = 32
_SHALLOW, _DEEP = 2, 200


class Amount(Struct, frozen=True):
    """How much is measured."""

    rounds: int
    calls: int
    # Of the store alone: saved turns, and how often one is loaded.
    turns: int
    reads: int


FULL = Amount(rounds=7, calls=600, turns=2000, reads=100)
QUICK = Amount(rounds=1, calls=8, turns=64, reads=2)


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
    """Return the requests to measure, by name."""
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
