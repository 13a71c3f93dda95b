"""Bytes to JSON objects for the judges: stricter than a client, and typed."""

import json
from typing import Never, TypeAlias, cast

JsonObject: TypeAlias = dict[str, object]


def read_object(body: bytes | str) -> JsonObject:
    """Decode one JSON object; a repeated key or a NaN fails although `json` would take it."""
    try:
        value: object = json.loads(body, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except ValueError as error:
        raise AssertionError(f"not JSON: {error}: {body[:200]!r}") from error
    return as_object(value, "body")


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    # Parsers use the last of two equal keys, so a repeated key would not be noticed.
    names = [name for name, _ in pairs]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"key said twice in one object: {sorted(twice)}"
    return dict(pairs)


def _refuse_constant(word: str) -> Never:
    raise AssertionError(f"{word} is no JSON")


def as_object(value: object, at: str) -> JsonObject:
    assert isinstance(value, dict), f"{at}: expected an object, got {value!r}"
    return cast("JsonObject", value)


def as_list(value: object, at: str) -> list[object]:
    assert isinstance(value, list), f"{at}: expected an array, got {value!r}"
    return cast("list[object]", value)


def object_in(parent: JsonObject, key: str) -> JsonObject:
    return as_object(parent.get(key), key)


def objects_in(parent: JsonObject, key: str) -> list[JsonObject]:
    return [
        as_object(value, f"{key}[{i}]") for i, value in enumerate(as_list(parent.get(key), key))
    ]


def text_in(parent: JsonObject, key: str) -> str:
    value = parent.get(key)
    assert isinstance(value, str), f"{key}: expected a string, got {value!r}"
    return value


def integer_in(parent: JsonObject, key: str) -> int:
    value = parent.get(key)
    # A bool is an int to Python, never to JSON.
    assert isinstance(value, int), f"{key}: expected an integer, got {value!r}"
    assert not isinstance(value, bool), f"{key}: expected an integer, got {value!r}"
    return value
