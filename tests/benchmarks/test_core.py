"""The benchmark runs and tells of every pair; what it measures is for people to judge."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import adapters

ROOT = Path(__file__).parents[2]


def test_quick_run_prints_every_pair() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.core", "--quick"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    assert ran.returncode == 0, ran.stderr
    for title in ("Text deltas", "Argument deltas", "Requests"):
        assert title in ran.stdout
    for client, backend in product(adapters.DIALECTS, repeat=2):
        rows = [line for line in ran.stdout.splitlines() if line.startswith(f"{client} client,")]
        assert sum(f"{backend} backend" in row for row in rows) == 3, ran.stdout
    assert ran.stdout.count("Flatness") == 2
