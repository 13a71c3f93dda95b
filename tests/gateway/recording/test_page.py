"""The page about recordings is complete, and its example runs."""

import re
from pathlib import Path

import msgspec
import pytest

from gateway.recording.format import BackendCall, Client, Exchange, read_recording
from gateway.recording.request_meaning import MINOR_FIELDS
from tests.gateway.backend_replies import reply_body, stream_events
from tests.gateway.cli import command_line as cli
from tests.gateway.recording.replays import CALLING, record

PAGE = (Path(__file__).parents[3] / "docs" / "recordings.md").read_text()


def rows(head: str) -> set[str]:
    """Return the names in the first column of the table after a line."""
    table = PAGE.partition(f"\n{head}")[2].partition("\n\n|")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| ([^|]+) \|", f"|{table}", re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("struct", "heads"),
    [
        (Exchange, ["### exchange.json"]),
        (Client, ["Fields of `client` and", "Fields of `client` only"]),
        (BackendCall, ["Fields of `client` and", "Fields of an entry of `calls` only"]),
    ],
)
def test_every_field_is_described(struct: type[msgspec.Struct], heads: list[str]) -> None:
    described = set[str]().union(*map(rows, heads))
    assert described == {field.name for field in msgspec.structs.fields(struct)}


def test_examples_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "recordings" / "one"
    folder.mkdir(parents=True)
    [minimal] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (folder / "exchange.json").write_text(minimal)
    (folder / "backend-reply.sse").write_text("data: {}\n\n")
    assert read_recording(folder).exchange.calls[0].dialect == "chat"
    monkeypatch.chdir(tmp_path)
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example)  # noqa: S102 - our own example


def exit_code_zero(*_: object, **_named: object) -> int:
    return 0


@pytest.mark.parametrize("line", re.findall(r"^dragoman (?:(?!--against).)*$", PAGE, re.MULTILINE))
def test_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("recordings", "before", "after"):
        record(tmp_path / folder / "one")
    (tmp_path / "reply.json").write_bytes(reply_body("chat", CALLING))
    (tmp_path / "stream.sse").write_bytes(b"".join(stream_events("chat", CALLING)))
    (tmp_path / "cassette.yaml").write_text("interactions: []")
    (tmp_path / "session.har").write_text('{"log": {"entries": []}}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gateway.server.run.run_server", exit_code_zero)
    command, _, _comment = line.removeprefix("dragoman ").partition("#")
    result = cli.run(command)
    assert result.exit_code == 0, result.output


def test_fields_that_may_differ_in_a_replay_are_described() -> None:
    [described] = re.findall(r"^- (`stream`.*?) may\s+differ", PAGE, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`(\w+)`", described))
    assert named < MINOR_FIELDS
