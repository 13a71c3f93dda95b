"""The benchmark runs and tells every measure; what it measures is for people to judge."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.measure import QUICK
from tests.benchmarks.report import ROWS

ROOT = Path(__file__).parents[2]

ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="what a process costs is read from Linux"
)


def run(module: str, *arguments: str) -> str:
    """Run a benchmark; give what it prints."""
    command = [sys.executable, "-m", module, "--quick", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@ON_LINUX
def test_quick_run_prints_every_measure_of_every_process() -> None:
    printed = run("tests.benchmarks.gateway", "--reference")
    assert "A responses client in front of a chat backend" in printed
    for name in ("gateway", "pass-through", "litestar+httpx"):
        assert name in printed
    for row in ROWS:
        assert row.title.format(plan=QUICK) in printed
    assert "start to first answer" in printed


@ON_LINUX
def test_quick_run_prints_what_state_costs() -> None:
    printed = run("tests.benchmarks.state")
    for database in ("sqlite", "postgresql"):
        assert f"{database}: the store alone" in printed
        assert f"{database}: through the gateway" in printed
    for words in ("of the throughput without", "a stored turn costs", "turn 200: continued"):
        assert printed.count(words) >= 2
