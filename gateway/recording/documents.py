"""Requests, replies and streams of any dialect, read for comparison."""

from typing import Literal

import msgspec
from msgspec import Struct, structs

import adapters
from adapters import DIALECTS, EMPTY_REQUEST, Dialect, InvalidRequestError
from adapters.comparison import Difference, compare_json
from adapters.conformance import Json
from adapters.dialect import ReplyContext, ReplyOptions
from adapters.ids import deterministic_ids
from adapters.ir.accumulator import accumulate
from adapters.ir.types import Reply
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.sse import BYTE_ORDER_MARK, Decoder, is_stream

Kind = Literal["request", "reply", "stream", "other"]

# Reasoning in each form that a dialect has, so that none is left out of a comparison.
_REPLY_OPTIONS = ReplyOptions(reasoning_summary="always", reasoning_field="reasoning_content")


class Document(Struct, frozen=True):
    """A body with its kind, and its dialect, which other JSON such as an error does not have."""

    data: bytes
    kind: Kind
    dialect: Dialect | None


def read_document(data: bytes, dialect: str | None = None) -> Document:
    """Return a body with its kind and its dialect, which is found out unless it is given.

    Raises `InvalidRequestError` if the body is neither a stream nor JSON.
    """
    found = _detect(data)
    if dialect is None or found.kind == "other":
        return found
    return structs.replace(found, dialect=DIALECTS[dialect])


def _detect(data: bytes) -> Document:
    data = data.removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        raise InvalidRequestError(None, "the body is empty")
    if is_stream(data):
        return Document(data, "stream", _reply_dialect(first_event(data), data))
    value = decode_json(data)
    if not isinstance(value, dict):
        return Document(data, "other", None)
    if value.get("object") == "response" or "choices" in value:
        return Document(data, "reply", _reply_dialect(value, data))
    dialect = _request_dialect(value)
    return Document(data, "other" if dialect is None else "request", dialect)


def decode_json(data: bytes) -> Json:
    """Decode JSON; raise `InvalidRequestError` if it is invalid."""
    try:
        value: Json = msgspec.json.decode(data)
    except DECODE_ERRORS as error:
        raise InvalidRequestError(None, f"the body is neither a stream nor JSON: {error}") from None
    return value


def first_event(data: bytes) -> Json:
    """Return the JSON of the first event in a stream; None if there is none."""
    decoder = Decoder(limit=len(data) + 1)
    for frame in (*decoder.feed(data), *decoder.flush()):
        try:
            value: Json = msgspec.json.decode(frame.data)
        except DECODE_ERRORS:
            continue
        return value
    return None


def _reply_dialect(value: Json, data: bytes) -> Dialect:
    """Return the dialect of a reply or of a stream that begins with a value."""
    if isinstance(value, dict) and (value.get("object") == "response" or "type" in value):
        return DIALECTS["responses"]
    calls_function = b'"function_call":{' in data.replace(b" ", b"")
    return DIALECTS["legacy" if calls_function else "chat"]


def _request_dialect(value: dict[str, Json]) -> Dialect | None:
    """Return the dialect of a request; None for other JSON."""
    request = adapters.parse_body(msgspec.json.encode(value))
    possible = (one for one in DIALECTS.values() if one.names["items"] in value)
    return next((one for one in possible if one.matches(request)), None)


# Comparison


def compare_documents(left: Document, right: Document) -> list[Difference]:
    """Return the differences in meaning between two bodies of any kind, form and dialect.

    If the dialects differ, the right body is translated. Raises `DragomanError` if that fails, or
    if one is a request and the other a reply.
    """
    if "request" in {left.kind, right.kind} and left.kind != right.kind:
        raise InvalidRequestError(None, "a request cannot be compared with a reply")
    whole = left.kind == right.kind != "stream"
    if left.dialect is None or right.dialect is None or (whole and left.dialect is right.dialect):
        return compare_json(_plain_value(left), _plain_value(right))
    if left.kind == "request":
        translated = adapters.translate_request(
            right.data, client=right.dialect, backend=left.dialect
        )
        return compare_json(decode_json(left.data), decode_json(translated.body))
    return compare_json(_whole_value(left, left.dialect), _whole_value(right, left.dialect))


def _plain_value(document: Document) -> Json:
    if document.kind == "stream" and document.dialect is not None:
        return _whole_value(document, document.dialect)
    return decode_json(document.data)


def _whole_value(document: Document, dialect: Dialect) -> Json:
    """Return a reply or a stream as a whole reply of a dialect."""
    reply = read_reply(document)
    written = dialect.write_reply(reply, _context())
    # Not every dialect has a reply with an error, but the error of a stream must be compared, too.
    error = {} if reply.error is None else {"error": reply.error}
    return decode_json(msgspec.json.encode({**written, **error}))


def read_reply(document: Document) -> Reply:
    """Read a whole reply or a stream; the error of an invalid stream is that of the reply."""
    dialect = document.dialect or DIALECTS["chat"]
    if document.kind != "stream":
        return dialect.read_reply(document.data, _context())
    decoder, reader = Decoder(limit=len(document.data) + 1), dialect.read_stream(_context())
    events = [
        event
        for frame in (*decoder.feed(document.data), *decoder.flush())
        for event in reader.feed(frame)
    ]
    return accumulate([*events, *reader.flush()])


def encode_reply(reply: Reply, dialect: Dialect) -> bytes:
    """Return a whole reply of a dialect."""
    return msgspec.json.encode(dialect.write_reply(reply, _context()))


def _context() -> ReplyContext:
    # Losses are of no interest here: a lost value is a difference.
    return ReplyContext(EMPTY_REQUEST, deterministic_ids(), Losses(None), _REPLY_OPTIONS)
