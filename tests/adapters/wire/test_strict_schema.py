"""Schemas of strict functions, made strict."""

import json
from collections.abc import Mapping

import pytest
from msgspec import Raw

import adapters
from adapters.ir.types import CustomTool, FunctionTool
from adapters.losses import Losses
from adapters.wire.json_schema import to_strict_schema
from tests.exchange import Exchange

TEXT = {"type": "string"}
CLOSED: dict[str, object] = {"additionalProperties": False, "required": []}


def strict(parameters: Mapping[str, object], *, said: bool = True) -> tuple[FunctionTool, Losses]:
    losses = Losses()
    function = FunctionTool("f", parameters=Raw(json.dumps(parameters).encode()), strict=said)
    made = to_strict_schema(function, "tools[0]", losses)
    assert isinstance(made, FunctionTool)
    return made, losses


def schema_of(function: FunctionTool) -> object:
    return json.loads(bytes(function.parameters or b""))


def test_optional_property_becomes_nullable() -> None:
    made, losses = strict(
        {
            "type": "object",
            "properties": {
                "a": TEXT,
                "b": {"type": "integer", "default": 3},
                "c": {"type": "string", "enum": ["x"]},
                "d": {"$ref": "#/$defs/point"},
                "e": {"anyOf": [TEXT, {"type": "integer"}]},
                "f": {"type": ["string", "null"]},
                "g": {"type": "array", "items": {"type": "object", "properties": {"h": TEXT}}},
            },
            "required": ["a"],
            "$defs": {"point": {"type": "object", "properties": {}}},
        }
    )
    closed: dict[str, object] = {"type": "object", "properties": {}, **CLOSED}
    assert schema_of(made) == {
        "type": "object",
        "properties": {
            "a": TEXT,
            "b": {"type": ["integer", "null"]},
            "c": {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]},
            "d": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
            "e": {"anyOf": [TEXT, {"type": "integer"}, {"type": "null"}]},
            "f": {"type": ["string", "null"]},
            "g": {
                "type": ["array", "null"],
                "items": closed
                | {"properties": {"h": {"type": ["string", "null"]}}, "required": ["h"]},
            },
        },
        "required": ["a", "b", "c", "d", "e", "f", "g"],
        "additionalProperties": False,
        "$defs": {"point": closed},
    }
    assert made.strict is True
    assert [loss.path for loss in losses] == ["tools[0].parameters"]


def test_nullable_property_is_unchanged() -> None:
    inner: dict[str, object] = {"type": ["object", "null"], "properties": {}}
    made, _ = strict({"type": "object", "properties": {"a": inner}, "required": ["a"]})
    assert schema_of(made) == {
        "type": "object",
        "properties": {"a": inner | CLOSED},
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("name", ["default", "oneOf", "not", "properties", "enum", "type"])
def test_property_may_have_the_name_of_a_keyword(name: str) -> None:
    parameters = {
        "type": "object",
        "properties": {name: {"type": "string", "enum": ["x"]}},
        "required": [name],
        "additionalProperties": False,
    }
    made, losses = strict(parameters)
    assert (made.strict, schema_of(made)) == (True, parameters)
    assert not len(losses)
    made, losses = strict({**parameters, "additionalProperties": None})
    assert (made.strict, schema_of(made)) == (True, parameters)


@pytest.mark.parametrize(
    "impossible",
    [
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {}, "additionalProperties": {}},
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"oneOf": [TEXT]}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"description": "Anything."}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array", "items": {}}}, "required": ["a"]},
        [],
    ],
)
def test_impossible_schema_is_not_strict(impossible: Mapping[str, object]) -> None:
    made, losses = strict(impossible)
    assert made.strict is False
    assert schema_of(made) == impossible
    assert [(loss.path, loss.severity) for loss in losses] == [("tools[0].strict", "capability")]


def test_only_what_says_that_it_is_strict_is_made_so() -> None:
    loose = {"type": "object", "properties": {"a": TEXT}}
    made, losses = strict(loose, said=False)
    assert schema_of(made) == loose
    assert not len(losses)
    custom = CustomTool("c")
    assert to_strict_schema(custom, "tools[0]", losses) is custom


def test_only_on_request() -> None:
    parameters = {"type": "object", "properties": {"a": TEXT}}
    tool = {"type": "function", "name": "f", "strict": True, "parameters": parameters}
    body = json.dumps({"model": "m", "input": "Hi.", "tools": [tool]}).encode()

    def sent(capabilities: adapters.Capabilities) -> object:
        exchange = Exchange("responses", "chat", capabilities=capabilities)
        wire = json.loads(exchange.request(body).body)
        return wire["tools"][0]["function"]["parameters"]

    assert sent(adapters.Capabilities()) == parameters
    assert sent(adapters.Capabilities(enforce_strict_schemas=True)) == {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
