"""The linters, the formatter and both type checkers accept the whole project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TOOLS = ("ruff check", "ruff format --check --diff", "mypy", "basedpyright")

# The command of the README and of continuous integration.
TEST_COMMAND = (
    "python3 -m venv .venv"
    " && .venv/bin/pip install --quiet --editable '.[test]'"
    " && .venv/bin/python -m pytest"
)


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_reports_nothing(tool: str) -> None:
    ran = subprocess.run(  # noqa: S603 - the tools that this project installs
        [sys.executable, "-m", *tool.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        pytest.fail(f"{tool}\n{ran.stdout}\n{ran.stderr}", pytrace=False)


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_command_is_the_same_everywhere(file: str) -> None:
    assert TEST_COMMAND in (ROOT / file).read_text()


def test_pre_commit_runs_these_tools() -> None:
    config = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = re.findall(r"entry: \.venv/bin/python -m (\w+(?: \w+)?)", config)
    assert entries == ["ruff check", "ruff format", "mypy"]
    assert set(re.findall(r"repo: (.*)", config)) == {"local"}


def test_continuous_integration_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
