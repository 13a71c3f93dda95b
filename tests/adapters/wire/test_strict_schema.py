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

INTEGER = {"type": "integer"}
POINT = {"$ref": "#/$defs/point"}
OBJECT: dict[str, object] = {"type": "object", "properties": {"h": TEXT}}
NULLABLE_TEXT = {"type": ["string", "null"]}
NULLABLE_OBJECT: dict[str, object] = {"type": ["object", "null"], "properties": {}}


def strict(parameters: Mapping[str, object], *, said: bool = True) -> tuple[FunctionTool, Losses]:
    losses = Losses()
    function = FunctionTool("f", parameters=Raw(json.dumps(parameters).encode()), strict=said)
    made = to_strict_schema(function, "tools[0]", losses)
    assert isinstance(made, FunctionTool)
    return made, losses


def schema_of(function: FunctionTool) -> object:
    return json.loads(bytes(function.parameters or b""))


def closed(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the strict schema of an object."""
    required = [*properties]
    return {"properties": properties, "required": required, "additionalProperties": False}


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"type": "integer", "default": 3}, {"type": ["integer", "null"]}),
        ({**TEXT, "enum": ["x"]}, {"anyOf": [{**TEXT, "enum": ["x"]}, {"type": "null"}]}),
        (POINT, {"anyOf": [POINT, {"type": "null"}]}),
        ({"anyOf": [TEXT, INTEGER]}, {"anyOf": [TEXT, INTEGER, {"type": "null"}]}),
        (NULLABLE_TEXT, NULLABLE_TEXT),
        (
            {"type": "array", "items": OBJECT},
            {"type": ["array", "null"], "items": OBJECT | closed({"h": NULLABLE_TEXT})},
        ),
    ],
)
def test_optional_property_becomes_nullable(
    declared: Mapping[str, object], expected: Mapping[str, object]
) -> None:
    made, losses = strict(
        {
            "type": "object",
            "properties": {"a": TEXT, "b": declared},
            "required": ["a"],
            "$defs": {"point": {"type": "object", "properties": {}}},
        }
    )
    assert schema_of(made) == {
        "type": "object",
        **closed({"a": TEXT, "b": expected}),
        "$defs": {"point": {"type": "object", **closed({})}},
    }
    assert made.strict is True
    assert [loss.path for loss in losses] == ["tools[0].parameters"]


def test_nullable_property_is_unchanged() -> None:
    properties = {"a": NULLABLE_OBJECT}
    made, _ = strict({"type": "object", "properties": properties, "required": ["a"]})
    assert schema_of(made) == {"type": "object", **closed({"a": NULLABLE_OBJECT | closed({})})}


@pytest.mark.parametrize("name", ["default", "oneOf", "not", "properties", "enum", "type"])
def test_property_may_have_the_name_of_a_keyword(name: str) -> None:
    parameters = {"type": "object", **closed({name: {**TEXT, "enum": ["x"]}})}
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
    enforced = sent(adapters.Capabilities(enforce_strict_schemas=True))
    assert enforced == {"type": "object", **closed({"a": NULLABLE_TEXT})}
