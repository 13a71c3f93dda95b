"""Redaction of secrets in the errors of a backend.

Only errors are redacted. What the model says keeps every byte, whatever is in it.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.json_text import DECODE_ERRORS
from adapters.sse import Frame

# Replaces secrets in a text.
Redact = Callable[[str], str]

# The replacement of a secret.
REDACTED = "[redacted]"

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ERROR = b'"error"'
_IS_ERROR = Raw(_ERROR)


def redact_text(data: bytes, redact: Redact | None) -> bytes:
    """Redact all of a text, such as the body of an error."""
    if redact is None:
        return data
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def redact_errors(data: bytes, redact: Redact | None) -> bytes:
    """Redact the errors in a JSON text of a backend, and nothing beside them."""
    # Within a string these quotes would be escaped.
    if redact is None or _ERROR not in data:
        return data
    try:
        return _redacted(data, redact)
    except DECODE_ERRORS:
        # It cannot be read, so it is not passed on either.
        return data


def redact_frame(frame: Frame, redact: Redact | None) -> Frame:
    """Redact the errors in one event of a stream; return the same frame if there are none."""
    clean = redact_text if frame.name == b"error" else redact_errors
    data = clean(frame.data, redact)
    return frame if data == frame.data else replace(frame, data=data)


def _redacted(data: bytes, redact: Redact) -> bytes:
    """Return an object or a list with its errors redacted; the same bytes if none has a secret."""
    begin = data.lstrip()[:1]
    if begin == b"[":
        items = [bytes(item) for item in _LIST.decode(data)]
        clean = [_redacted(item, redact) for item in items]
        return data if clean == items else msgspec.json.encode([Raw(item) for item in clean])
    if begin != b"{":
        return data
    fields = _OBJECT.decode(data)
    if _IS_ERROR in (fields.get("type"), fields.get("object")):
        return redact_text(data, redact)
    changes: dict[str, Raw] = {}
    for name in fields.keys() & _CLEANED.keys():
        value = bytes(fields[name])
        clean_value = _CLEANED[name](value, redact)
        if clean_value != value:
            changes[name] = Raw(clean_value)
    return msgspec.json.encode(fields | changes) if changes else data


# Fields that are an error, or may have one inside.
_CLEANED: Final[dict[str, Callable[[bytes, Redact], bytes]]] = {
    "error": redact_text,
    "response": _redacted,
    "choices": _redacted,
}
