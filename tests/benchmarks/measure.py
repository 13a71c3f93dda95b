"""Put loads on the processes in rounds, and record their costs."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from msgspec import Struct

import adapters
from tests.benchmarks.load import BrokenReplyError, Listener, call, hold, listen
from tests.benchmarks.processes import Target
from tests.benchmarks.traffic import request

# Seconds until the first reply of a process.
_PATIENCE = 120


class Load(Struct, frozen=True):
    # The model of the requests, which selects the reply of the backend.
    model: str
    calls: int
    connections: int
    # Of one call.
    events: int = 1


class Plan(Struct, frozen=True):
    rounds: int
    # Seconds of CPU time that a sample takes at least: the load is repeated until then.
    least: float
    unary: Load
    short: Load
    middle: Load
    long: Load
    paced: Load
    idle: int
    starts: int


FULL = Plan(
    rounds=7,
    least=0.3,
    unary=Load("unary", calls=1500, connections=16),
    short=Load("burst-64", calls=300, connections=8, events=64),
    middle=Load("burst-1000", calls=32, connections=4, events=1000),
    long=Load("burst-100000", calls=1, connections=1, events=100_000),
    paced=Load("paced-100", calls=20, connections=20, events=100),
    idle=1000,
    starts=5,
)
QUICK = Plan(
    rounds=1,
    least=0,
    unary=Load("unary", calls=40, connections=4),
    short=Load("burst-64", calls=8, connections=2, events=64),
    middle=Load("burst-1000", calls=2, connections=2, events=1000),
    long=Load("burst-4000", calls=1, connections=1, events=4000),
    paced=Load("paced-10", calls=4, connections=4, events=10),
    idle=20,
    starts=1,
)


class Sample(Struct, frozen=True):
    """The cost of one load, in microseconds."""

    processor: float
    # From the request to the first event, and the latency of events; only of paced streams.
    first_event: float = 0
    delay: float = 0


@dataclass(slots=True)
class Record:
    """The samples of one process, and their medians in microseconds."""

    samples: dict[str, list[Sample]] = field(default_factory=dict[str, list[Sample]])
    # Resident bytes without streams, and with many idle ones.
    before: int = 0
    during: int = 0

    def note(self, load: Load, taken: Sample) -> None:
        self.samples.setdefault(load.model, []).append(taken)

    def processor(self, load: Load) -> float:
        return median(sample.processor for sample in self.samples[load.model])

    def per_event(self, load: Load) -> float:
        return self.processor(load) / load.events

    def first_event(self, load: Load) -> float:
        return median(sample.first_event for sample in self.samples[load.model])

    def delay(self, load: Load) -> float:
        return median(sample.delay for sample in self.samples[load.model])


async def reach(target: Target, client: str) -> None:
    async with asyncio.timeout(_PATIENCE):
        while target.process.poll() is None:
            try:
                return await call(target.port, request(client, "unary"), 1, 1)
            except ConnectionRefusedError:
                await asyncio.sleep(0.005)
    code = target.process.returncode
    raise BrokenReplyError(f"{target.name} ended with {code} before it answered")


async def warm_up(target: Target, client: str, *, translates: bool) -> None:
    """Send requests that are not measured, and check the replies."""
    for model in ("unary", "burst-64", "burst-1000"):
        await call(target.port, request(client, model), 20, 4)
    (listener,) = await listen(target.port, request(client, "burst-64"), 1)
    if listener.body.count(b"data: ") < 64:
        raise BrokenReplyError(f"{target.name} loses events: {listener.body[-500:]!r}")
    breaches = adapters.check(client, listener.body) if translates else []
    if breaches:
        raise BrokenReplyError(f"{target.name} gives a stream that is not legal: {breaches[0]}")


async def sample(target: Target, client: str, load: Load, least: float) -> Sample:
    """Put one load on a process, repeated until it has taken the minimum time."""
    sent = request(client, load.model)
    before = target.processor_time()
    taken = calls = 0
    while not taken or taken < least * 1e9:
        await call(target.port, sent, load.calls, load.connections)
        taken = target.processor_time() - before
        calls += load.calls
    return Sample(taken / calls / 1000)


async def sample_paced(target: Target, client: str, load: Load) -> Sample:
    """Receive streams whose events come one by one, and measure their latency."""
    before = target.processor_time()
    taken = calls = 0
    listeners: list[Listener] = []
    while not taken:
        listeners = await listen(target.port, request(client, load.model), load.calls)
        taken = target.processor_time() - before
        calls += load.calls
    first = median(listener.first_event() for listener in listeners)
    delay = median(delay for listener in listeners for delay in listener.delays())
    return Sample(taken / calls / 1000, first / 1000, delay / 1000)


async def measure(targets: Iterable[Target], client: str, plan: Plan) -> dict[str, Record]:
    """Sample in rounds, so that a slow minute of the machine affects all alike."""
    records = {target: Record() for target in targets}
    for _ in range(plan.rounds):
        for load in (plan.unary, plan.short, plan.middle, plan.long):
            for target, record in records.items():
                record.note(load, await sample(target, client, load, plan.least))
        for target, record in records.items():
            record.note(plan.paced, await sample_paced(target, client, plan.paced))
    for target, record in records.items():
        record.before, record.during = await _weigh(target, client, plan.idle)
    return {target.name: record for target, record in records.items()}


async def _weigh(target: Target, client: str, count: int) -> tuple[int, int]:
    before = target.memory()
    listeners = await hold(target.port, request(client, "idle"), count)
    during = target.memory()
    for listener in listeners:
        listener.leave()
    await asyncio.gather(*(listener.done for listener in listeners))
    return before, during
