"""What state costs a gateway that serves: the same requests with and without it."""

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
# As many as there are agents that wait at once.
_CONNECTIONS = 32
_SHALLOW, _DEEP = 2, 200


class Rounds(Struct, frozen=True):
    """How much is measured."""

    rounds: int
    calls: int
    # Of the store alone: turns that are written, and how often one is read.
    turns: int
    reads: int


USUAL = Rounds(rounds=7, calls=600, turns=2000, reads=100)
QUICK = Rounds(rounds=1, calls=8, turns=64, reads=2)


class Taken(Struct, frozen=True):
    """What one call took, in microseconds: by the clock, and of the gateway's processor."""

    clock: float
    processor: float


async def measure_served(url: str, folder: Path, rounds: Rounds) -> list[str]:
    """Measure a gateway on one database, in rounds, so that a slow minute falls on all alike."""
    with ExitStack() as stack:
        fake = stack.enter_context(helper("backend", "chat", "text"))
        target = stack.enter_context(gateway(folder, "chat", fake.port, url))
        await reach(target, "responses")
        loads = await _loads(target)
        for load in loads.values():
            await call(target.port, load, rounds.calls // 4, _CONNECTIONS)
        samples: dict[str, list[Taken]] = {name: [] for name in loads}
        for _ in range(rounds.rounds):
            for name, load in loads.items():
                samples[name].append(await _sample(target, load, rounds.calls))
    return _lines({name: _median(taken) for name, taken in samples.items()})


async def _loads(target: Target) -> dict[str, bytes]:
    """Write the requests, whose names say what is measured with them."""
    plain = {
        name: _body(request("responses", model))
        for name, model in (("unary", "unary"), ("stream of 64 events", "burst-64"))
    }
    loads = {
        f"{name}, {how}": _posted(body, store=store)
        for name, body in plain.items()
        for how, store in (("forgotten", False), ("stored", True))
    }
    chain = await _chain(target, _DEEP - 1)
    for depth in (_SHALLOW, _DEEP):
        name, items = chain[depth - 2]
        loads[f"turn {depth}, continued"] = _asking("Go on.", previous_response_id=name)
        carried = [*items, {"role": "user", "content": "Go on."}]
        loads[f"turn {depth}, carried"] = _asking(carried, store=False)
    return loads


def _body(posted: bytes) -> bytes:
    return posted.partition(b"\r\n\r\n")[2]


def _posted(body: bytes, **fields: object) -> bytes:
    """Write a request with some fields changed."""
    spelled: dict[str, object] = msgspec.json.decode(body)
    return post(_PATH, msgspec.json.encode({**spelled, **fields}))


def _asking(given: object, **fields: object) -> bytes:
    return post(_PATH, msgspec.json.encode({"model": "unary", "input": given, **fields}))


async def _chain(target: Target, length: int) -> list[tuple[str, list[object]]]:
    """Make a conversation of so many turns; give the name of each, and all items up to it."""
    items: list[object] = []
    name: str | None = None
    chain: list[tuple[str, list[object]]] = []
    headers = {"Authorization": "Bearer benchmark"}
    async with httpx.AsyncClient(headers=headers, timeout=LIMIT) as client:
        for _ in range(length):
            said = [{"role": "user", "content": "And what else?" * 20}]
            body = {"model": "unary", "input": said, "previous_response_id": name}
            answer = await client.post(f"http://127.0.0.1:{target.port}{_PATH}", json=body)
            response = msgspec.json.decode(answer.raise_for_status().content)
            name = response["id"]
            items += [*said, *response["output"]]
            chain.append((response["id"], [*items]))
    return chain


async def _sample(target: Target, load: bytes, calls: int) -> Taken:
    begun, before = time.perf_counter_ns(), target.processor_time()
    answered = processor = 0
    # A few calls may take less than the clock of another process tells on some machines.
    while not processor:
        await call(target.port, load, calls, _CONNECTIONS)
        answered += calls
        processor = target.processor_time() - before
    taken = (time.perf_counter_ns() - begun, processor)
    return Taken(*(nanoseconds / answered / 1000 for nanoseconds in taken))


def _median(taken: list[Taken]) -> Taken:
    return Taken(median(one.clock for one in taken), median(one.processor for one in taken))


def _lines(taken: Mapping[str, Taken]) -> list[str]:
    lines = [
        f"{name:<32} {1e6 / one.clock:8,.0f} a second, {one.processor:7,.0f} µs of processor"
        for name, one in taken.items()
    ]
    for kind in ("unary", "stream of 64 events"):
        stored, forgotten = taken[f"{kind}, stored"], taken[f"{kind}, forgotten"]
        lines.append(
            f"{kind}: with state {forgotten.clock / stored.clock:.2f} of the throughput without;"
            f" a stored turn costs {stored.processor - forgotten.processor:+,.0f} µs"
        )
    for depth in (_SHALLOW, _DEEP):
        continued, carried = taken[f"turn {depth}, continued"], taken[f"turn {depth}, carried"]
        lines.append(
            f"turn {depth}: continued, it costs {continued.processor / carried.processor:.2f}"
            f" of what it costs when the client carries it, which is not kept"
        )
    return lines
