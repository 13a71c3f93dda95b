"""`docs/migrating.md`: its generated parts are current, its examples and commands run."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from gateway.config import load_config
from gateway.http.headers import deprecation_headers
from tests.gateway.cli import command_line as cli
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.migrating_page import PAGE, page
from tests.test_readme import blocks, run

TEXT = PAGE.read_text()
PROGRAMS = blocks("python", TEXT)
# Stands for version 0.28 of the openai package.
OLD_SDK = Path(__file__).parent / "gateway" / "migration" / "code" / "old_sdk"
OUTPUT = """For Paris, get_weather says: 18 degrees
For Oslo, get_weather says: 3 degrees
"""


def lines(part: str) -> list[str]:
    (found,) = [one for one in blocks("sh", TEXT) if part in one]
    return [line.partition("  #")[0].strip() for line in found.splitlines()]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with run_gateway("", tmp_path_factory.mktemp("demo")) as gateway:
        yield gateway


def test_generated_parts_are_current(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("update_snapshots"):
        PAGE.write_text(page(TEXT))
    assert PAGE.read_text() == page(TEXT), "run: python -m tests.migrating_page"


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_run(
    number: int, demo: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = PROGRAMS[number]
    monkeypatch.setenv("OPENAI_BASE_URL", demo.url)
    monkeypatch.setenv("OPENAI_API_BASE", demo.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    printed = _run_old(code, tmp_path) if "openai.ChatCompletion" in code else _run(code)
    # A program before the migration, and the one after it, print the same.
    assert printed == (OUTPUT if "while True" in code else _result(code))


def _result(code: str) -> str:
    return 'get_weather {"city":"Oslo"}\n' if "stream=True" in code else "get_weather Oslo\n"


def _run(code: str) -> str:
    with redirect_stdout(io.StringIO()) as output:
        exec(code, {})  # noqa: S102 - an example of the page
    return output.getvalue()


def _run_old(code: str, folder: Path) -> str:
    (folder / "program.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(OLD_SDK)}
    command = [sys.executable, "program.py"]
    done = subprocess.run(  # noqa: S603 - an example of the page
        command, cwd=folder, env=environment, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_for_code_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "program.py").write_text(PROGRAMS[0])
    results = [cli.run(line.removeprefix("dragoman ")) for line in lines("--explain")]
    # The second command rewrites what the first one finds.
    assert [result.exit_code for result in results] == [1, 0, 0, 0, 0]
    assert (tmp_path / "src" / "program.py").read_text() == PROGRAMS[1]


def test_verification_prints_the_report(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAMS[0])
    (command,) = lines("--verify")
    done = run(command, tmp_path)
    (report,) = [one for one in blocks("text", TEXT) if "verified" in one]
    assert (done.stdout.decode(), done.returncode) == (report, 0)


def test_commands_for_data_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("old.jsonl", "batch.jsonl.gz", "data.json"):
        (tmp_path / name).write_bytes(cli.EXAMPLE)
    for line in lines("migrate data"):
        assert cli.run(line.removeprefix("dragoman ")).exit_code == 0, line
    assert (tmp_path / "data.bak").read_bytes() == cli.EXAMPLE


def test_configuration_gives_the_headers(tmp_path: Path) -> None:
    (configuration,), (headers,) = blocks("toml", TEXT), blocks("http", TEXT)
    (tmp_path / "dragoman.toml").write_text(configuration)
    config = load_config(tmp_path / "dragoman.toml")
    sent = [b"%b: %b" % pair for pair in deprecation_headers(config.legacy)]
    assert headers.splitlines() == [line.decode() for line in sent]


def test_every_block_is_tested() -> None:
    languages = re.findall(r"^ *```(\w+)$", TEXT, re.MULTILINE)
    assert set(languages) == {"sh", "python", "json", "text", "toml", "http"}
    assert len(blocks("sh", TEXT)) == len(("code", "verification", "data"))
