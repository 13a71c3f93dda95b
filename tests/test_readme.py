"""The README and the other documents: their commands and examples run, their tables are right."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import httpx
import msgspec
import pytest
from msgspec.structs import fields

from adapters import Severity
from adapters.profiles import PROFILES
from gateway.cli.commands import main
from gateway.config import load_config
from gateway.pytest_plugin.cases import (
    ErrorCase,
    ReplyCase,
    RequestCase,
    StreamCase,
    read_stream_case,
)
from tests.gateway.cli.command_line import REPLY, REQUEST, STREAM
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.judges.reading import object_in, read_object
from tests.losses_page import PAGE, ROOT, page

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/operations.md",
    "docs/releasing.md",
)
TEXT = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
# The address in the examples.
ADDRESS = "http://127.0.0.1:8080"


def blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def block(language: str, part: str) -> str:
    """Return the only block that contains a text."""
    [found] = [block for block in blocks(language) if part in block]
    return found


def table(head: str, text: str = TEXT) -> str:
    """Return the rows of the table whose head begins so."""
    return text.partition(head)[2].partition("\n\n")[0]


def first_cells(rows: str) -> list[str]:
    return re.findall(r"^\| ([^|]+) \|", rows, re.MULTILINE)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a command of the README with the dragoman of this environment."""
    scripts = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": scripts + os.pathsep + os.environ.get("PATH", "")}
    return subprocess.run(  # noqa: S602 - the README's commands are for a shell
        command, shell=True, cwd=folder, env=environment, capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with run_gateway("", tmp_path_factory.mktemp("demo")) as gateway:
        yield gateway


def run_example(code: str, demo: Gateway, folder: Path) -> str:
    assert ADDRESS in code
    (folder / "example.py").write_text(code.replace(ADDRESS, demo.address))
    done = run("python example.py", folder)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_agents_example_runs(demo: Gateway, tmp_path: Path) -> None:
    output = run_example(block("python", "from agents import"), demo, tmp_path)
    assert "18 degrees and sunny" in output


def run_curl(command: str, demo: Gateway) -> httpx.Response:
    _curl, *words = [word for word in shlex.split(command) if word != "-i"]
    url, header_option, header, data_option, data = words
    assert (header_option, data_option) == ("-H", "-d")
    name, _, value = header.partition(": ")
    return httpx.post(url.replace(ADDRESS, demo.address), headers={name: value}, content=data)


def test_curl_example_has_the_loss_header_of_the_readme(demo: Gateway) -> None:
    response = run_curl(block("sh", "/v1/chat/completions"), demo)
    assert response.json()["choices"][0]["finish_reason"] == "tool_calls"
    [header] = blocks("http")
    assert header == f"dragoman-loss: {response.headers['dragoman-loss']}\n"


def test_translate_example_returns_the_request_and_its_losses(demo: Gateway) -> None:
    result = run_curl(block("sh", "/v1/translate"), demo).json()
    assert result["body"]["messages"] == [{"role": "user", "content": "Hello!"}]
    assert [loss["path"] for loss in result["losses"]] == ["truncation"]


def test_serve_example_starts(tmp_path: Path) -> None:
    words = shlex.split(block("sh", "dragoman serve --backend"))
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "gateway", *words[1:], "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        gateway = Gateway(process)
        gateway.stop()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, gateway.log


@pytest.mark.parametrize("line", block("sh", "dragoman translate").splitlines())
def test_command_lines_run(line: str, tmp_path: Path) -> None:
    (tmp_path / "request.json").write_bytes(REQUEST)
    (tmp_path / "traffic.jsonl").write_bytes(REQUEST + b"\n" + REQUEST + b"\n")
    (tmp_path / "recorded.sse").write_bytes(STREAM)
    if "check" in line:
        translate = "dragoman translate --from chat --to responses recorded.sse > valid.sse"
        assert run(f"{translate} && mv valid.sse recorded.sse", tmp_path).returncode == 0
    done = run(line, tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout


@pytest.mark.parametrize("reply", [REPLY, msgspec.json.decode(REPLY)], ids=["bytes", "dict"])
def test_library_examples_run(reply: object, capsys: pytest.CaptureFixture[str]) -> None:
    written: list[bytes] = []
    names: dict[str, object] = {
        "backend_reply": reply,
        "chunks": [STREAM[:50], STREAM[50:]],
        "write": written.append,
    }
    exec(block("python", "import adapters"), names)  # noqa: S102 - an example of the README
    assert "dropped truncation hint\n" in capsys.readouterr().out
    exec(block("python", "ReplyTranslator"), names)  # noqa: S102 - an example of the README
    assert b"response.completed" in b"".join(written)
    capsys.readouterr()
    exec(block("python", "adapters.check("), names)  # noqa: S102 - an example of the README
    assert capsys.readouterr().out.startswith("1 created is missing\n")


def test_configuration_examples_are_valid(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(block("toml", "[[backends]]"))
    assert [backend.name for backend in load_config(file).backends] == ["local", "openai"]
    file.write_text(block("toml", "[[backends]]") + block("toml", "[[backends.transforms]]"))
    assert len(load_config(file).backends[-1].transforms) == 1
    file.write_text(block("toml", "[state]"))
    assert load_config(file).state.url.startswith("postgresql://")


def test_codex_example_is_valid() -> None:
    config = tomllib.loads(block("toml", "model_provider"))
    assert config["model_providers"][config["model_provider"]]["base_url"] == f"{ADDRESS}/v1"


def test_profiles_are_those_of_the_readme() -> None:
    [names] = re.findall(r"The profiles are (.*?)\.\n", TEXT, re.DOTALL)
    assert re.findall(r"`(\w+)`", names) == list(PROFILES)


def test_severities_are_those_of_the_readme() -> None:
    assert first_cells(table("| severity |")) == [f"`{name}`" for name in get_args(Severity)]


def test_commands_are_those_of_the_readme() -> None:
    commands = first_cells(table("| command |"))
    assert {name.strip("`").removeprefix("dragoman ") for name in commands} == {*main.commands}


def test_endpoints_are_those_of_the_schema() -> None:
    paths = object_in(read_object((ROOT / "snapshots/openapi/openapi.json").read_bytes()), "paths")
    words = {word for path in paths for word in path.split("/") if word and word[0] != "{"}
    assert words <= {*re.findall(r"\w+", table("| endpoint (also"))}


def test_source_table_names_existing_paths() -> None:
    for cell in first_cells(table("| path | content |")):
        first, *others = re.findall(r"`([^`]+)`", cell)
        for name in (first, *(str(Path(first).parent / other) for other in others)):
            assert (ROOT / name).exists() or (ROOT / Path(name).name).exists(), name


def test_benchmarks_exist() -> None:
    for name in ("core", "gateway", "state", "migration"):
        module = f"tests.benchmarks.{name}"
        assert f".venv/bin/python -m {module}\n" in blocks("sh")
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists()


def test_losses_page_is_current(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("update_snapshots"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "run: python -m tests.losses_page"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_name_existing_paths(name: str) -> None:
    document = ROOT / name
    text = document.read_text()
    paths = re.findall(r"\b((?:adapters|gateway|tests|snapshots|docs)/[\w/.-]*\w/?)", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    links = re.findall(r"\]\(([^#):]+)(?:#[\w-]+)?\)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_architecture_has_every_package() -> None:
    [tree] = blocks("text", (ROOT / "docs/architecture.md").read_text())
    for part in tree.split("\n\n"):
        root, *lines = part.splitlines()
        listed = [re.findall(r"[\w]+/", line)[0] for line in lines]
        packages = (path.parent.name + "/" for path in (ROOT / root).glob("*/__init__.py"))
        assert sorted(listed) == sorted(packages)


def test_fields_of_cases_are_those_of_contributing() -> None:
    documented = {cell.strip("`") for cell in first_cells(table("| field | in |", CONTRIBUTING))}
    kinds = (RequestCase, ReplyCase, StreamCase, ErrorCase)
    assert documented == {field.encode_name for kind in kinds for field in fields(kind)} - {"name"}


def test_example_cases_of_contributing_are_valid(tmp_path: Path) -> None:
    [request] = blocks("json", CONTRIBUTING)
    assert msgspec.json.decode(request, type=RequestCase).dialect == "chat"
    [stream] = blocks("text", CONTRIBUTING)
    (tmp_path / "example.sse").write_text(stream)
    assert read_stream_case(tmp_path / "example.sse").body.startswith(b"data: ")
