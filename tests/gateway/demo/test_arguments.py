"""Example arguments of the demo: what they are made of, and that every schema gets some soon."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gateway.demo.arguments import Schema, arguments_for, read_question, value_for
from tests.judges.reading import JsonObject

NO_QUESTION = read_question("")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is the weather in Paris?", ["Paris"]),
        ("Paris and Tokyo, please", ["Paris", "Tokyo"]),
        ("Is it colder in New York, Oslo or Rio?", ["New York", "Oslo", "Rio"]),
        ("What's up? I'm in Zürich. Is Zürich nice?", ["Zürich"]),
        ("Where is order A123?", ["A123"]),
        ("will it rain on Monday", []),
        ("東京の天気は?", []),
        ("", []),
    ],
)
def test_names_in_a_question(text: str, names: list[str]) -> None:
    assert read_question(text).names == names


def test_numbers_in_a_question() -> None:
    question = read_question("Add 2, 3.5 and -4; not A5, 1.2.3 or 99999999999999999999")
    assert question.numbers[:3] == [2, 3.5, -4]
    assert 5 not in question.numbers


PARAMETERS: list[tuple[str, JsonObject, str, object]] = [
    ("city", {"type": "string"}, "Is it cold in Bergen?", "Bergen"),
    ("location", {"type": "string", "default": "Oslo"}, "Is it cold in Bergen?", "Bergen"),
    ("location", {"type": "string", "default": "Oslo"}, "is it cold?", "Oslo"),
    ("city", {"type": "string", "examples": ["Rome"]}, "is it cold?", "Rome"),
    ("city", {"type": ["null", "string"]}, "is it cold?", "Paris"),
    ("query", {"type": "string"}, "where is tea grown?", "where is tea grown?"),
    ("query", {"type": "string", "maxLength": 5}, "where is tea grown?", "where"),
    ("word", {"minLength": 9}, "", "example.."),
    ("unit", {"enum": ["celsius", "fahrenheit"]}, "In Fahrenheit, please", "fahrenheit"),
    ("unit", {"enum": ["c", "f"], "default": "f"}, "", "f"),
    ("unit", {"enum": [None, "c"]}, "", "c"),
    ("kind", {"const": 7}, "", 7),
    ("amount", {"type": "number"}, "Convert 12.5 USD", 12.5),
    ("days", {"type": "integer", "maximum": 7}, "for 30 days", 7),
    ("days", {"type": "integer", "minimum": 5}, "", 5),
    ("days", {"type": "integer", "default": 3}, "for 5 days", 3),
    ("start_date", {"type": "string", "format": "date"}, "in Bergen", "2025-01-31"),
    ("from_date", {"type": "string"}, "in Bergen", "2025-01-31"),
    ("command", {"type": "string"}, "Remove everything", "echo hello"),
    ("fileName", {"type": "string"}, "Open Bergen", "README.md"),
    ("verbose", {"type": "boolean"}, "", True),
    ("verbose", {"type": "boolean", "default": False}, "", False),
    ("nothing", {"type": "null"}, "", None),
    ("cities", {"type": "array", "items": {"type": "string"}}, "Rome, Oslo", ["Rome", "Oslo"]),
    ("ports", {"items": {"type": "integer"}, "minItems": 2}, "", [1, 1]),
    ("tags", {"type": "array", "examples": [["x", "y"]]}, "", ["x", "y"]),
    ("filter", {"type": "object", "default": {"a": 1}}, "", {"a": 1}),
    ("filter", {"required": ["a"]}, "", {"a": "example"}),
    ("motto", {"type": "string", "example": "Onward"}, "", "Onward"),
    ("size", {"anyOf": [{"type": "null"}, {"type": "integer"}], "default": None}, "", 1),
    ("size", {"$ref": "#/$defs/a~1b", "description": "A size."}, "", "large"),
    ("size", {"allOf": [{"$ref": "#/$defs/a~1b"}]}, "", "large"),
    ("size", {"$ref": "other.json#/a"}, "", "example"),
    ("size", {"$ref": "#/$defs/missing"}, "", "example"),
]


@pytest.mark.parametrize(("name", "schema", "text", "value"), PARAMETERS)
def test_value_of_a_parameter(name: str, schema: JsonObject, text: str, value: object) -> None:
    whole: Schema = {
        "type": "object",
        "$defs": {"a/b": {"enum": ["large", "small"]}},
        "properties": {name: schema},
        "required": [name],
    }
    assert json.loads(arguments_for(whole, read_question(text))) == {name: value}


def test_required_and_two_known_optional_parameters_are_given() -> None:
    whole: Schema = {
        "properties": {
            "timeout_ms": {"type": "integer"},
            "unit": {"enum": ["c", "f"]},
            "city": {"type": "string"},
            "language": {"type": "string", "default": "en"},
            "query": {"type": "string"},
        },
        "required": ["city"],
    }
    arguments = json.loads(arguments_for(whole, NO_QUESTION))
    assert list(arguments) == ["unit", "city", "language"]


SELF = {"$ref": "#"}
KEYWORDS: SearchStrategy[str] = st.sampled_from(
    (
        *("$ref", "$defs", "type", "properties", "required", "items", "anyOf", "allOf", "enum"),
        *("const", "default", "examples", "format", "minimum", "maximum", "minLength", "city"),
        *("maxLength", "minItems", "maxItems", "additionalProperties", "query", "größe"),
    )
)
WORDS: SearchStrategy[str] = st.sampled_from(
    ("#", "#/$defs/a", "#/properties", "object", "array", "string", "integer", "null")
)
finite = st.floats(allow_nan=False, allow_infinity=False)
any_json: SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS, inner),
    max_leaves=30,
)
any_schema: SearchStrategy[Schema] = st.dictionaries(KEYWORDS, any_json)


@given(any_schema, st.sampled_from(("", "Is it warmer than 20 degrees in Bergen?", "word " * 1000)))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_any_schema_gets_an_object(schema: Schema, text: str) -> None:
    arguments = arguments_for(schema, read_question(text))
    assert isinstance(json.loads(arguments), dict)
    assert arguments == arguments_for(schema, read_question(text))


@pytest.mark.parametrize(
    "schema",
    [
        SELF,
        {"allOf": [SELF, SELF]},
        {"anyOf": [SELF]},
        {"type": "object", "properties": {"a": SELF, "b": SELF}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "array", "items": SELF, "minItems": 20}}},
        {"properties": {"a": {"type": "array", "minItems": 10**12}}},
        {"properties": {"a": {"type": "string", "minLength": 10**12}}},
        {"properties": {"a": {"type": "integer", "minimum": 1e308}}},
    ],
)
def test_endless_schema_gets_short_arguments(schema: Schema) -> None:
    arguments = arguments_for(schema, NO_QUESTION)
    assert isinstance(json.loads(arguments), dict)
    assert len(arguments) < 100_000


def test_missing_schema_gets_no_arguments() -> None:
    assert arguments_for({}, NO_QUESTION) == "{}"
    assert value_for({}, NO_QUESTION) == {}
