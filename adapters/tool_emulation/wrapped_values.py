"""Functions that take another value than an object, as functions with one argument.

Servers reject a function whose schema is not that of an object
(https://github.com/chenyme/grok2api/issues/650). Such a schema becomes that of a property, and the
value of this property the arguments of the call that the client receives.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ir.types import FunctionTool, Tool
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import Json, parse
from adapters.wire.schema_keywords import find_definition

# The reason of a loss.
WRAPPED: Final = "not the schema of an object; sent as that of the property `value`"

# The usual beginnings of a schema, which show without decoding that it is that of an object.
USUAL_STARTS: Final = (b'{"type":"object"', b'{"type": "object"')

# The results for longer schemas are not kept in memory.
_MAX_CACHED_BYTES: Final = 4096
_FIELD: Final = "value"
# References are resolved from the root of the schema, where the definitions stay.
_DEFINITIONS: Final = ("$defs", "definitions")
_COMBINATORS: Final = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH: Final = 8
# A reference that a move of the root would break.
_FIXED_REFERENCE: Final = re.compile(rb'"\$ref"\s*:\s*"#(?!/(?:\$defs|definitions)/)')


class _Wrapped(Struct, forbid_unknown_fields=True):
    value: Raw


_SCHEMA: Final = msgspec.json.Decoder(dict[str, Raw])
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped)
_VALUE: Final = msgspec.json.Decoder(Raw)


def takes_other_values(tool: Tool) -> bool:
    """Whether a function accepts other arguments than an object."""
    if not isinstance(tool, FunctionTool) or tool.parameters is None:
        return False
    schema = bytes(tool.parameters)
    if schema.startswith(USUAL_STARTS):
        return False
    # Agents send the same tools with every request.
    check = _has_other_root_cached if len(schema) <= _MAX_CACHED_BYTES else _has_other_root
    return check(schema)


def _has_other_root(schema: bytes) -> bool:
    if _FIXED_REFERENCE.search(schema):
        return False
    try:
        root = parse(Raw(schema))
    except InvalidRequestError:
        # The backend reports what is invalid.
        return False
    return _accepts_others(root, root)


_has_other_root_cached = lru_cache(maxsize=512)(_has_other_root)


def _accepts_others(schema: Json, root: Json, depth: int = 0) -> bool:
    """Whether a schema accepts other values than objects, as far as its usual keywords show."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return False
    if schema.get("type") is not None:
        return schema["type"] not in ("object", ["object"])
    values = [*_as_list(schema.get("enum")), *([schema["const"]] if "const" in schema else ())]
    if any(not isinstance(value, dict) for value in values):
        return True
    parts = [part for name in _COMBINATORS for part in _as_list(schema.get(name))]
    if isinstance(reference := schema.get("$ref"), str):
        parts.append(dict(find_definition(root, reference) or {}))
    return any(_accepts_others(part, root, depth + 1) for part in parts)


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def wrap_parameters(tool: FunctionTool) -> FunctionTool:
    """Return a function whose only argument is the value that it takes."""
    schema = _SCHEMA.decode(tool.parameters or Raw(b"{}"))
    definitions = [(name, schema.pop(name)) for name in _DEFINITIONS if name in schema]
    wrapped: dict[str, object] = {"type": "object", "properties": {_FIELD: schema}}
    wrapped["required"] = [_FIELD]
    if tool.strict:
        wrapped["additionalProperties"] = False
    wrapped.update(definitions)
    return replace(tool, parameters=Raw(msgspec.json.encode(wrapped)))


def wrap_value(arguments: str) -> str:
    """Return the arguments with which the backend calls the function; only JSON is changed."""
    try:
        _VALUE.decode(arguments)
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return arguments
    return f'{{"{_FIELD}":{arguments}}}'


def unwrap_value(arguments: str) -> str:
    """Return the value in the arguments of a backend; other arguments are not changed."""
    try:
        return bytes(_WRAPPED.decode(arguments).value).decode()
    except DECODE_ERRORS:
        return arguments
