"""Makes one plain schema of what a JSON Schema says in several places.

References within the schema are followed, `allOf` is joined, and of `anyOf` and `oneOf` one option
is chosen. Not looked at: `not`, `if`, `dependentSchemas`, and references to other documents.
"""

from collections.abc import Callable
from types import NoneType
from typing import TypeGuard, cast
from urllib.parse import unquote

from msgspec import Struct

from adapters.wire.json_object import Json

Schema = dict[str, Json]

# A schema that needs more steps goes in circles, or tries us.
_STEPS = 50
_COMBINATORS = frozenset(("$ref", "allOf", "anyOf", "oneOf"))


class Plain(Struct, frozen=True):
    """A schema without combinators, and the references that lead to it."""

    schema: Schema
    inside: frozenset[str]


class Resolver:
    """Looks things up in one schema."""

    def __init__(self, root: Json) -> None:
        self._root = root

    def plain(self, schema: Json, inside: frozenset[str], *, deep: bool = False) -> Plain:
        """Join what a schema says; `deep` inside, the simplest option is chosen."""
        plain: Schema = {}
        todo: list[Json] = [schema]
        for _ in range(_STEPS):
            if not todo:
                break
            part = todo.pop(0)
            if not isinstance(part, dict):
                continue
            said = {key: value for key, value in part.items() if key not in _COMBINATORS}
            plain = combined(plain, said)
            reference = part.get("$ref")
            if isinstance(reference, str):
                todo.append(self._find(reference))
                inside |= {reference}
            todo += listed(part, "allOf")
            options = (listed(part, "anyOf"), listed(part, "oneOf"))
            todo += [_choose(several, inside, deep=deep) for several in options if several]
        return Plain(plain, inside)

    def _find(self, reference: str) -> Json:
        """Follow a reference within the document; what is not here allows anything."""
        pointer, here = unquote(reference).removeprefix("#"), reference.startswith("#")
        anchor, *steps = pointer.split("/")
        found = self._anchored(anchor) if here else None
        for step in steps:
            found = _step(found, step.replace("~1", "/").replace("~0", "~"))
        return found

    def _anchored(self, name: str) -> Json:
        """Give the definition that has a name of its own; the whole document has none."""
        if not name:
            return self._root
        shared = _step(self._root, "$defs")
        every = shared.values() if isinstance(shared, dict) else ()
        return next((one for one in every if _step(one, "$anchor") == name), None)


def _step(inside: Json, name: str) -> Json:
    """Give what is at a name, or at a number."""
    match inside:
        case dict():
            return inside.get(name)
        case list() if name.isdecimal() and int(name) < len(inside):
            return inside[int(name)]
        case _:
            return None


def _choose(options: list[Json], inside: frozenset[str], *, deep: bool) -> Json:
    """Choose the first option that leads to something, and not back to where we are."""

    def rank(option: Json) -> tuple[bool, bool, bool]:
        empty = option is False
        null = isinstance(option, dict) and option.get("type") == "null"
        return empty, leads_back(option, inside) or (deep and _is_deep(option)), null

    return min(options, key=rank)


def leads_back(schema: Json, inside: frozenset[str]) -> bool:
    """Tell whether a schema, or that of its elements, is one that we are inside of."""
    if not isinstance(schema, dict):
        return False
    items = schema.get("items")
    return schema.get("$ref") in inside or (isinstance(items, dict) and items.get("$ref") in inside)


def _is_deep(option: Json) -> bool:
    return isinstance(option, dict) and bool(option.keys() & (_COMBINATORS | {"properties"}))


def listed(schema: Schema, key: str) -> list[Json]:
    """Give the list under a key; anything else counts as none."""
    value = schema.get(key)
    return value if isinstance(value, list) else []


def types_of(schema: Schema) -> list[str]:
    """Give the types that a schema allows, in its order; guess where it does not say."""
    said = schema.get("type")
    types = [said] if isinstance(said, str) else [one for one in listed(schema, "type") if one]
    if types:
        return [one for one in types if isinstance(one, str)]
    guesses = (guess for guess, keywords in _TELLING.items() if keywords & schema.keys())
    return [next(guesses, "string")]


def allowed_choices(schema: Schema) -> list[Json]:
    """Give the listed values that have a type which the schema names beside them."""
    values = listed(schema, "enum")
    types = {*types_of(schema)} if "type" in schema else set[str]()
    return [one for one in values if types & _TYPES[type(one)]] or values


_TYPES: dict[type, frozenset[str]] = {
    str: frozenset(("string",)),
    bool: frozenset(("boolean",)),
    int: frozenset(("integer", "number")),
    float: frozenset(("number",)),
    list: frozenset(("array",)),
    dict: frozenset(("object",)),
    NoneType: frozenset(("null",)),
}
_TELLING = {
    "object": frozenset(("properties", "required", "additionalProperties", "minProperties")),
    "array": frozenset(("items", "prefixItems", "minItems", "maxItems", "uniqueItems")),
    "number": frozenset(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    ),
}


# Joining two schemas


def combined(one: Schema, other: Schema) -> Schema:
    """Give a schema that asks for what both ask for."""
    both = one | other
    for key in one.keys() & other.keys():
        join = _JOINS.get(key)
        if join is not None:
            both[key] = join(one[key], other[key])
    return both


def _join_named(one: Json, other: Json) -> Json:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    shared = {name: _join_schemas(one[name], other[name]) for name in one.keys() & other.keys()}
    return one | other | shared


def _join_schemas(one: Json, other: Json) -> Json:
    return one if one == other else {"allOf": [one, other]}


def _join_required(one: Json, other: Json) -> Json:
    names = [*(one if isinstance(one, list) else ()), *(other if isinstance(other, list) else ())]
    return cast("list[Json]", list(dict.fromkeys(name for name in names if isinstance(name, str))))


def _join_allowed(one: Json, other: Json) -> Json:
    """Keep what both allow: for `enum`, and for `type`, which may be one word."""
    first: list[Json] = one if isinstance(one, list) else [one]
    second: list[Json] = other if isinstance(other, list) else [other]
    kept = [value for value in first if value in second or _is_wider(second, value)]
    kept += [value for value in second if value not in kept and _is_wider(first, value)]
    return kept or other


def _is_wider(allowed: list[Json], value: Json) -> bool:
    return value == "integer" and "number" in allowed


def _join_closed(one: Json, other: Json) -> Json:
    return False if one is False else other


def _greater(one: Json, other: Json) -> Json:
    return max(one, other) if is_number(one) and is_number(other) else other


def _smaller(one: Json, other: Json) -> Json:
    return min(one, other) if is_number(one) and is_number(other) else other


def is_number(value: Json) -> TypeGuard[int | float]:
    """Tell whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


_JOINS: dict[str, Callable[[Json, Json], Json]] = {
    "properties": _join_named,
    "required": _join_required,
    "items": _join_schemas,
    "type": _join_allowed,
    "enum": _join_allowed,
    "additionalProperties": _join_closed,
    **dict.fromkeys(
        ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _greater
    ),
    **dict.fromkeys(
        ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _smaller
    ),
}
