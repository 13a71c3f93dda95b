"""The benchmarks run and print every measure."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import adapters
from tests.benchmarks.gateway import ROWS
from tests.benchmarks.measure import QUICK

ROOT = Path(__file__).parents[2]

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the CPU time of another process is read from Linux"
)


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", "--quick", *arguments]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_core_prints_every_pair() -> None:
    output = run("core")
    for title in ("Text deltas", "Argument deltas", "Requests"):
        assert title in output
    for client, backend in product(adapters.DIALECTS, repeat=2):
        lines = [line for line in output.splitlines() if line.startswith(f"{client} client,")]
        assert sum(f"{backend} backend" in line for line in lines) == 3, output
    assert output.count("Flatness") == 2


@on_linux
def test_gateway_prints_every_measure_of_every_process() -> None:
    command = str(Path(sys.executable).with_name("dragoman"))
    output = run("gateway", "--against", command, "--record")
    assert "A responses client in front of a chat backend" in output
    for name in ("gateway", "other version", "recording", "pass-through"):
        assert name in output
    for row in ROWS:
        assert row.title.format(plan=QUICK) in output
    assert "start to first answer" in output
    assert "gateway / other version" in output
    assert "gateway / recording" in output


@on_linux
def test_state_prints_every_database() -> None:
    output = run("state")
    for database in ("sqlite", "postgresql"):
        assert f"{database}: the store alone" in output
        assert f"{database}: through the gateway" in output
    for text in ("of the throughput without", "a stored turn costs", "turn 200: continued"):
        assert output.count(text) >= 2


@on_linux
def test_migration_prints_every_measure() -> None:
    output = run("migration", "chat", "memory")
    for text in ("A record to chat", "dragoman translate", "1 processes", "2 processes"):
        assert text in output
