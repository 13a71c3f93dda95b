"""Error bodies, which have the same form in all dialects: `{"error": {message, type, …}}`.

The reader accepts all forms that backends and their proxies send: this one, a string, a `detail`, a
list of errors, a stream with one error, an HTML page, or nothing.
"""

import html
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.errors import DragomanError, InvalidReplyError, InvalidRequestError
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.sse import Decoder, Frame
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import (
    Json,
    JsonObject,
    is_present,
    parse,
    read_fields,
    string_or_raw_json,
)

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
# Messages of servers that a conversation is too long. Clients compact a conversation or stop only
# after the code `context_length_exceeded` (https://github.com/anomalyco/opencode/issues/17748).
_OVERFLOW = re.compile(
    r"exceed_context_size|context_length_exceeded|maximum context|prompt is too long"
    r"|too many (input )?tokens|input is too long"
    r"|exceed\w*\b.{0,80}\bcontext[ _-](length|size|window)"
    r"|context[ _-](length|size|window)\b.{0,80}\b(exceed|too (long|large|small))",
    re.IGNORECASE | re.DOTALL,
)
CONTEXT_OVERFLOW = "context_length_exceeded"

# Longer texts, such as HTML pages and stack traces, are truncated.
_MAX_TEXT_LENGTH = 1000
_INVISIBLE = re.compile(r"<(style|script|head)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_RAW = msgspec.json.Decoder(Raw)
# The fields in which servers send the message, the most informative first.
_MESSAGE_FIELDS = ("message", "msg", "detail", "error", "errors", "title")


# Reading


def read_error(status: int | None, body: bytes) -> Error:
    """Read an error body of any form."""
    try:
        error = _read_json(body, status)
    except (*DECODE_ERRORS, InvalidRequestError):
        error = _read_text(body, status)
    return normalize_context_overflow(error)


def _read_json(body: bytes, status: int | None) -> Error:
    raw = _RAW.decode(body)
    body.decode()
    if bytes(raw).lstrip().startswith(b"{"):
        return read_error_fields(read_fields(raw), status)
    inner = parse(raw)
    if isinstance(inner, list) and inner and isinstance(inner[0], dict):
        return _read_json(msgspec.json.encode(inner[0]), status)
    return Error(_message(inner) or _default_message(status), _type(status), status=status)


def _read_text(body: bytes, status: int | None) -> Error:
    """Read a body that is not JSON: a stream with one error, an HTML page, or text."""
    frames = Decoder().feed(body + b"\n\n")
    if frames:
        try:
            return _read_json(frames[0].data, status)
        except (*DECODE_ERRORS, InvalidRequestError):
            body = frames[0].data
    visible = _INVISIBLE.sub(" ", body.decode("utf-8", "replace"))
    text = " ".join(html.unescape(visible).split())[:_MAX_TEXT_LENGTH]
    return Error(text or _default_message(status), _type(status), status=status)


def read_error_fields(fields: JsonObject, status: int | None) -> Error:
    """Read the error in a JSON object: its field `error` or, without it, the object itself."""
    raw = fields.raw("error")
    if raw is None:
        # Drop unknown fields, which may not belong to the error.
        return replace(_read_flat(fields, status), extras=())
    if not bytes(raw).startswith(b"{"):
        message = fields.raw("message") or fields.raw("detail")
        if message is not None:
            # If the message is beside `error`, `error` is a code.
            code = string_or_raw_json(raw)
            return Error(_message(parse(message)), _type(status), code, status=status)
    return read_error_value(raw, status)


def read_error_value(raw: Raw, status: int | None) -> Error:
    """Read the value of `error`: usually an object, sometimes a message."""
    if bytes(raw).startswith(b"{"):
        return _read_flat(read_fields(raw, "error"), status)
    return Error(string_or_raw_json(raw), _type(status), status=status)


def is_error(raw: Raw) -> bool:
    """Whether the value of `error` is an error; some servers always send an empty one."""
    return is_present(raw) and bytes(raw) not in (b'""', b"{}", b"false", b"[]", b"0")


def _read_flat(fields: JsonObject, status: int | None) -> Error:
    values = (fields.raw(name) for name in _MESSAGE_FIELDS)
    message = next((_message(parse(raw)) for raw in values if raw), "")
    code, kind = fields.raw("code"), fields.raw("type")
    if status is None and code is not None and re.fullmatch(rb"[45]\d\d", bytes(code)):
        # Some servers send the status as the code.
        status = int(bytes(code))
    has_type = kind is not None and bytes(kind).startswith(b'"')
    fields.raw("object")
    return Error(
        message=message or _default_message(status),
        type=string_or_raw_json(kind) if has_type else _type(status),
        code=None if code is None or not bytes(code).startswith(b'"') else string_or_raw_json(code),
        param=string_or_raw_json(fields.raw("param")) or None,
        status=status,
        extras=unread_fields(fields, "completions"),
    )


def _message(value: Json) -> str:
    """Return the message in a JSON value of any type."""
    if isinstance(value, list):
        return "; ".join(_message(one) for one in value)
    if isinstance(value, dict):
        messages = [value[name] for name in _MESSAGE_FIELDS if value.get(name)]
        message = _message(messages[0]) if messages else msgspec.json.encode(value).decode()
        location = value.get("loc")
        if not isinstance(location, list):
            return message
        return f"{'.'.join(str(name) for name in location if name != 'body')}: {message}"
    return "" if value is None else str(value)


def _default_message(status: int | None) -> str:
    return f"the backend returned status {status}" if status else "the backend failed"


def _type(status: int | None) -> str:
    return _TYPES.get(status or 500, "server_error")


def normalize_context_overflow(error: Error) -> Error:
    """Set the code that clients recognize if a conversation is too long."""
    if error.code == CONTEXT_OVERFLOW or not _OVERFLOW.search(f"{error.type} {error.message}"):
        return error
    if error.status is not None and error.status not in (400, 413, 422, 500):
        return error
    return replace(error, code=CONTEXT_OVERFLOW, type="invalid_request_error")


def infer_status(error: Error) -> Error:
    """Set the HTTP status of an error without one to a status that fits its code."""
    error = normalize_context_overflow(error)
    if error.status is not None:
        return error
    code = error.code or ""
    if "rate_limit" in code or "rate_limit" in error.type:
        return replace(error, status=429, type="rate_limit_error")
    if code in ("invalid_prompt", CONTEXT_OVERFLOW) or "image" in code:
        return replace(error, status=400, type="invalid_request_error")
    return replace(error, status=500)


# Writing


def to_error(error: DragomanError) -> Error:
    """Convert an exception to the IR; its path is a parameter, unless it is a path in a reply."""
    param = None if isinstance(error, InvalidReplyError) else error.path
    return Error(str(error), error.kind, error.code, param, status=error.status)


def write_error(error: Error) -> bytes:
    """Write an error body."""
    return msgspec.json.encode({"error": error_object(error)})


def error_object(error: Error) -> dict[str, object]:
    """Return the value of `error`, with its fields in OpenAI's order."""
    return {
        "message": error.message,
        "type": error.type,
        "param": error.param,
        "code": error.code,
        # All dialects have the same form of errors, so extra fields of any family are valid.
        **{extra.name: extra.value for extra in error.extras},
    }


# Redaction of secrets: only in errors, because the output of a model must stay unchanged

# A function that replaces the secrets in a text.
Redact = Callable[[str], str]
# The replacement of a secret.
REDACTED = "[redacted]"

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ERROR = b'"error"'
_IS_ERROR = Raw(_ERROR)
# Fields of errors that some servers send without a type and with status 200, and fields of replies.
_BARE_ERROR_FIELDS = frozenset(("detail", "errors"))
_REPLY_FIELDS = frozenset(("choices", "delta", "object", "output"))


def redact_text(data: bytes, redact: Redact | None) -> bytes:
    """Redact the whole of a text, such as the body of an error."""
    if redact is None:
        return data
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def redact_errors(data: bytes, redact: Redact | None) -> bytes:
    """Redact only the errors in JSON of a backend."""
    if redact is None or not _may_have_error(data):
        return data
    try:
        return _redacted(data, redact)
    except DECODE_ERRORS:
        # Invalid JSON is not passed on to the client.
        return data


def _may_have_error(data: bytes) -> bool:
    """Whether JSON names a field of an error; in a string, the quotes would be escaped."""
    return _ERROR in data or b'"detail"' in data or b'"errors"' in data or b'"message"' in data


def redact_frame(frame: Frame, redact: Redact | None) -> Frame:
    """Redact the errors in one event of a stream; return the same frame if there are none."""
    clean = redact_text if frame.name == b"error" else redact_errors
    data = clean(frame.data, redact)
    return frame if data == frame.data else replace(frame, data=data)


def _redacted(data: bytes, redact: Redact) -> bytes:
    """Redact the errors in an object or a list; return the same bytes if no secret is found."""
    begin = data.lstrip()[:1]
    if begin == b"[":
        items = [bytes(item) for item in _LIST.decode(data)]
        clean = [_redacted(item, redact) for item in items]
        return data if clean == items else msgspec.json.encode([Raw(item) for item in clean])
    if begin != b"{":
        return data
    fields = _OBJECT.decode(data)
    if _IS_ERROR in (fields.get("type"), fields.get("object")) or _is_bare_error(fields):
        return redact_text(data, redact)
    changes: dict[str, Raw] = {}
    for name in fields.keys() & _CLEANED.keys():
        value = bytes(fields[name])
        clean_value = _CLEANED[name](value, redact)
        if clean_value != value:
            changes[name] = Raw(clean_value)
    return msgspec.json.encode(fields | changes) if changes else data


def _is_bare_error(fields: Mapping[str, Raw]) -> bool:
    """Whether an object is an error of a server that does not mark its errors."""
    if fields.keys() & _REPLY_FIELDS:
        return False
    # The message of a choice is an object or null, never a string.
    has_text = bytes(fields.get("message", b"")).startswith(b'"')
    return has_text or bool(fields.keys() & _BARE_ERROR_FIELDS)


# Fields that are an error, or that may contain one.
_CLEANED: Final[dict[str, Callable[[bytes, Redact], bytes]]] = {
    "error": redact_text,
    "response": _redacted,
    "choices": _redacted,
}
