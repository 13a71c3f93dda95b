"""What the gateway costs, beside a relay that only copies bytes.

    python -m tests.benchmarks.gateway [--quick] [--pair responses:chat] [--kind text] [--reference]

A fake backend, the gateway and the relay each run as a process of their own, and the same clients
call both in turns. Processor time is the process's own, user and system: on a machine that does
other things too it is steadier than the clock's. Still only what was measured in one run can be
compared. Needs Linux.
"""

import argparse
import sys
import time
from contextlib import ExitStack
from importlib.metadata import version
from itertools import product
from pathlib import Path
from platform import python_version
from statistics import median
from tempfile import TemporaryDirectory

import uvloop
from msgspec.structs import replace

import adapters
from tests.benchmarks.measure import FULL, QUICK, Plan, Record, measure, reach, warm_up
from tests.benchmarks.processes import Target, gateway, helper
from tests.benchmarks.report import FLOOR, GATEWAY, USUAL, table
from tests.benchmarks.traffic import Kind

_PAIRS = [":".join(pair) for pair in product(adapters.DIALECTS, repeat=2)]
_PACKAGES = ("litestar", "uvicorn", "uvloop", "msgspec")


async def _measure_pair(pair: str, kind: Kind, plan: Plan, *, reference: bool) -> None:
    client, backend = pair.split(":")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        fake = stack.enter_context(helper("backend", backend, kind))
        starts = [await _start(folder, pair, fake.port) for _ in range(plan.starts)]
        names = [FLOOR, USUAL] if reference else [FLOOR]
        targets = [
            stack.enter_context(gateway(folder, backend, fake.port)),
            *(stack.enter_context(helper(name, str(fake.port))) for name in names),
        ]
        await _prepare(targets, client)
        records = await measure(targets, client, plan)
    _tell(pair, kind, plan, records, median(starts))


async def _start(folder: Path, pair: str, backend_port: int) -> float:
    """Give the seconds from the start of a gateway to its first answer."""
    client, backend = pair.split(":")
    begun = time.monotonic()
    with gateway(folder, backend, backend_port) as target:
        await reach(target, client)
        return time.monotonic() - begun


async def _prepare(targets: list[Target], client: str) -> None:
    for target in targets:
        await reach(target, client)
        await warm_up(target, client, translates=target.name == GATEWAY)


def _tell(pair: str, kind: Kind, plan: Plan, records: dict[str, Record], start: float) -> None:
    title = " client in front of a ".join(pair.split(":"))
    about = f"streams of {kind}; one worker each; medians (rounds: {plan.rounds})"
    lines = ["", f"A {title} backend; {about}", *table(records, plan, start)]
    sys.stdout.write("\n".join(lines) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    parser.add_argument("--pair", action="append", choices=_PAIRS, help="client:backend; several")
    parser.add_argument("--kind", choices=["text", "arguments"], default="arguments")
    parser.add_argument("--rounds", type=int, help="how often each load is repeated")
    parser.add_argument("--reference", action="store_true", help="also Litestar with plain httpx")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    given = _arguments()
    plan = QUICK if given.quick else FULL
    plan = replace(plan, rounds=given.rounds or plan.rounds)
    versions = ", ".join(f"{package} {version(package)}" for package in _PACKAGES)
    sys.stdout.write(f"Python {python_version()}, {versions}\n")
    for pair in given.pair or ["responses:chat"]:
        uvloop.run(_measure_pair(pair, given.kind, plan, reference=given.reference))


if __name__ == "__main__":
    main()
