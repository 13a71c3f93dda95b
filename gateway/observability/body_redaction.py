"""Redaction of secrets in logged bodies.

JSON is parsed to recognize fields by name, also in strings that contain JSON, such as arguments of
a call. Values that look like an API key are redacted everywhere. Fragments of streamed arguments
are left out, because a secret may extend over several fragments.
"""

import re
from collections.abc import Callable

import msgspec

from adapters.json_text import DECODE_ERRORS
from adapters.wire.error_body import REDACTED
from adapters.wire.json_object import Json
from gateway.observability.key_formats import replace_keys

# "token" must be at the end of a name, because fields such as `max_tokens` are not secret.
_SECRET_NAME = re.compile(
    r"api[-_]?key|authorization|credential|passw|passphrase|secret|private[-_]?key|token$|cookie",
    re.IGNORECASE,
)
_DATA = "data:"
_ARGUMENTS = "[arguments]"
# The number of parsed levels of JSON inside JSON strings.
_MAX_DEPTH = 4

_JSON: msgspec.json.Decoder[Json] = msgspec.json.Decoder()


def redact_body(body: bytes) -> str:
    """Return a JSON body or a stream of JSON events with its secrets redacted."""
    text = body.decode("utf-8", "replace")
    redacted = _redact_json(text, _redact)
    if redacted is not None:
        return redacted
    return "\n".join(_redact_line(line) for line in text.split("\n"))


def _redact_line(line: str) -> str:
    if not line.startswith(_DATA):
        return replace_keys(line, REDACTED)
    event = line[len(_DATA) :].strip()
    redacted = _redact_json(event, _redact_event)
    return f"{_DATA} {replace_keys(event, REDACTED) if redacted is None else redacted}"


def _redact_json(text: str, redact: Callable[[Json, int], Json]) -> str | None:
    """Redact a JSON object or array; return None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.encode(redact(_JSON.decode(text), _MAX_DEPTH)).decode()
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return None


def _redact_event(event: Json, depth: int) -> Json:
    """Redact one event of a stream, and leave out fragments of arguments."""
    if isinstance(event, dict):
        event_type = str(event.get("type", ""))
        if event_type.endswith(("arguments.delta", "input.delta")):
            event = event | {"delta": _ARGUMENTS}
        elif isinstance(event.get("choices"), list):
            event = event | {"choices": _without_arguments(event["choices"])}
    return _redact(event, depth)


def _without_arguments(value: Json) -> Json:
    match value:
        case dict():
            return {
                name: _ARGUMENTS if name in ("arguments", "input") else _without_arguments(field)
                for name, field in value.items()
            }
        case list():
            return [_without_arguments(element) for element in value]
        case _:
            return value


def _redact(value: Json, depth: int) -> Json:
    match value:
        case dict():
            return {
                name: REDACTED if field and _SECRET_NAME.search(name) else _redact(field, depth)
                for name, field in value.items()
            }
        case list():
            return [_redact(element, depth) for element in value]
        case str():
            nested = None
            if depth:
                nested = _redact_json(value, lambda json, _: _redact(json, depth - 1))
            return replace_keys(value, REDACTED) if nested is None else nested
        case _:
            return value
