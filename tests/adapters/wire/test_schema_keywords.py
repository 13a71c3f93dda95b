"""Schemas with only those keywords that a backend accepts."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.losses import Losses
from adapters.profiles import PROFILES
from adapters.wire.schema_keywords import fit_schema

GEMINI = PROFILES["gemini"].schema_keywords or ()
# Keywords whose values are schemas by name, which may have any name.
NAMED = ("properties", "$defs")


def fit(schema: object, accepted: tuple[str, ...] = GEMINI) -> tuple[Any, dict[str, str]]:
    losses = Losses()
    fitted = fit_schema(Raw(json.dumps(schema).encode()), "p", accepted, losses)
    return json.loads(bytes(fitted)), {loss.path: loss.action for loss in losses}


ANY: dict[str, Any] = {}
REWRITTEN: list[tuple[object, object]] = [
    ({"const": "a"}, {"type": "string", "enum": ["a"]}),
    ({"type": "string", "const": "a"}, {"type": "string", "enum": ["a"]}),
    ({"type": "integer", "const": 3}, {"type": "integer", "enum": [3]}),
    ({"enum": ["a", "b"], "const": "a"}, {"type": "string", "enum": ["a", "b"]}),
    ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    ({"enum": ["a", 1, None]}, None),
    ({"enum": []}, None),
    ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
    (
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "string", "enum": ["a"], "nullable": True},
    ),
    ({"properties": {"a": True, "b": False}}, {"properties": {"a": {}, "b": {}}}),
    ({"type": "array", "items": [{"type": "string"}]}, {"type": "array"}),
    ({"type": "number", "exclusiveMinimum": 1.5}, {"type": "number", "minimum": 1.5}),
    ({"exclusiveMaximum": 9, "maximum": 10}, {"maximum": 9}),
    ({"minimum": 0, "exclusiveMinimum": True}, {"minimum": 0}),
    ({"oneOf": [{"const": "a"}]}, {"anyOf": [{"type": "string", "enum": ["a"]}]}),
    ({"oneOf": [ANY], "anyOf": [{"type": "null"}]}, {"anyOf": [{"type": "null"}]}),
    ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
    (
        {"type": ["string", "integer"]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    ),
    (
        {"allOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": ANY}}]},
        {"required": ["a", "b"], "properties": {"b": {}}},
    ),
    ({"allOf": [{"type": "string"}, {"type": "object"}]}, {}),
    ({"type": "string", "format": "uuid"}, {"type": "string"}),
    ({"default": {"const": 1}, "enum": [{"$schema": 1}]}, None),
    ({"type": "object", "properties": {"const": {"type": "string"}}}, None),
    ({"$ref": "#/nowhere"}, {"type": "object"}),
    ({"$ref": "http://elsewhere"}, {"type": "object"}),
]


@pytest.mark.parametrize(("schema", "expected"), REWRITTEN)
def test_keywords_are_rewritten_or_removed(schema: object, expected: object) -> None:
    fitted, losses = fit(schema)
    assert fitted == (schema if expected is None else expected)
    assert bool(losses) == (expected is not None)


def test_additional_properties_may_be_boolean() -> None:
    schema = {"additionalProperties": False, "properties": {"a": {"additionalProperties": True}}}
    assert fit(schema, (*GEMINI, "additionalProperties")) == (schema, {})


def test_accepted_schema_keeps_its_bytes() -> None:
    schema = Raw(b'{ "type": "object", "properties": {"additionalProperties": {}} }')
    assert fit_schema(schema, "p", GEMINI, Losses()) is schema


def test_every_path_is_reported() -> None:
    schema = {
        "$schema": "x",
        "properties": {"a": {"items": {"const": "b", "additionalProperties": False}}},
    }
    assert fit(schema)[1] == {
        "p.$schema": "dropped",
        "p.properties.a.items.const": "changed",
        "p.properties.a.items.additionalProperties": "dropped",
    }


def test_recursive_reference_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}
    fitted, losses = fit({"$ref": "#/$defs/n", "$defs": {"n": node}})
    assert fitted == {"type": "object", "properties": {"next": {"type": "object"}}}
    assert losses == {
        "p.$ref": "changed",
        "p.$defs": "dropped",
        "p.$defs.n.properties.next.$ref": "dropped",
    }


def test_schema_that_grows_without_limit_is_not_changed() -> None:
    levels = {
        f"l{level}": {"anyOf": [{"$ref": f"#/$defs/l{level + 1}"}] * 10} for level in range(9)
    }
    schema = {"$ref": "#/$defs/l0", "$defs": {**levels, "l9": {"const": 1}}}
    assert fit(schema) == (schema, {})


def _keywords(schema: object) -> set[str]:
    """Return all keywords in a schema, without the names of properties."""
    found: set[str] = set()
    if isinstance(schema, list):
        return found.union(*map(_keywords, cast("list[object]", schema)))
    if not isinstance(schema, dict):
        return found
    for name, value in cast("dict[str, object]", schema).items():
        found.add(name)
        if name in NAMED and isinstance(value, dict):
            found = found.union(*map(_keywords, cast("dict[str, object]", value).values()))
        elif name not in ("const", "enum", "default"):
            found |= _keywords(value)
    return found


_LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"type": "string"},
        {"const": "x"},
        {"type": ["integer", "null"], "exclusiveMinimum": 0},
        {"$ref": "#/$defs/D"},
        {"format": "date", "pattern": "a"},
    ]
)


def _in(keyword: str) -> Callable[[object], dict[str, object]]:
    def schema(value: object) -> dict[str, object]:
        return {keyword: value}

    return schema


def _array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "const", "$schema", "allOf"]), inner, max_size=3)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "properties": named,
        "additionalProperties": st.one_of(st.booleans(), inner),
        "propertyNames": inner,
    }
    return st.fixed_dictionaries({"type": st.just("object")}, optional=optional)


_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        _objects(inner),
        st.builds(_in("oneOf"), st.lists(inner, min_size=1, max_size=2)),
        st.builds(_in("allOf"), st.lists(inner, min_size=1, max_size=2)),
        st.builds(_array, inner),
    ),
    max_leaves=8,
)


@given(_SCHEMAS)
def test_result_has_only_accepted_keywords(schema: dict[str, object]) -> None:
    fitted, _ = fit({**schema, "$defs": {"D": {"type": "object", "const": 1}}})
    assert _keywords(fitted) <= set(GEMINI)
    assert fit(fitted) == (fitted, {})
