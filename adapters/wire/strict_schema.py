"""Makes the schemas of strict functions strict: closed objects, with all properties required.

Servers refuse a function that says it is strict and is not. A property that may be left out becomes
one that may be null, which is the nearest that strict mode has.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, Tool
from adapters.losses import Losses
from adapters.wire.json_object import Json, parse
from adapters.wire.json_schema import is_object, is_strict

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
        why = "its schema cannot be made strict"
        losses.dropped(f"{path}.strict", why, "capability")
        return replace(tool, strict=False)
    why = "it is made strict: every property is required, and null where it could be left out"
    losses.changed(f"{path}.parameters", why)
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
