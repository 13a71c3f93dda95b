"""The normal form of JSON: two bodies with the same meaning have the same normal form.

Only call ids remain different; `adapters.comparison.differences` compares which calls and outputs
they pair.
"""

from typing import Final

import msgspec

from adapters.conformance import Json, Object
from adapters.json_text import DECODE_ERRORS

# Fields that differ each time although nothing else does.
_VOLATILE: Final = frozenset(
    (
        *("created", "created_at", "completed_at", "expires_at"),
        *("item_id", "response_id", "sequence_number", "index", "obfuscation"),
        *("system_fingerprint", "encrypted_content", "signature"),
    )
)
# Fields whose values belong to the user and are compared exactly, apart from the order of keys.
_VERBATIM: Final = frozenset(("parameters", "schema", "metadata"))
# Values that are the same as a missing field.
_DEFAULTS: Final[dict[str, Json]] = {
    "type": "message",
    "status": "completed",
    "stream": False,
    "n": 1,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "truncation": "disabled",
}
_TEXT_TYPES: Final = frozenset(("text", "input_text", "output_text"))
# The fields of content, which is a text or a list of parts.
_CONTENT: Final = frozenset(("content", "output"))
# A field that only objects with an id of their own have.
_ENTITY_FIELDS: Final = ("object", "type", "role")
_EMPTY: Final[tuple[Json, ...]] = (None, "", [], {})


def normalize(body: Json) -> Json:
    """Return the normal form of a request, a reply or an error."""
    if not isinstance(body, dict):
        return _normal_value("", body)
    if isinstance(body.get("input"), str):
        body = {**body, "input": [{"role": "user", "content": body["input"]}]}
    return {key: value for key, value in _normal_object(body).items() if key != "id"}


def is_call_id(key: str, owner: Object) -> bool:
    """Whether a field pairs a call with its output, or a request with an earlier one."""
    if key == "id":
        return _is_chat_call(owner)
    return key in ("call_id", "tool_call_id", "previous_response_id", "approval_request_id")


def _is_chat_call(value: Object) -> bool:
    return "function" in value or "custom" in value


def _normal_object(value: Object) -> Object:
    """Return the fields that have a meaning."""
    keeps_id = _is_chat_call(value) or not any(name in value for name in _ENTITY_FIELDS)
    written: Object = {}
    for key, field in value.items():
        if key in _VOLATILE or (key == "id" and not keeps_id):
            continue
        normal = _normal_value(key, field)
        if normal not in _EMPTY and not _is_default(key, normal, value):
            written[key] = normal
    return written


def _is_default(key: str, value: Json, owner: Object) -> bool:
    if key == "type" and value == "function":
        # The type of a tool or a call in Chat Completions; servers leave it out of calls.
        return _is_chat_call(owner)
    return key in _DEFAULTS and value == _DEFAULTS[key] and type(value) is type(_DEFAULTS[key])


def _normal_value(key: str, value: Json) -> Json:
    if key in _VERBATIM:
        return value
    if key == "arguments":
        return _parse_arguments(value)
    if isinstance(value, dict):
        return _normal_object(value)
    if isinstance(value, list):
        entries = [_normal_value("", entry) for entry in value]
        return _join_text(entries) if key in _CONTENT else entries
    return value


def _parse_arguments(value: Json) -> Json:
    """Return the JSON in the arguments of a call; other arguments are compared as text."""
    if not isinstance(value, str):
        return value
    try:
        parsed: Json = msgspec.json.decode(value)
    except DECODE_ERRORS:
        return value
    return parsed if isinstance(parsed, dict | list) else value


def _join_text(parts: list[Json]) -> Json:
    """Return one part of plain text as the text, which is another form of the same content."""
    match parts:
        case [{"type": str(kind), "text": str(text), **rest}] if kind in _TEXT_TYPES and not rest:
            return text
        case _:
            return parts
