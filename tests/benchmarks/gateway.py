"""The cost of the gateway, compared with a relay that only copies bytes.

    python -m tests.benchmarks.gateway [--quick] [--pair responses:chat] [--kind text]
    python -m tests.benchmarks.gateway --against /other/environment/bin/dragoman
    python -m tests.benchmarks.gateway --record

A fake backend, the gateway and the relay run in processes of their own, and the same clients call
both in turns. CPU time is that of the process, user and system, which varies less than wall time on
a busy machine. Compare only results of one run. Needs Linux. `--against` measures another version
in the same rounds and prints the CPU time of this one in relation to it, with an interval.
`--record` measures this version while it records, including the process that writes recordings.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from itertools import product
from pathlib import Path
from platform import python_version
from statistics import median
from tempfile import TemporaryDirectory

import uvloop
from msgspec import Struct
from msgspec.structs import replace

import adapters
from tests.benchmarks.core import Kind
from tests.benchmarks.measure import FULL, QUICK, Plan, Record, measure, reach, warm_up
from tests.benchmarks.processes import gateway, helper

_PAIRS = [":".join(pair) for pair in product(adapters.DIALECTS, repeat=2)]
_PACKAGES = ("litestar", "uvicorn", "uvloop", "msgspec")
GATEWAY, OTHER, RECORDING, RELAY = "gateway", "other", "recording", "relay"
_TITLES = {
    GATEWAY: "gateway",
    OTHER: "other version",
    RECORDING: "recording",
    RELAY: "pass-through",
}
_SECOND = 1_000_000
_KILO, _MEGA = 1000, 1_000_000

Compare = Callable[[float, float], str]


def _ratio(ours: float, floor: float) -> str:
    return f"{ours / floor:.1f} x"


def _added(ours: float, floor: float) -> str:
    return f"{ours - floor:+,.0f} µs"


async def _measure_pair(
    pair: str, kind: Kind, plan: Plan, against: str | None, *, record: bool
) -> None:
    client, backend = pair.split(":")
    with ExitStack() as stack:
        # The process that writes recordings ends after the gateway.
        folder = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        fake = stack.enter_context(helper("backend", backend, kind))
        starts = [await _start(folder, pair, fake.port) for _ in range(plan.starts)]
        targets = [stack.enter_context(gateway(folder, backend, fake.port))]
        if against:
            targets += [stack.enter_context(gateway(folder, backend, fake.port, command=against))]
        if record:
            targets += [stack.enter_context(gateway(folder, backend, fake.port, record=True))]
        targets += [stack.enter_context(helper(RELAY, str(fake.port)))]
        for target in targets:
            await reach(target, client)
            await warm_up(target, client, translates=target.name == GATEWAY)
        records = await measure(targets, client, plan)
    about = f"streams of {kind}; one worker each; medians (rounds: {plan.rounds})"
    title = f"A {client} client in front of a {backend} backend; {about}"
    lines = ["", title, *table(records, plan, median(starts))]
    for name in (OTHER, RECORDING):
        if name in records:
            lines += ["", *_ratios(records[GATEWAY], records[name], _TITLES[name])]
    sys.stdout.write("\n".join(lines) + "\n")


async def _start(folder: Path, pair: str, backend_port: int) -> float:
    """Return the seconds from the start of a gateway to its first reply."""
    client, backend = pair.split(":")
    start = time.monotonic()
    with gateway(folder, backend, backend_port) as target:
        await reach(target, client)
        return time.monotonic() - start


class Row(Struct, frozen=True):
    """One measure of each process; its title may contain fields of the plan."""

    title: str
    value: Callable[[Record, Plan], float]
    # Compares the gateway with the relay.
    compare: Compare | None = None
    # The first and the second goal.
    aim: str = ""
    digits: int = 0


def _per_event(title: str, load: str, aim: str = "", digits: int = 2) -> Row:
    def value(record: Record, plan: Plan) -> float:
        return record.per_event(getattr(plan, load))

    return Row(f"{title}: CPU µs per event", value, _ratio, aim, digits)


ROWS = (
    Row(
        "unary, request of 5 kB: CPU µs each",
        lambda record, plan: record.processor(plan.unary),
        _ratio,
        "35 x, then 15 x",
        1,
    ),
    Row("  requests per CPU second", lambda record, plan: _SECOND / record.processor(plan.unary)),
    _per_event("burst of {plan.short.events:,} events", "short", "28 µs, then 12 µs"),
    Row("  streams per CPU second", lambda record, plan: _SECOND / record.processor(plan.short)),
    Row("  events per CPU second", lambda record, plan: _SECOND / record.per_event(plan.short)),
    _per_event("stream of {plan.middle.events:,} events", "middle", "10 µs, then 6 µs"),
    Row("  events per CPU second", lambda record, plan: _SECOND / record.per_event(plan.middle)),
    _per_event("stream of {plan.long.events:,} events", "long"),
    Row(
        "  of what an event of {plan.middle.events:,} costs",
        lambda record, plan: record.per_event(plan.long) / record.per_event(plan.middle),
        aim="flat: about 1",
        digits=2,
    ),
    _per_event("{plan.paced.calls} paced streams", "paced", "4 x, then 2.2 x", 1),
    Row(
        "  request to first event, µs", lambda record, plan: record.first_event(plan.paced), _added
    ),
    Row("  an event on its way, µs", lambda record, plan: record.delay(plan.paced), _added),
    Row("memory, MB", lambda record, _: record.before / _MEGA, digits=1),
    Row(
        "  with {plan.idle:,} idle streams, MB",
        lambda record, _: record.during / _MEGA,
        aim="150 MB, then 100 MB",
        digits=1,
    ),
    Row(
        "  for each of them, kB",
        lambda record, plan: (record.during - record.before) / plan.idle / _KILO,
        digits=1,
    ),
)


def table(records: Mapping[str, Record], plan: Plan, start: float) -> Iterator[str]:
    """Yield the lines of one pair; `start` is the start time of the gateway."""
    heads = "".join(f"{_TITLES[name]:>16}" for name in records)
    yield f"{'':<42}{heads}{'difference':>12}  aim"
    for row in ROWS:
        yield _line(row, records, plan).rstrip()
    rest = " " * (16 * (len(records) - 1) + 12)
    yield f"{'start to first answer, s':<42}{start:>16.2f}{rest}  1.5 s, then 0.7 s"


def _line(row: Row, records: Mapping[str, Record], plan: Plan) -> str:
    values = {name: row.value(record, plan) for name, record in records.items()}
    cells = "".join(f"{value:>16,.{row.digits}f}" for value in values.values())
    compared = "" if row.compare is None else row.compare(values[GATEWAY], values[RELAY])
    return f"{row.title.format(plan=plan):<42}{cells}{compared:>12}  {row.aim}"


def _ratios(ours: Record, other: Record, title: str) -> Iterator[str]:
    """Yield the CPU time of each load in relation to that of another gateway.

    The interval is that of the median, at 95 %, by the ranks of the sorted ratios.
    """
    yield f"{f'CPU time, gateway / {title}':<42}{'median':>16}{'interval':>20}"
    for load, samples in ours.samples.items():
        pairs = zip(samples, other.samples[load], strict=True)
        ratios = sorted(one.processor / two.processor for one, two in pairs)
        margin = math.sqrt(len(ratios))
        low = ratios[max(math.floor((len(ratios) - 1) / 2 - margin), 0)]
        high = ratios[min(math.ceil((len(ratios) - 1) / 2 + margin), len(ratios) - 1)]
        yield f"{load:<42}{median(ratios):>16.3f}{f'{low:.3f} to {high:.3f}':>20}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    parser.add_argument("--pair", action="append", choices=_PAIRS, help="client:backend; several")
    parser.add_argument("--kind", choices=["text", "arguments"], default="arguments")
    parser.add_argument("--rounds", type=int, help="how often each load is repeated")
    parser.add_argument("--against", metavar="COMMAND", help="the `dragoman` of another version")
    parser.add_argument("--record", action="store_true", help="measure recording, too")
    return parser.parse_args()


def main() -> None:
    given = _arguments()
    plan = QUICK if given.quick else FULL
    plan = replace(plan, rounds=given.rounds or plan.rounds)
    versions = ", ".join(f"{package} {version(package)}" for package in _PACKAGES)
    sys.stdout.write(f"Python {python_version()}, {versions}\n")
    for pair in given.pair or ["responses:chat"]:
        uvloop.run(_measure_pair(pair, given.kind, plan, given.against, record=given.record))


if __name__ == "__main__":
    main()
