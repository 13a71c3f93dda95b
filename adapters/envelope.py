"""The error envelope, which all three dialects share over HTTP: `{"error": {message, type, …}}`.

Reading is for whatever a backend or a proxy before it may answer: the envelope, a bare string, a
`detail`, a page of HTML, nothing at all.
"""

import re

import msgspec
from msgspec import Raw

from adapters.conversation import Error, Extras
from adapters.errors import DragomanError, InvalidInput
from adapters.extras import left_over
from adapters.fields import Fields, read_body, read_fields, text_or_json

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

# How servers say that the conversation no longer fits. Clients compact or stop on the one code
# `context_length_exceeded`, so every wording has to become it (P161).
_OVERFLOW = re.compile(
    r"context[ _-](length|size|window)|exceed_context_size|maximum context|prompt is too long"
    r"|too many (input )?tokens|input is too long",
    re.IGNORECASE,
)
CONTEXT_OVERFLOW = "context_length_exceeded"

# A page of HTML or a stack trace says little after its first lines.
_TEXT_LIMIT = 1000


def read_error(status: int, body: bytes) -> Error:
    """Read what came with an error status, whatever it is."""
    try:
        error = read_error_fields(read_body(body), status)
    except InvalidInput:
        error = Error(_plain(body, status), _type(status), status=status)
    return normalized(error)


def read_error_fields(fields: Fields, status: int | None) -> Error:
    """Read the error out of a JSON body: an envelope, or what stands for one."""
    raw = fields.raw("error")
    return _read_flat(fields, status) if raw is None else read_error_value(raw, status)


def read_error_value(raw: Raw, status: int | None) -> Error:
    """Read what stands under `error`: an object, as a rule, or just a sentence."""
    if bytes(raw).startswith(b"{"):
        return _read_flat(read_fields(raw, "error"), status)
    return Error(text_or_json(raw), _type(status), status=status)


def _read_flat(fields: Fields, status: int | None) -> Error:
    message = fields.raw("message") or fields.raw("detail") or fields.raw("errors")
    kind = fields.raw("type")
    code = fields.raw("code")
    return Error(
        message=text_or_json(message) or f"the backend answered with status {status}",
        type=text_or_json(kind) or _type(status),
        # llama-server and vLLM repeat the status here, as a number: it says nothing more.
        code=None if code is None or not bytes(code).startswith(b'"') else text_or_json(code),
        param=text_or_json(fields.raw("param")) or None,
        status=status,
        extras=_unknown(fields),
    )


def _unknown(fields: Fields) -> Extras:
    fields.raw("object")
    return left_over(fields, "completions")


def _plain(body: bytes, status: int) -> str:
    """Make a sentence of a body that is not JSON."""
    text = re.sub(r"<[^>]*>|\s+", " ", body.decode("utf-8", "replace"))
    text = " ".join(text.split())[:_TEXT_LIMIT]
    return text or f"the backend answered with status {status} and no body"


def _type(status: int | None) -> str:
    return _TYPES.get(status or 500, "server_error")


def normalized(error: Error) -> Error:
    """Give a context overflow the one code that clients know."""
    if error.code == CONTEXT_OVERFLOW or not _OVERFLOW.search(f"{error.type} {error.message}"):
        return error
    if error.status is not None and error.status not in (400, 413, 422, 500):
        return error
    return msgspec.structs.replace(error, code=CONTEXT_OVERFLOW, type="invalid_request_error")


def error_of(problem: DragomanError) -> Error:
    """Say one of our own errors as any dialect can."""
    return Error(str(problem), problem.kind, problem.code, problem.path, status=problem.status)


class Envelope(msgspec.Struct):
    """The inside of the envelope, in the order in which OpenAI writes it."""

    message: str
    type: str
    param: str | None
    code: str | None


def write_error(error: Error) -> bytes:
    """Write the envelope."""
    return msgspec.json.encode({"error": envelope(error)})


def envelope(error: Error) -> Envelope:
    """Give the inside of the envelope."""
    return Envelope(error.message, error.type, error.param, error.code)
