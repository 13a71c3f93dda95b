"""The error envelope, which all three dialects share over HTTP: `{"error": {message, type, …}}`.

Reading is for whatever a backend or a proxy before it may answer: the envelope, a bare string, a
`detail`, a list of complaints, a stream with one error in it, a page of HTML, nothing at all.
"""

import html
import re

import msgspec
from msgspec import Raw

from adapters.errors import DragomanError, InvalidReplyError, InvalidRequestError
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.sse import Decoder
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
_TOO_MANY = 429
_BAD_REQUEST = 400

# How servers say that the conversation no longer fits. Clients compact or stop on the one code
# `context_length_exceeded`, so every wording has to become it (P161).
_OVERFLOW = re.compile(
    r"exceed_context_size|context_length_exceeded|maximum context|prompt is too long"
    r"|too many (input )?tokens|input is too long"
    r"|exceed\w*\b.{0,80}\bcontext[ _-](length|size|window)"
    r"|context[ _-](length|size|window)\b.{0,80}\b(exceed|too (long|large|small))",
    re.IGNORECASE | re.DOTALL,
)
CONTEXT_OVERFLOW = "context_length_exceeded"

# A page of HTML or a stack trace says little after its first lines.
_TEXT_LIMIT = 1000
_INVISIBLE = re.compile(r"<(style|script|head)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_RAW = msgspec.json.Decoder(Raw)
# The names under which servers say what is wrong, the most telling first.
_SENTENCES = ("message", "msg", "detail", "error", "errors", "title")


# Reading


def read_error(status: int | None, body: bytes) -> Error:
    """Read what came with an error status, whatever it is."""
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
    return Error(_sentence(inner) or _nothing(status), _type(status), status=status)


def _read_text(body: bytes, status: int | None) -> Error:
    """Read a body that is not JSON: a stream with one error in it, a page, a line of text."""
    frames = Decoder().feed(body + b"\n\n")
    if frames:
        try:
            return _read_json(frames[0].data, status)
        except (*DECODE_ERRORS, InvalidRequestError):
            body = frames[0].data
    visible = _INVISIBLE.sub(" ", body.decode("utf-8", "replace"))
    text = " ".join(html.unescape(visible).split())[:_TEXT_LIMIT]
    return Error(text or _nothing(status), _type(status), status=status)


def read_error_fields(fields: JsonObject, status: int | None) -> Error:
    """Read the error out of a JSON body: an envelope, or what stands for one."""
    raw = fields.raw("error")
    if raw is None:
        # No envelope: what else stands in such a body is not about the error.
        return msgspec.structs.replace(_read_flat(fields, status), extras=())
    if bytes(raw).startswith(b"{"):
        return read_error_value(raw, status)
    beside = fields.raw("message") or fields.raw("detail")
    if beside is None:
        return read_error_value(raw, status)
    # The sentence stands beside: then `error` is a code.
    message = _sentence(parse(beside))
    return Error(message, _type(status), string_or_raw_json(raw), status=status)


def read_error_value(raw: Raw, status: int | None) -> Error:
    """Read what stands under `error`: an object, as a rule, or just a sentence."""
    if bytes(raw).startswith(b"{"):
        return _read_flat(read_fields(raw, "error"), status)
    return Error(string_or_raw_json(raw), _type(status), status=status)


def is_error(raw: Raw) -> bool:
    """Tell whether a field `error` says that there is one; some servers always have the field."""
    return is_present(raw) and bytes(raw) not in (b'""', b"{}", b"false", b"[]", b"0")


def _read_flat(fields: JsonObject, status: int | None) -> Error:
    sentences = (fields.raw(name) for name in _SENTENCES)
    message = next((_sentence(parse(raw)) for raw in sentences if raw), "")
    code = fields.raw("code")
    number = _status_code(code)
    # Some servers repeat the status as the code, as a number: it says nothing more.
    status = status or number
    kind = fields.raw("type")
    said = kind is not None and bytes(kind).startswith(b'"')
    fields.raw("object")
    return Error(
        message=message or _nothing(status),
        type=string_or_raw_json(kind) if said else _type(status),
        code=None if code is None or not bytes(code).startswith(b'"') else string_or_raw_json(code),
        param=string_or_raw_json(fields.raw("param")) or None,
        status=status,
        extras=unread_fields(fields, "completions"),
    )


def _status_code(code: Raw | None) -> int | None:
    text = "" if code is None else bytes(code).decode()
    return int(text) if re.fullmatch(r"[45]\d\d", text) else None


def _sentence(value: Json) -> str:
    """Make a sentence of what a server says is wrong."""
    if isinstance(value, list):
        return "; ".join(_sentence(one) for one in value)
    if isinstance(value, dict):
        named = [value[name] for name in _SENTENCES if value.get(name)]
        sentence = _sentence(named[0]) if named else msgspec.json.encode(value).decode()
        place = value.get("loc")
        if not isinstance(place, list):
            return sentence
        return f"{'.'.join(str(one) for one in place if one != 'body')}: {sentence}"
    return "" if value is None else str(value)


def _nothing(status: int | None) -> str:
    return f"the backend answered with status {status}" if status else "the backend failed"


def _type(status: int | None) -> str:
    return _TYPES.get(status or 500, "server_error")


def normalize_context_overflow(error: Error) -> Error:
    """Give a context overflow the one code that clients know."""
    if error.code == CONTEXT_OVERFLOW or not _OVERFLOW.search(f"{error.type} {error.message}"):
        return error
    if error.status is not None and error.status not in (400, 413, 422, 500):
        return error
    return msgspec.structs.replace(error, code=CONTEXT_OVERFLOW, type="invalid_request_error")


def infer_status(error: Error) -> Error:
    """Give an error that came without one the HTTP status that its code stands for."""
    error = normalize_context_overflow(error)
    if error.status is not None:
        return error
    code = error.code or ""
    if "rate_limit" in code or "rate_limit" in error.type:
        return msgspec.structs.replace(error, status=_TOO_MANY, type="rate_limit_error")
    if code in ("invalid_prompt", CONTEXT_OVERFLOW) or "image" in code:
        return msgspec.structs.replace(error, status=_BAD_REQUEST, type="invalid_request_error")
    return msgspec.structs.replace(error, status=500)


# Writing


def to_error(problem: DragomanError) -> Error:
    """Say one of our own errors as any dialect can; a broken reply names no parameter."""
    param = None if isinstance(problem, InvalidReplyError) else problem.path
    return Error(str(problem), problem.kind, problem.code, param, status=problem.status)


def write_error(error: Error) -> bytes:
    """Write the envelope."""
    return msgspec.json.encode({"error": error_body(error)})


def error_body(error: Error) -> dict[str, object]:
    """Give the inside of the envelope, in the order in which OpenAI writes it."""
    inside: dict[str, object] = {
        "message": error.message,
        "type": error.type,
        "param": error.param,
        "code": error.code,
    }
    # The envelope is the same in every dialect, and so is what servers add to it.
    return inside | {extra.name: extra.value for extra in error.extras}
