"""Functions that take another value than an object, as functions with one argument.

Servers reject a function whose schema is not that of an object
(https://github.com/chenyme/grok2api/issues/650). Such a schema becomes that of a property, and the
value of this property the arguments of the call that the client receives.
"""

from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import FunctionTool, Tool
from adapters.json_text import DECODE_ERRORS, is_complete_json

# The reason of a loss.
WRAPPED: Final = "not the schema of an object; sent as that of the property `value`"

# The usual beginnings of a schema, which show without decoding that it is that of an object.
USUAL_STARTS: Final = (b'{"type":"object"', b'{"type": "object"')

# The results for longer schemas are not kept in memory.
_MAX_CACHED_BYTES: Final = 4096
_FIELD: Final = "value"
# References are resolved from the root of the schema, where the definitions stay.
_DEFINITIONS: Final = ("$defs", "definitions")
_OBJECT_TYPES: Final = (b"", b'"object"')


class _Branch(Struct):
    type: Raw = Raw()


class _Root(_Branch):
    any_of: list[_Branch] = msgspec.field(name="anyOf", default=[])
    one_of: list[_Branch] = msgspec.field(name="oneOf", default=[])


class _Wrapped(Struct, forbid_unknown_fields=True):
    value: Raw


_ROOT: Final = msgspec.json.Decoder(_Root)
_SCHEMA: Final = msgspec.json.Decoder(dict[str, Raw])
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped)


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
    if b'"#"' in schema:
        # A reference to the root cannot be moved.
        return False
    try:
        root = _ROOT.decode(schema)
    except DECODE_ERRORS:
        # The backend reports what is invalid.
        return False
    if root.type:
        return not _is_object(root) and bytes(root.type) != b"null"
    return not all(map(_is_object, (*root.any_of, *root.one_of)))


_has_other_root_cached = lru_cache(maxsize=512)(_has_other_root)


def _is_object(branch: _Branch) -> bool:
    return bytes(branch.type) in _OBJECT_TYPES


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
    """Return the arguments with which the backend calls the function."""
    return f'{{"{_FIELD}":{arguments}}}' if is_complete_json(arguments) else arguments


def unwrap_value(arguments: str) -> str:
    """Return the value in the arguments of a backend; other arguments are not changed."""
    try:
        return bytes(_WRAPPED.decode(arguments).value).decode()
    except DECODE_ERRORS:
        return arguments
