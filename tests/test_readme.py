"""The README is run: its commands, its examples, its table."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.capabilities import PROFILES
from gateway.config import load_config
from tests.judges.reading import object_in, read_object
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


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert TEST_COMMAND + "\n" in blocks("sh")
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text()


def _command_lines(word: str) -> list[str]:
    """Give the lines of the block that begins with a command."""
    [block] = [block for block in blocks("sh") if block.startswith(word)]
    return block.splitlines()


@pytest.mark.parametrize("line", _command_lines("dragoman translate"))
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
    [example] = [block for block in blocks("python") if "import adapters" in block]
    written: list[bytes] = []
    names: dict[str, object] = {"pieces": [STREAM], "reply": REPLY, "written": written}
    names["body"] = b'{"model":"m","input":"hi"}'
    assigned = re.compile(r"^( *)out = (.*?)(?= +#|$)", re.MULTILINE)
    exec(assigned.sub(r"\1written.append(\2)", example), names)  # noqa: S102 - the example is ours
    assert b"response.completed" in b"".join(written)


def test_configuration_example_is_legal(tmp_path: Path) -> None:
    [example] = [block for block in blocks("toml") if "[[backends]]" in block]
    file = tmp_path / "dragoman.toml"
    file.write_text(example)
    names = [backend.name for backend in load_config(file).backends]
    assert names == ["local", "openai"]


def test_state_example_is_legal(tmp_path: Path) -> None:
    [example] = [block for block in blocks("toml") if "[state]" in block]
    file = tmp_path / "dragoman.toml"
    file.write_text(example)
    assert load_config(file).state.url.startswith("postgresql://")


def test_profiles_are_those_that_the_readme_names() -> None:
    [told] = re.findall(r"There are (.*?)\.\n", TEXT, re.DOTALL)
    assert re.findall(r"`(\w+)`", told) == list(PROFILES)


def test_addresses_are_those_of_the_schema() -> None:
    paths = object_in(read_object((ROOT / "snapshots/openapi/openapi.json").read_bytes()), "paths")
    words = {word for path in paths for word in path.split("/") if word and word[0] != "{"}
    table = TEXT.partition("| address (also")[2].partition("\n\n")[0]
    assert words <= {*re.findall(r"\w+", table)}


def test_files_are_where_the_readme_says() -> None:
    table = TEXT.partition("| where | what |")[2].partition("\n\n")[0]
    for cells in (line.split("|") for line in table.splitlines() if line.startswith("| `")):
        first, *others = re.findall(r"`([^`]+)`", cells[1])
        folder = Path(first).parent
        for other in others:
            assert (ROOT / folder / other).exists() or (ROOT / other).exists(), other
        assert (ROOT / first).exists(), first


def test_benchmarks_are_where_the_readme_says() -> None:
    for module in ("tests.benchmarks.core", "tests.benchmarks.gateway", "tests.benchmarks.state"):
        assert f".venv/bin/python -m {module}\n" in blocks("sh")
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists()
