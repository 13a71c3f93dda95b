"""The reference page describes every key and capability with its default, and nothing else."""

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import FieldInfo, fields

from adapters import DIALECTS, Capabilities
from adapters.capabilities import GENERIC
from adapters.profiles import PROFILES
from gateway.config import load_config
from gateway.config.schema import (
    BackendConfig,
    Config,
    KeyConfig,
    ModelConfig,
    ServerTlsConfig,
    TlsConfig,
    TransformConfig,
)

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
SECTIONS: dict[str, str] = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)+)", PAGE, re.MULTILINE))
# The tables of the file that have a section of their own.
TABLES = {
    f"`[{field.name}]`": type(field.default)
    for field in fields(Config)
    if isinstance(field.default, msgspec.Struct) and field.name != "access"
} | {
    "`[[access.keys]]`": KeyConfig,
    "`[[backends]]`": BackendConfig,
    "`[[backends.models]]`": ModelConfig,
    "`[[backends.transforms]]`": TransformConfig,
    "`[backends.tls]`": TlsConfig,
    "`[server.tls]`": ServerTlsConfig,
}
OTHER_DEFAULTS = {
    "access.keys.replies": "`[replies]`",
    "backends.timeouts": "`[timeouts]`",
    "backends.retries": "`[retries]`",
    "backends.circuit_breaker": "`[circuit_breaker]`",
    "backends.tls": "`{}`",
    "server.tls": "`{}`",
}


def cells(section: str, column: int) -> dict[str, str]:
    """Return a column of the table in a section, by the names in the first column."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", SECTIONS[section], re.MULTILINE)
    return {name: rest.split(" | ")[column - 1] for name, rest in rows}


def default(section: str, field: FieldInfo) -> str:
    """Write the default of a key as the page does."""
    if other := OTHER_DEFAULTS.get(f"{section.strip('`[]')}.{field.name}"):
        return other
    if field.required:
        return "required"
    factory = field.default_factory
    value: object = field.default if factory is msgspec.NODEFAULT else factory()
    return "not set" if value is None else f"`{msgspec.json.encode(value).decode()}`"


@pytest.mark.parametrize("section", TABLES)
def test_keys_have_their_defaults(section: str) -> None:
    assert cells(section, 2) == {
        field.name: default(section, field) for field in fields(TABLES[section])
    }


def test_every_table_has_a_section() -> None:
    (top_level,) = cells("Top level", 2).items()
    assert top_level == ("loss_policy", '`"report"`')
    described = {section.strip("`[]").partition(".")[0] for section in SECTIONS}
    assert {field.name for field in fields(Config)} - {"loss_policy"} <= described


def test_example_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "sk-local")
    file = tmp_path / "dragoman.toml"
    examples = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file.write_text(examples[0])
    assert [backend.name for backend in load_config(file).backends] == ["local", "openai"]
    for example in examples[1:]:
        file.write_text(example)
        assert load_config(file).backends


def test_dialects_and_profiles_are_listed() -> None:
    assert re.findall(r'`"(\w+)"`', cells("`[[backends]]`", 3)["dialect"]) == list(DIALECTS)
    assert re.findall(r"`(\w+)`", SECTIONS["Profiles"].split(".")[0]) == list(PROFILES)


def test_capabilities_begin_with_their_defaults() -> None:
    values = cells("`[backends.capabilities]`", 1)
    assert list(values) == [field.name for field in fields(Capabilities)]
    for field in fields(Capabilities):
        usual: object = getattr(GENERIC, field.name)
        value = "null" if usual is None else usual
        encoded = msgspec.json.encode(value).decode()
        several = encoded.startswith("[") and encoded != "[]"
        assert values[field.name].startswith("all of " if several else f"`{encoded}`")
