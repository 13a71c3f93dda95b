"""The README is run: its commands, its examples, its table."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme import README, ROOT, renewed

TEXT = README.read_text()
TEST_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install --quiet --editable '.[test]'"
    " && .venv/bin/python -m pytest"
)
REQUEST = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
REPLY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'
)
STREAM = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a command of the README with the dragoman of this environment."""
    scripts = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": scripts + os.pathsep + os.environ.get("PATH", "")}
    return subprocess.run(  # noqa: S602 - the README's commands are for a shell
        command, shell=True, cwd=folder, env=environment, capture_output=True, check=False
    )


def test_losses_in_the_readme_are_those_of_the_snapshots(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("update_snapshots"):
        README.write_text(renewed(TEXT))
    else:
        assert renewed(TEXT) == TEXT, "run: python -m tests.readme"


def test_first_example_says_what_the_readme_says(tmp_path: Path) -> None:
    first = blocks("sh")[0]
    _, _, after_install = first.partition("pip install --quiet . && ")
    done = run(after_install.replace(".venv/bin/dragoman", "dragoman"), tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert b'"tool_choice": {' in done.stdout
    assert done.stderr.decode() in TEXT


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert TEST_COMMAND in blocks("sh")[1]
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("line", [line for line in blocks("sh")[2].splitlines() if line])
def test_command_lines_run(line: str, tmp_path: Path) -> None:
    (tmp_path / "request.json").write_bytes(REQUEST)
    (tmp_path / "traffic.jsonl").write_bytes(REQUEST + b"\n" + REQUEST + b"\n")
    (tmp_path / "recorded.sse").write_bytes(STREAM)
    if "check" in line:
        translate = "dragoman translate --from chat --to responses recorded.sse > legal.sse"
        assert run(f"{translate} && mv legal.sse recorded.sse", tmp_path).returncode == 0
    done = run(line, tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout


def test_library_example_runs() -> None:
    written: list[bytes] = []
    names: dict[str, object] = {"pieces": [STREAM], "reply": REPLY, "written": written}
    names["body"] = b'{"model":"m","input":"hi"}'
    assigned = re.compile(r"^( *)out = (.*?)(?= +#|$)", re.MULTILINE)
    example = assigned.sub(r"\1written.append(\2)", blocks("python")[0])
    exec(example, names)  # noqa: S102 - the example is ours
    assert b"response.completed" in b"".join(written)


def test_benchmark_is_where_the_readme_says() -> None:
    assert ".venv/bin/python -m tests.benchmark" in blocks("sh")[3]
    assert (ROOT / "tests" / "benchmark.py").exists()
