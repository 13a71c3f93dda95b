"""JSON Schemas of tools: mended where every strict server refuses them, else left as spoken."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, Tool
from adapters.losses import Losses
from adapters.wire.json_object import Json, parse

# What a function without parameters declares: servers refuse a missing or null schema (P008).
EMPTY_SCHEMA = Raw(b'{"type":"object","properties":{}}')

# Keywords that hold values, in which null is as good as any other.
_HOLD_VALUES = frozenset(("default", "const", "enum", "example", "examples"))
# Keywords that strict mode does not know: a schema with one of them is not strict.
_NOT_STRICT = frozenset(
    (
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "default",
    )
)
# Keywords by which a schema says what it takes: strict mode knows none that takes anything.
_SAY_WHAT = frozenset(("type", "$ref", "anyOf", "enum", "const"))
# Keywords that hold schemas by name.
_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions"))
# Keywords beside which the root of a schema need not say its type.
_COMBINATORS = frozenset(("$ref", "anyOf", "oneOf", "allOf"))


def parameters_schema(schema: Raw | None, path: str, losses: Losses) -> Raw:
    """Give the schema of a function as every server takes it."""
    if schema is None or bytes(schema).strip() == b"{}":
        # No parameters: servers want to be told at least that it is an object.
        return EMPTY_SCHEMA
    better = remove_nulls(schema)
    if better is not schema:
        losses.changed(f"{path}.parameters", "nulls that no schema may have are taken out")
    return better


def remove_nulls(schema: Raw) -> Raw:
    """Take out nulls that no schema may have (P009, P010); without any, give the same bytes."""
    if b"null" not in bytes(schema):
        return schema
    parsed = _parsed(schema)
    if not isinstance(parsed, dict):
        return EMPTY_SCHEMA if parsed is None else schema
    try:
        better = _mend(parsed)
    except RecursionError:
        return schema
    if better == parsed:
        return schema
    if "type" not in better and not _COMBINATORS & better.keys():
        better = {"type": "object", **better}
    return Raw(msgspec.json.encode(better))


def _parsed(schema: Raw) -> Json:
    """Parse a schema; one that cannot be parsed is the server's to refuse."""
    try:
        return parse(schema)
    except InvalidRequestError:
        return False


def _mend(schema: Mapping[str, Json]) -> dict[str, Json]:
    better: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _NAMED_SCHEMAS and isinstance(value, dict):
            better[key] = {
                name: _mend(inner) if isinstance(inner, dict) else ({} if inner is None else inner)
                for name, inner in value.items()
            }
        elif key in _HOLD_VALUES:
            better[key] = value
        elif value is not None:
            better[key] = _mend_value(value)
    return better


def _mend_value(value: Json) -> Json:
    if isinstance(value, dict):
        return _mend(value)
    if isinstance(value, list):
        return [_mend_value(one) for one in value]
    return value


def is_strict(schema: Raw | None) -> bool:
    """Tell whether a schema already keeps the rules of strict mode.

    The Responses API applies strict mode by itself to such a schema when nobody said; Chat does
    not, so there it has to be said.
    """
    if schema is None:
        return False
    parsed = _parsed(schema)
    try:
        return isinstance(parsed, dict) and parsed.get("type") == "object" and _all_strict(parsed)
    except RecursionError:
        return False


def _all_strict(value: Json) -> bool:
    """Look at every schema: it says what it takes; objects are closed, all of them required."""
    if isinstance(value, list):
        return all(_all_strict(one) for one in value)
    if not isinstance(value, dict):
        return True
    if _NOT_STRICT & value.keys() or not _SAY_WHAT & value.keys():
        return False
    if is_object(value) and not _is_closed(value):
        return False
    return all(_all_strict(inner) for inner in _held_schemas(value))


def is_object(schema: Mapping[str, Json]) -> bool:
    """Tell whether a schema takes objects, be it among others."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return "object" in kinds or isinstance(schema.get("properties"), dict)


def _is_closed(schema: Mapping[str, Json]) -> bool:
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, dict) else set[str]()
    required = schema.get("required")
    listed = (
        {name for name in required if isinstance(name, str)}
        if isinstance(required, list)
        else set[str]()
    )
    return schema.get("additionalProperties") is False and names == listed


def _held_schemas(schema: Mapping[str, Json]) -> Iterator[Json]:
    """Give what a schema holds; a property may have the name of a keyword."""
    for key, value in schema.items():
        if key in _NAMED_SCHEMAS and isinstance(value, dict):
            yield from value.values()
        elif key not in _HOLD_VALUES:
            yield value


# Makes the schemas of strict functions strict: closed objects, with all properties required.
#
# Servers refuse a function that says it is strict and is not. A property that may be left out
# becomes
# one that may be null, which is the nearest that strict mode has.


Object = Mapping[str, Json]

# Keywords that hold schemas, by name or in a list.
_BY_NAME = ("$defs", "definitions")
_NULL: dict[str, Json] = {"type": "null"}


class _NotStrictError(Exception):
    """A schema that strict mode cannot say."""


def to_strict_schema(tool: Tool, path: str, losses: Losses) -> Tool:
    """Give a function that says it is strict with a schema that is; others stay as they are."""
    if not isinstance(tool, FunctionTool) or not tool.strict or is_strict(tool.parameters):
        return tool
    schema = None if tool.parameters is None else _strict_schema(tool.parameters)
    if schema is None:
        reason = "its schema cannot be made strict"
        losses.dropped(f"{path}.strict", reason, "capability")
        return replace(tool, strict=False)
    reason = "it is made strict: every property is required, and null where it could be left out"
    losses.changed(f"{path}.parameters", reason)
    return replace(tool, parameters=schema)


def _strict_schema(schema: Raw) -> Raw | None:
    try:
        parsed = parse(schema)
        better = Raw(msgspec.json.encode(_closed(parsed))) if isinstance(parsed, dict) else None
    except (InvalidRequestError, RecursionError, _NotStrictError):
        return None
    return better if is_strict(better) else None


def _strict(schema: Json) -> Json:
    """Make a schema strict, and all that it holds."""
    if not isinstance(schema, dict):
        return schema
    return _closed(schema) if is_object(schema) else _inner(schema)


def _closed(schema: Object) -> dict[str, Json]:
    """Close an object; one that is open on purpose cannot be closed."""
    properties = schema.get("properties")
    # A schema that says nothing takes anything.
    is_open = schema.get("additionalProperties", False) not in (False, None)
    if not isinstance(properties, dict) or is_open:
        raise _NotStrictError
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else []
    inner = {
        name: _strict(value) if name in required else _nullable(_strict(value))
        for name, value in properties.items()
    }
    return {
        "type": "object",
        **_inner({name: value for name, value in schema.items() if name != "properties"}),
        "properties": inner,
        "required": [*properties],
        "additionalProperties": False,
    }


def _inner(schema: Object) -> dict[str, Json]:
    """Make strict what a schema holds; a default says nothing where nothing may be left out."""
    better: dict[str, Json] = {}
    for name, value in schema.items():
        if name in _BY_NAME and isinstance(value, dict):
            better[name] = {key: _strict(one) for key, one in value.items()}
        elif name == "anyOf" and isinstance(value, list):
            better[name] = [_strict(one) for one in value]
        elif name == "items":
            better[name] = _strict(value)
        elif name != "default":
            better[name] = value
    return better


def _nullable(schema: Json) -> Json:
    """Let a value also be null."""
    if not isinstance(schema, dict):
        raise _NotStrictError
    alternatives = schema.get("anyOf")
    if isinstance(alternatives, list):
        return {**schema, "anyOf": [*alternatives, _NULL]} if _NULL not in alternatives else schema
    kind = schema.get("type")
    if "enum" in schema or "const" in schema or not isinstance(kind, str | list):
        return {"anyOf": [schema, _NULL]}
    kinds = [kind] if isinstance(kind, str) else kind
    return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
