"""JSON schemas of tools: removal of nulls that servers reject, and the rules of strict mode."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, Tool
from adapters.losses import Losses
from adapters.wire.json_object import Json, parse

Object = Mapping[str, Json]

# The schema of a function without parameters: servers reject a missing or null schema
# (https://github.com/farion1231/cc-switch/issues/5315).
EMPTY_SCHEMA = Raw(b'{"type":"object","properties":{}}')

_NO_PARAMETERS = "a function requires a schema; sent as a schema without properties"

# Keywords whose values may be or contain null.
_VALUE_KEYWORDS = frozenset(("default", "const", "enum", "example", "examples"))
# Keywords that strict mode does not allow.
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
# In strict mode, every schema has at least one of these keywords.
_TYPE_KEYWORDS = frozenset(("type", "$ref", "anyOf", "enum", "const"))
# Keywords whose values are objects of named schemas.
_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions"))
# A schema with one of these keywords needs no type.
_COMBINATORS = frozenset(("$ref", "anyOf", "oneOf", "allOf"))


def parameters_schema(schema: Raw | None, path: str, losses: Losses) -> Raw:
    """Return the schema of a function in a form that all servers accept."""
    if schema is None or bytes(schema).strip() == b"{}":
        losses.invented(f"{path}.parameters", _NO_PARAMETERS, "adapted")
        return EMPTY_SCHEMA
    if b"null" not in bytes(schema):
        return schema
    valid = _remove_nulls(schema)
    if valid is not schema:
        losses.changed(f"{path}.parameters", "invalid null values in the schema are removed")
    return valid


def _remove_nulls(schema: Raw) -> Raw:
    """Remove nulls that are invalid in a schema; return the same object if no null is invalid.

    See https://github.com/farion1231/cc-switch/issues/4864 and
    https://github.com/earendil-works/pi/issues/5615.
    """
    parsed = _parse_schema(schema)
    if not isinstance(parsed, dict):
        return EMPTY_SCHEMA if parsed is None else schema
    try:
        valid = _without_nulls(parsed)
    except RecursionError:
        return schema
    if valid == parsed:
        return schema
    if "type" not in valid and not _COMBINATORS & valid.keys():
        valid = {"type": "object", **valid}
    return Raw(msgspec.json.encode(valid))


def _parse_schema(schema: Raw) -> Json:
    """Parse a schema; return False if that fails, because the backend will reject the schema."""
    try:
        return parse(schema)
    except InvalidRequestError:
        return False


def _without_nulls(schema: Object) -> dict[str, Json]:
    valid: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _NAMED_SCHEMAS and isinstance(value, dict):
            valid[key] = {
                name: {} if inner is None else _value_without_nulls(inner)
                for name, inner in value.items()
            }
        elif key in _VALUE_KEYWORDS:
            valid[key] = value
        elif value is not None:
            valid[key] = _value_without_nulls(value)
    return valid


def _value_without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return _without_nulls(value)
    if isinstance(value, list):
        return [_value_without_nulls(element) for element in value]
    return value


def is_strict(schema: Raw | None) -> bool:
    """Whether a schema conforms to the rules of strict mode.

    Without `strict`, the Responses API applies strict mode to such a schema, but Chat does not.
    """
    if schema is None:
        return False
    parsed = _parse_schema(schema)
    try:
        return isinstance(parsed, dict) and parsed.get("type") == "object" and _all_strict(parsed)
    except RecursionError:
        return False


def _all_strict(value: Json) -> bool:
    """Whether all schemas in a value are strict: typed, all properties required, no others."""
    if isinstance(value, list):
        return all(_all_strict(element) for element in value)
    if not isinstance(value, dict):
        return True
    if _NOT_STRICT & value.keys() or not _TYPE_KEYWORDS & value.keys():
        return False
    if _accepts_objects(value) and not _is_closed(value):
        return False
    return all(_all_strict(inner) for inner in _inner_schemas(value))


def _accepts_objects(schema: Object) -> bool:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return "object" in kinds or isinstance(schema.get("properties"), dict)


def _is_closed(schema: Object) -> bool:
    properties, required = schema.get("properties"), schema.get("required")
    names = [*properties] if isinstance(properties, dict) else []
    listed = required if isinstance(required, list) else []
    listed_names = {name for name in listed if isinstance(name, str)}
    return schema.get("additionalProperties") is False and set(names) == listed_names


def _inner_schemas(schema: Object) -> Iterator[Json]:
    for key, value in schema.items():
        if key in _NAMED_SCHEMAS and isinstance(value, dict):
            yield from value.values()
        elif key not in _VALUE_KEYWORDS:
            yield value


# Conversion to strict mode, because servers reject strict functions with other schemas. Objects
# become closed: they allow no other properties, and require all of their own. A property that was
# optional may be null instead.

_NULL: dict[str, Json] = {"type": "null"}


class _NotStrictError(Exception):
    """A schema that strict mode cannot express."""


def to_strict_schema(tool: Tool, path: str, losses: Losses) -> Tool:
    """Make the schema of a strict function strict; return other tools unchanged."""
    if not isinstance(tool, FunctionTool) or not tool.strict or is_strict(tool.parameters):
        return tool
    schema = None if tool.parameters is None else _strict_schema(tool.parameters)
    if schema is None:
        reason = "the schema cannot be made strict"
        losses.dropped(f"{path}.strict", reason, "capability")
        return replace(tool, strict=False)
    reason = "made strict: all properties are required, optional ones may be null"
    losses.changed(f"{path}.parameters", reason)
    return replace(tool, parameters=schema)


def _strict_schema(schema: Raw) -> Raw | None:
    try:
        parsed = parse(schema)
        strict = Raw(msgspec.json.encode(_closed(parsed))) if isinstance(parsed, dict) else None
    except (InvalidRequestError, RecursionError, _NotStrictError):
        return None
    return strict if is_strict(strict) else None


def _strict(schema: Json) -> Json:
    """Return a schema in strict form, with its inner schemas."""
    if not isinstance(schema, dict):
        return schema
    return _closed(schema) if _accepts_objects(schema) else _strict_inner(schema)


def _closed(schema: Object) -> dict[str, Json]:
    """Return a schema as that of a closed object; raise if it allows other properties."""
    properties = schema.get("properties")
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
        **_strict_inner({name: value for name, value in schema.items() if name != "properties"}),
        "properties": inner,
        "required": [*properties],
        "additionalProperties": False,
    }


def _strict_inner(schema: Object) -> dict[str, Json]:
    """Return a schema with strict inner schemas, without defaults: all properties are required."""
    strict: dict[str, Json] = {}
    for name, value in schema.items():
        if name in ("$defs", "definitions") and isinstance(value, dict):
            strict[name] = {key: _strict(inner) for key, inner in value.items()}
        elif name == "anyOf" and isinstance(value, list):
            strict[name] = [_strict(inner) for inner in value]
        elif name == "items":
            strict[name] = _strict(value)
        elif name != "default":
            strict[name] = value
    return strict


def _nullable(schema: Json) -> Json:
    """Return a schema that also accepts null."""
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
