"""Whatever schema a tool has, the demo's arguments are legal for it, and soon there."""

import json
from importlib import import_module
from typing import Protocol, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import Raw

from adapters.wire.json_object import Json
from gateway.demo.arguments import arguments_for, value_for
from gateway.demo.question import Question, read_question
from tests.judges.reading import JsonObject


class Validator(Protocol):
    def __call__(self, instance: object, schema: object) -> None: ...


# It comes without types.
validate = cast("Validator", import_module("jsonschema").validate)

# A busy machine is no failure, and every run is the same.
many = settings(deadline=None, derandomize=True)

NOTHING = Question()
WEATHER = read_question("Is it warmer than 20 degrees in Bergen?")
FORMATS = ("date", "date-time", "email", "ipv4", "ipv6", "uri", "uuid", "time", "unheard-of")
PATTERNS = (r"^[a-z]+$", r"^[A-Z]{3}$", r"^\d{4}-\d{2}-\d{2}$", r"^#[0-9a-f]{6}$", r"\.txt$", "^$")
NAMES: SearchStrategy[str] = st.sampled_from(
    ("city", "query", "from", "to", "ids", "unit", "userName", "x", "größe")
)
questions = st.sampled_from(
    (
        NOTHING,
        WEATHER,
        read_question("Paris, Rome and 'Rio', 3 or -4.5 red or green things, please"),
        read_question("word " * 1000),
    )
)


# --- schemas that can be satisfied --------------------------------------------------------------


@st.composite
def strings(draw: DrawFn) -> JsonObject:
    schema: JsonObject = {"type": draw(st.sampled_from(("string", ["string", "null"])))}
    match draw(st.sampled_from(("length", "format", "pattern", "enum", "const", "example"))):
        case "length":
            least = draw(st.integers(0, 40))
            schema |= {"minLength": least, "maxLength": least + draw(st.integers(0, 40))}
        case "format":
            schema["format"] = draw(st.sampled_from(FORMATS))
        case "pattern":
            schema["pattern"] = draw(st.sampled_from(PATTERNS))
        case "enum":
            schema["enum"] = draw(st.sampled_from((["red", "green"], ["x"], ["Celsius", "b"])))
        case "const":
            schema = {"const": draw(st.text(max_size=5))}
        case _:
            schema |= {"examples": ["one", "two"], "default": draw(st.sampled_from(("d", "")))}
    return schema


@st.composite
def numbers(draw: DrawFn) -> JsonObject:
    whole = draw(st.booleans())
    low = draw(st.integers(-1000, 1000))
    # Wide enough for a multiple of two between them.
    high = low + draw(st.integers(4, 50))
    least, most = draw(st.sampled_from((("minimum", "maximum"), ("exclusiveMinimum",) * 2)))
    schema: JsonObject = {"type": "integer" if whole else "number", least: low}
    if most == "maximum":
        schema[most] = high
    elif draw(st.booleans()):
        schema["exclusiveMaximum"] = high
    if draw(st.booleans()):
        schema["multipleOf"] = draw(st.sampled_from((1, 2) if whole else (0.5, 0.25, 1)))
    return schema


leaves: SearchStrategy[JsonObject] = st.one_of(
    strings(),
    numbers(),
    st.sampled_from(
        (
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["null", "integer"]},
            {"enum": [None, 3, "x"]},
            {"$ref": "#/$defs/leaf"},
            {"$ref": "#/$defs/list"},
            {"$ref": "#/$defs/tree", "description": "a tree"},
            {},
        )
    ),
)

DEFINITIONS: JsonObject = {
    "leaf": {"type": "string", "minLength": 3},
    # Each leads to itself, by an option or by a list.
    "list": {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "next": {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]},
        },
        "required": ["value", "next"],
        "additionalProperties": False,
    },
    "tree": {
        "type": "object",
        "properties": {
            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            "parent": {"$ref": "#/$defs/tree"},
        },
        "required": ["children"],
    },
}


@st.composite
def objects(draw: DrawFn, inner: SearchStrategy[JsonObject]) -> JsonObject:
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    schema: JsonObject = {"type": "object", "properties": properties}
    schema["required"] = [name for name in properties if draw(st.booleans())]
    if draw(st.booleans()):
        schema["additionalProperties"] = False
        schema["minProperties"] = draw(st.integers(0, len(properties)))
    elif draw(st.booleans()):
        schema["minProperties"] = draw(st.integers(0, 6))
    return schema


@st.composite
def arrays(draw: DrawFn, inner: SearchStrategy[JsonObject]) -> JsonObject:
    least = draw(st.integers(0, 3))
    return {
        "type": "array",
        "items": draw(inner),
        "minItems": least,
        "maxItems": least + draw(st.integers(0, 3)),
    }


@st.composite
def combinations(draw: DrawFn, inner: SearchStrategy[JsonObject]) -> JsonObject:
    match draw(st.sampled_from(("anyOf", "oneOf", "allOf"))):
        case "anyOf":
            return {"anyOf": draw(st.lists(inner, min_size=1, max_size=3))}
        case "oneOf":
            # Of kinds that exclude each other.
            return {"oneOf": [{"type": "null"}, {"type": "array", "items": draw(inner)}]}
        case _:
            parts = [
                {"type": "object", "properties": {name: draw(inner)}, "required": [name]}
                for name in draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
            ]
            return {"allOf": parts}


def composed(inner: SearchStrategy[JsonObject]) -> SearchStrategy[JsonObject]:
    return st.one_of(objects(inner), arrays(inner), combinations(inner))


schemas = st.recursive(leaves, composed, max_leaves=8)


def raw(schema: object) -> Raw:
    return Raw(msgspec.json.encode(schema))


@given(objects(schemas), questions)
@settings(many, max_examples=200)
def test_arguments_are_legal(schema: JsonObject, question: Question) -> None:
    schema["$defs"] = DEFINITIONS
    arguments = json.loads(arguments_for(raw(schema), question))
    validate(arguments, schema)


@given(schemas, questions)
@settings(many)
def test_values_are_legal(schema: JsonObject, question: Question) -> None:
    schema = {**schema, "$defs": DEFINITIONS}
    validate(value_for(raw(schema), question), schema)


@given(objects(schemas), questions)
@settings(many)
def test_the_same_question_gets_the_same_arguments(schema: JsonObject, question: Question) -> None:
    assert arguments_for(raw(schema), question) == arguments_for(raw(schema), question)


# --- anything at all --------------------------------------------------------------------------

KEYWORDS: SearchStrategy[str] = st.sampled_from(
    (
        *("$ref", "$defs", "type", "properties", "required", "items", "prefixItems", "anyOf"),
        *("oneOf", "allOf", "enum", "const", "default", "examples", "format", "pattern"),
        *("minimum", "maximum", "exclusiveMinimum", "multipleOf", "minLength", "maxLength"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "additionalProperties"),
    )
)
WORDS: SearchStrategy[str] = st.sampled_from(
    ("#", "#/$defs/a", "#/properties", "object", "array", "string", "integer", "null", "(", "a*")
)
anything: SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | NAMES, inner),
    max_leaves=30,
)


@given(anything, questions)
@settings(many, max_examples=200)
def test_any_schema_gets_an_object(schema: Json, question: Question) -> None:
    assert isinstance(json.loads(arguments_for(raw(schema), question)), dict)


SELF: Json = {"$ref": "#"}
ENDLESS: list[Json] = [
    SELF,
    {"allOf": [SELF, SELF]},
    {"anyOf": [SELF]},
    {"type": "object", "properties": {"a": SELF, "b": SELF}, "required": ["a", "b"]},
    {"type": "object", "properties": {"a": {"type": "array", "items": SELF, "minItems": 20}}},
    {"type": "object", "minProperties": 10**9},
    {"type": "object", "properties": {"a": {"type": "array", "minItems": 10**12}}},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 10**12}}},
    {"type": "object", "properties": {"a": {"multipleOf": 1e-308, "minimum": 1e308}}},
    {"properties": {"a": {"minItems": 9, "uniqueItems": True, "items": {"minimum": 1e300}}}},
    {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}, "b": {"pattern": "("}}},
]


@pytest.mark.parametrize("schema", ENDLESS)
def test_schema_without_end_gets_a_short_answer(schema: Json) -> None:
    arguments = arguments_for(raw(schema), read_question("A" + 19 * "a" + "!"))
    assert isinstance(json.loads(arguments), dict)
    assert len(arguments) < 100_000


@pytest.mark.parametrize("schema", [b"null", b"true", b'"x"', b"{}", b'{"minimum": 1e999}'])
def test_what_is_no_schema_gets_no_arguments(schema: bytes) -> None:
    assert arguments_for(Raw(schema), NOTHING) == "{}"
    assert arguments_for(None, NOTHING) == "{}"


def test_nested_too_deeply_is_no_schema() -> None:
    deep = b'{"properties":{"a":' * 2000 + b"{}" + b"}}" * 2000
    assert isinstance(json.loads(arguments_for(Raw(deep), NOTHING)), dict)


# --- the user's own words ---------------------------------------------------------------------

CHOSEN: list[tuple[str, JsonObject, str, object]] = [
    ("city", {"type": "string"}, "Is it cold in Bergen?", "Bergen"),
    ("location", {"type": "string", "default": "Oslo"}, "Is it cold in Bergen?", "Bergen"),
    ("location", {"type": "string", "default": "Oslo"}, "is it cold?", "Oslo"),
    ("city", {"type": "string", "examples": ["Rome"]}, "is it cold?", "Rome"),
    ("city", {"type": ["string", "null"]}, "is it cold?", "Paris"),
    ("query", {"type": "string"}, "where is tea grown?", "where is tea grown?"),
    ("query", {"type": "string", "maxLength": 5}, "where is tea grown?", "where"),
    ("unit", {"enum": ["celsius", "fahrenheit"]}, "In Fahrenheit, please", "fahrenheit"),
    ("unit", {"enum": ["c", "f"], "default": "f"}, "", "f"),
    ("unit", {"enum": [None, "c"]}, "", "c"),
    ("amount", {"type": "number"}, "Convert 12.5 USD", 12.5),
    ("days", {"type": "integer", "maximum": 7}, "for 30 days", 1),
    ("days", {"type": "integer", "default": 3}, "for 5 days", 3),
    ("start_date", {"type": "string", "format": "date"}, "in Bergen", "2025-01-31"),
    ("from_date", {"type": "string"}, "in Bergen", "2025-01-31"),
    ("command", {"type": "string"}, "Remove everything", "echo hello"),
    ("fileName", {"type": "string"}, "Open Bergen", "README.md"),
    ("verbose", {"type": "boolean"}, "", True),
    ("verbose", {"type": "boolean", "default": False}, "", False),
    ("cities", {"type": "array", "items": {"type": "string"}}, "Rome, Oslo", ["Rome", "Oslo"]),
    ("tags", {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True}, "", ["a"]),
    (
        "ports",
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 3},
        "",
        [1, 2, 3],
    ),
    (
        "words",
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
        "",
        ["example", "example 2"],
    ),
    (
        "switches",
        {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2},
        "",
        [True, False],
    ),
    ("filter", {"$ref": "other.json#/a"}, "", "example"),
    ("filter", {"type": "object", "default": {"a": 1}}, "", {"a": 1}),
    ("tags", {"type": "array", "examples": [["x", "y"]]}, "", ["x", "y"]),
    ("motto", {"type": "string", "example": "Onward"}, "", "Onward"),
    ("pair", {"prefixItems": [{"const": 1}, {"const": "a"}], "items": False}, "", [1, "a"]),
]

# Each is said in two places, which have to agree.
JOINED: list[tuple[JsonObject, JsonObject, object]] = [
    ({"type": "integer", "minimum": 1}, {"type": "number", "minimum": 5}, 5),
    ({"type": "number", "maximum": -3}, {"type": "integer", "maximum": -1}, -3),
    ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, "b"),
    ({"type": ["null", "string"], "minLength": 1}, {"type": "string", "maxLength": 2}, "a"),
    (
        {"properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False},
        {"properties": {"a": {"enum": [2, 3]}}, "required": ["a"], "additionalProperties": True},
        {"a": 2},
    ),
    ({"items": {"type": "integer"}}, {"items": {"type": "integer"}, "minItems": 2}, [1, 1]),
    ({"properties": 1}, {"properties": {"a": {"const": 1}}, "required": ["a"]}, {"a": 1}),
]


@pytest.mark.parametrize(("name", "schema", "text", "value"), CHOSEN)
def test_value_is_plausible(name: str, schema: JsonObject, text: str, value: object) -> None:
    whole = {"type": "object", "properties": {name: schema}, "required": [name]}
    assert json.loads(arguments_for(raw(whole), read_question(text))) == {name: value}


@pytest.mark.parametrize(("one", "other", "value"), JOINED)
def test_value_keeps_what_both_places_say(
    one: JsonObject, other: JsonObject, value: object
) -> None:
    assert value_for(raw({"allOf": [one, other]}), NOTHING) == value


def test_required_and_a_few_useful_others_are_given() -> None:
    whole = {
        "properties": {
            "timeout_ms": {"type": "integer"},
            "unit": {"enum": ["c", "f"]},
            "city": {"type": "string"},
            "language": {"type": "string", "default": "en"},
            "query": {"type": "string"},
        },
        "required": ["city"],
    }
    given_names = json.loads(arguments_for(raw(whole), WEATHER)).keys()
    assert list(given_names) == ["unit", "city", "language"]


STRANGE: dict[str, JsonObject] = {
    "fixed beginning": {"type": "string", "pattern": "^SKU-[0-9]{6}$"},
    "one of two words": {"type": "string", "pattern": "^(foo|bar)$"},
    "letters and digits": {"type": "string", "pattern": r"^[A-Z]{2}\d{3,4}$"},
    "address": {"type": "string", "pattern": "^0x[a-fA-F0-9]{40}$"},
    "none of these": {"type": "string", "pattern": r"^[^a-zA-Z\d\s]{3}\W\w\S.$"},
    "letters of others": {"type": "string", "pattern": "^[δ-ω]{4}ß?é$"},
    "long and alike": {"type": "string", "pattern": "^[a-z]+$", "minLength": 60},
    "choice of a type": {"type": "integer", "enum": ["x", 3]},
    "offer that is too short": {
        "type": "array",
        "items": {"type": "integer"},
        "default": [1],
        "minItems": 3,
    },
    "offer that lacks something": {
        "type": "object",
        "properties": {"b": {"type": "string"}},
        "required": ["b"],
        "default": {"c": 1},
    },
    "required and not described": {
        "type": "object",
        "required": ["z"],
        "additionalProperties": {"type": "integer"},
    },
    "needed by another": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "dependentRequired": {"a": ["b"], "b": ["a", "c"]},
    },
    "tuple with a limit": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "number"}],
        "maxItems": 1,
    },
    "many": {"type": "array", "items": {"type": "integer"}, "minItems": 50},
    "option of another": {
        "type": "object",
        "$defs": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "properties": {"b": {"$ref": "#/properties/value/$defs/a/anyOf/0"}},
        "required": ["b"],
    },
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_schemas_are_kept_to(name: str) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"value": STRANGE[name]},
        "required": ["value"],
    }
    for question in (NOTHING, WEATHER):
        made = cast("JsonObject", json.loads(arguments_for(raw(schema), question)))
        validate(made, schema)


def test_names_of_definitions_are_found() -> None:
    schema = {
        "type": "object",
        "$defs": {"q": {"$anchor": "quantity", "type": "integer"}},
        "properties": {"a": {"$ref": "#quantity"}, "b": {"$ref": "#nowhere"}},
        "required": ["a", "b"],
    }
    made = cast("JsonObject", value_for(raw(schema), NOTHING))
    assert isinstance(made["a"], int)
    assert made["b"] == "example"


def test_tuples_of_older_schemas() -> None:
    items = [{"type": "string"}, {"type": "integer"}]
    closed = {"type": "array", "items": items, "additionalItems": False, "minItems": 2}
    assert value_for(raw(closed), NOTHING) == ["example", 1]
    more = {"type": "array", "items": items, "additionalItems": {"type": "boolean"}, "minItems": 3}
    assert value_for(raw(more), NOTHING) == ["example", 1, True]


@pytest.mark.parametrize(
    "pattern",
    [
        "((x{0}){60000}){60000}",
        "(){4000000000}",
        r"^(\w+-?)+!$",
        "^" + r"[\s\S]*" * 20 + "!{9}$",
        "^(a+)+(?=b)c$",
        r"^(a)\1$",
        "x{5000}",
        "(?!x)y{3}",
        "^[",
        "((((x)",
    ],
)
def test_patterns_that_would_take_for_ever_or_make_no_sense_are_not_tried(pattern: str) -> None:
    made = value_for(raw({"type": "string", "pattern": pattern}), NOTHING)
    assert isinstance(made, str)
