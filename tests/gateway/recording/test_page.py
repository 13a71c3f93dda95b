"""The page about recordings is complete, and its example runs."""

import re
from pathlib import Path

import msgspec
import pytest

from gateway.recording.format import BackendCall, Client, Exchange, read_recording

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
