"""What state costs.

    python -m tests.benchmarks.state [--quick]

First the store alone: stored turns a second, alone and with many writers at once; and what a turn
late in a conversation costs against an early one, to read what it stands on and to store it. Then
the gateway as a process, in front of a fake backend: the same requests with `store` and without it,
in turns; and turns that continue a short and a long conversation, beside requests that carry the
same conversation themselves. Needs Linux.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from tests.benchmarks.state_served import QUICK, USUAL, Rounds, measure_served
from tests.benchmarks.state_store import measure_store
from tests.gateway.stores import new_url


def _measure(kind: str, rounds: Rounds) -> None:
    with TemporaryDirectory() as directory:
        url = new_url(kind, Path(directory))
        alone = uvloop.run(measure_store(url, rounds.turns, rounds.reads))
        _tell(f"{kind}: the store alone", alone)
    with TemporaryDirectory() as directory:
        url = new_url(kind, Path(directory))
        served = uvloop.run(measure_served(url, Path(directory), rounds))
        _tell(f"{kind}: through the gateway", served)


def _tell(title: str, lines: list[str]) -> None:
    sys.stdout.write("\n  ".join([title, *lines]) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure both databases."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.state")
    parser.add_argument("--quick", action="store_true", help="only show that it runs")
    rounds = QUICK if parser.parse_args().quick else USUAL
    for kind in ("sqlite", "postgresql"):
        _measure(kind, rounds)


if __name__ == "__main__":
    main()
