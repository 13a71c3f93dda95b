"""The messages that clients send over a WebSocket, and the error events that they get."""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import DragomanError, InvalidRequestError, RequestBody, UnsupportedRequestError
from adapters.errors import invalid_choice, missing_field
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.wire.error_body import error_object, to_error
from adapters.wire.json_object import NULL, JsonObject, read_body
from gateway.errors import InvalidStreamIdError

_CREATE: Final = "response.create"
STEER: Final = "response.steer"
_KINDS: Final = (_CREATE, STEER)
_STREAM_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
# Error messages repeat at most this many characters of an unknown type.
_MAX_SHOWN: Final = 100


class _CacheOptions(Struct):
    prewarm: bool | None = None


_CACHE_OPTIONS: Final = msgspec.json.Decoder(_CacheOptions)
_ENCODER: Final = msgspec.json.Encoder()


class Message(Struct, frozen=True):
    """One message of a client."""

    kind: str
    # None for the stream without a name.
    stream_id: str | None
    fields: JsonObject
    size: int


class CreateMessage(Struct, frozen=True):
    """A request for a response."""

    stream_id: str | None
    # The request as it would be posted.
    body: RequestBody
    size: int
    previous_response_id: str | None
    # False if the turn is only prepared, for a later one that continues it.
    generate: bool


def read_message(data: bytes) -> Message:
    """Read a message; raise `InvalidRequestError` if it is invalid."""
    fields = read_body(data)
    kind = fields.string("type")
    if kind not in _KINDS:
        raise invalid_choice("type", kind[:_MAX_SHOWN], _KINDS) if kind else missing_field("type")
    return Message(kind, _read_stream_id(fields), fields, len(data))


def _read_stream_id(fields: JsonObject) -> str | None:
    try:
        stream_id = fields.string("stream_id")
    except InvalidRequestError as error:
        raise InvalidStreamIdError("stream_id", error.message) from None
    if stream_id is not None and not _STREAM_ID.fullmatch(stream_id):
        message = "must have 1 to 256 of the characters A-Z, a-z, 0-9, _, . and -"
        raise InvalidStreamIdError("stream_id", message)
    return stream_id


def read_create(message: Message) -> CreateMessage:
    """Read a request; raise `UnsupportedRequestError` for what a WebSocket does not do."""
    fields = message.fields
    _reject_transport_fields(fields)
    generate = fields.boolean("generate") is not False
    previous = fields.peek("previous_response_id")
    body = RequestBody(fields.take_all() | {"stream": Raw(b"true")})
    if _prewarms(body.fields.get("prompt_cache_options", NULL)):
        generate = False
    return CreateMessage(message.stream_id, body, message.size, previous, generate)


def _reject_transport_fields(fields: JsonObject) -> None:
    """Reject fields that say how a reply is sent over HTTP.

    Open Responses forbids all three here. But `stream: true` asks for what a WebSocket does, and
    Codex always sends it; `background: false` asks for nothing.
    """
    if fields.boolean("stream") is False:
        raise UnsupportedRequestError("stream", "false is not supported over a WebSocket")
    if fields.raw("stream_options") is not None:
        raise UnsupportedRequestError("stream_options", "not supported over a WebSocket")
    if fields.boolean("background"):
        message = "not supported over a WebSocket"
        raise UnsupportedRequestError("background", message)


def _prewarms(cache_options: Raw) -> bool:
    """Whether only the cache is to be warmed, which overrides `generate`."""
    try:
        return cache_options != NULL and _CACHE_OPTIONS.decode(cache_options).prewarm is True
    except DECODE_ERRORS:
        # The reader of the request reports what is wrong.
        return False


def write_steer_failed(fields: JsonObject) -> bytes:
    """Return the event that gives the input of `response.steer` back: no backend can be steered."""
    previous, items = fields.string("previous_response_id"), fields.raw("input")
    if previous is None:
        raise missing_field("previous_response_id")
    if items is None:
        raise missing_field("input")
    return _ENCODER.encode(
        {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "error": {
                "type": "invalid_request_error",
                "code": "steering_not_supported",
                "message": "Steering is not supported; send the input with the next turn.",
            },
            "steer": {"previous_response_id": previous, "input": Raw(items)},
        }
    )


def write_own_error(error: DragomanError, stream_id: str | None) -> bytes:
    """Return the event for one of our own errors."""
    return write_error_event(error.status, to_error(error), stream_id)


def write_error_event(
    status: int, error: Error, stream_id: str | None, headers: dict[str, str] | None = None
) -> bytes:
    """Return the event for an error; Open Responses requires that it has a code."""
    body = error_object(error) | {"code": error.code or error.type}
    if headers:
        body["headers"] = headers
    event: dict[str, object] = {"type": "error", "status": status, "error": body}
    return with_stream_id(_ENCODER.encode(event), stream_id)


def with_stream_id(event: bytes, stream_id: str | None) -> bytes:
    """Add the id of its stream to an event; the rest stays byte for byte."""
    if stream_id is None:
        return event
    # Its characters need no escaping.
    return b'%b,"stream_id":"%b"}' % (event.rstrip()[:-1], stream_id.encode())
