"""docs/transforms.md: its classes do what it says, and its tables are right."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

import adapters
from adapters import Transform, transforms
from gateway.config import load_config
from gateway.config.transforms import make_transforms
from tests.exchange import Exchange
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.cli import command_line as cli
from tests.losses_page import ROOT

TEXT = (ROOT / "docs/transforms.md").read_text()
REQUEST = b'{"model": "m", "input": "Hello Ada.", "tools": [{"type": "function", "name": "run"}]}'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Run all Python blocks in their order, and return what they define."""
    defined: dict[str, Any] = {"__name__": "transforms_page"}
    for block in blocks("python"):
        exec(block, defined)  # noqa: S102 - our own examples
    return defined


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the first example as the page calls it."""
    folder = tmp_path / "my_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "transforms.py").write_text(blocks("python")[0])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def replies(turn: Turn, *applied: Transform) -> list[str]:
    """Return a reply and a stream of a Chat backend as a Chat client receives them."""
    exchange = Exchange("chat", "chat", transforms=applied)
    stream = exchange.translate_stream(stream_events("chat", turn))
    assert adapters.check("chat", stream) == []
    return [exchange.reply(reply_body("chat", turn)).body.decode(), stream.decode()]


def test_configuration_is_valid(package: Path, names: dict[str, Any]) -> None:
    [example] = blocks("toml")
    (package / "dragoman.toml").write_text(example)
    [backend] = load_config(package / "dragoman.toml").backends
    [transform] = make_transforms(backend.transforms)
    assert repr(transform) == repr(names["LimitOutput"](500)) == "LimitOutput(tokens=500)"


def test_command_runs(package: Path) -> None:
    [command] = blocks("sh")
    (package / "request.json").write_bytes(REQUEST)
    _dragoman, *words, file = shlex.split(command)
    assert file == "request.json"
    result = cli.run("", b"", *words, str(package / file))
    assert '"max_completion_tokens":500' in result.stdout
    assert result.exit_code == 0


def test_tool_is_rejected(names: dict[str, Any]) -> None:
    with pytest.raises(adapters.UnsupportedRequestError, match="the tool run is not allowed"):
        Exchange("responses", "chat", transforms=(names["AllowTools"](()),)).request(REQUEST)
    Exchange("responses", "chat", transforms=(names["AllowTools"](("run",)),)).request(REQUEST)


def test_argument_is_set(names: dict[str, Any]) -> None:
    turn = Turn(calls=(Call("run", '{"a": 1}'), Call("other", '{"a": 1}')))
    for received in replies(turn, names["SetArgument"]("run", "dry", value=True)):
        text = received.replace("\\", "")
        assert '{"a": 1, "dry": true}' in text
        assert text.count("dry") == 1
    for invalid in ("[1]", "{"):
        turn = Turn(calls=(Call("run", invalid),))
        assert "dry" not in replies(turn, names["SetArgument"]("run", "dry", value=True))[0]


def test_text_is_in_capital_letters(names: dict[str, Any]) -> None:
    whole, stream = replies(Turn("Oslo"), names["Uppercase"]())
    assert "OSLO" in whole
    assert "Oslo" not in stream


def test_names_are_hidden_and_restored(names: dict[str, Any]) -> None:
    exchange = Exchange("responses", "chat", transforms=(names["HideNames"](("Ada",)),))
    sent = exchange.request(REQUEST)
    assert b"Hello person-0." in sent.body
    assert b"Ada" not in sent.body
    reply = exchange.reply(reply_body("chat", Turn("Hello person-0 and person-1.")))
    assert b"Hello Ada and person-1." in reply.body


def test_included_transforms_have_these_options() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \| (.*?) \|", TEXT, re.MULTILINE)
    documented = {name: re.findall(r"`(\w+)`", options) for name, options in rows}
    included = {
        name: found
        for name, found in vars(transforms).items()
        if isinstance(found, type) and issubclass(found, Transform) and found is not Transform
    }
    assert documented == {
        name: [field.name for field in fields(found)] for name, found in included.items()
    }
