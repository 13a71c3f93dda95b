"""The page about the configuration says what is so, and all of it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from adapters import Capabilities
from gateway.config import load_config
from gateway.config.schema import Config

PAGE = (Path(__file__).parents[3] / "gateway" / "CONFIGURATION.md").read_text()
DEFAULTS, BACKEND = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def _read(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("LOCAL_API_KEY", "sk-local")
    file = folder / "dragoman.toml"
    file.write_text(text)
    return load_config(file)


def test_the_defaults_are_those_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _read(DEFAULTS, tmp_path, monkeypatch) == Config()


def test_the_example_of_a_backend_is_legal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [backend] = _read(BACKEND, tmp_path, monkeypatch).backends
    assert backend.name == "local"


def _structs(kind: object) -> Iterator[type[msgspec.Struct]]:
    """Give a Struct, and all that its fields hold."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from _structs(field.type)
    else:
        for inner in get_args(kind):
            yield from _structs(inner)


@pytest.mark.parametrize(
    "name",
    sorted(
        {field.encode_name for kind in _structs(Config) for field in msgspec.structs.fields(kind)}
    ),
)
def test_every_key_is_described(name: str) -> None:
    assert re.search(rf"^(?:# )?{name} = |^(?:# )?\[+(?:\w+\.)*{name}\]+", PAGE, re.MULTILINE)


def _row(name: str) -> str:
    found = re.search(rf"^\| `{name}` \| (.*?) \|", PAGE, re.MULTILINE)
    assert found is not None, f"{name} has no row"
    return found[1]


@pytest.mark.parametrize(
    "field", msgspec.structs.fields(Capabilities), ids=lambda field: str(field.name)
)
def test_every_capability_has_a_row_that_begins_with_its_default(
    field: msgspec.structs.FieldInfo,
) -> None:
    default = msgspec.json.encode("null" if field.default is None else field.default).decode()
    several = default.startswith("[") and default != "[]"
    assert _row(field.name).startswith("all of " if several else f"`{default}`")


def test_no_row_is_about_something_that_is_not() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [field.name for field in msgspec.structs.fields(Capabilities)]
