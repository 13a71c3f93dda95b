"""The cost of stored state.

    python -m tests.benchmarks.state [--quick]

First the store alone: saved turns per second, with one and with many writers; and the cost of early
and late turns of a conversation. Then a gateway process in front of a fake backend: the same
requests with `store` and without; and turns that continue a short and a long conversation, compared
with requests that carry the conversation themselves. Needs Linux.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from tests.benchmarks.state_served import FULL, QUICK, Amount, measure_gateway
from tests.benchmarks.state_store import measure_store
from tests.gateway.stores import DATABASES, new_url


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
    """Measure both databases."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.state")
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    amount = QUICK if parser.parse_args().quick else FULL
    for kind in DATABASES:
        _measure(kind, amount)


if __name__ == "__main__":
    main()
