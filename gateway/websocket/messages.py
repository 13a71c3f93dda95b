"""The messages that clients send over a WebSocket, and the error events sent to them."""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError, RequestBody, UnsupportedRequestError
from adapters.errors import invalid_choice, missing_field
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.wire.error_body import error_object
from adapters.wire.json_object import NULL, JsonObject, read_body
from gateway.errors import InvalidStreamIdError

STEER: Final = "response.steer"
_KINDS: Final = ("response.create", STEER)
_STREAM_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
# An error message contains at most this many characters of an unknown type.
_MAX_SHOWN: Final = 100


class _CacheOptions(Struct):
    prewarm: bool | None = None


_CACHE_OPTIONS: Final = msgspec.json.Decoder(_CacheOptions)
_ENCODER: Final = msgspec.json.Encoder()


class Message(Struct, frozen=True):
    """One message of a client."""

    kind: str
    # None for the unnamed stream.
    stream_id: str | None
    fields: JsonObject
    size: int


class CreateMessage(Struct, frozen=True):
    """A message that requests a response."""

    stream_id: str | None
    # The equivalent body of an HTTP request.
    body: RequestBody
    size: int
    previous_response_id: str | None
    # False if the request is only saved, for a later turn that continues it.
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
    """Read a request; raise `UnsupportedRequestError` for a field that only HTTP supports."""
    fields = message.fields
    _reject_transport_fields(fields)
    generate = fields.boolean("generate") is not False
    previous = fields.peek("previous_response_id")
    body = RequestBody(fields.take_all() | {"stream": Raw(b"true")})
    generate = generate and not _prewarms(body.fields.get("prompt_cache_options", NULL))
    return CreateMessage(message.stream_id, body, message.size, previous, generate)


def _reject_transport_fields(fields: JsonObject) -> None:
    """Reject fields that control how a reply is sent over HTTP.

    Open Responses forbids all three fields here. `stream: true` and `background: false` are
    accepted, because they change nothing, and Codex always sends the former.
    """
    if fields.boolean("stream") is False:
        raise UnsupportedRequestError("stream", "false is not supported over a WebSocket")
    if fields.raw("stream_options") is not None:
        raise UnsupportedRequestError("stream_options", "not supported over a WebSocket")
    if fields.boolean("background"):
        raise UnsupportedRequestError("background", "not supported over a WebSocket")


def _prewarms(cache_options: Raw) -> bool:
    """Whether a request only fills the prompt cache; if so, `generate` is ignored."""
    try:
        return cache_options != NULL and _CACHE_OPTIONS.decode(cache_options).prewarm is True
    except DECODE_ERRORS:
        # The reader of the request reports the invalid field.
        return False


def write_steer_failed(fields: JsonObject) -> bytes:
    """Return the event that refuses a `response.steer` and contains its input."""
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


def write_error_event(
    status: int, error: Error, stream_id: str | None, headers: dict[str, str] | None = None
) -> bytes:
    """Return the event for an error, with the type as its code if it has none."""
    body = error_object(error) | {"code": error.code or error.type}
    if headers:
        body["headers"] = headers
    event: dict[str, object] = {"type": "error", "status": status, "error": body}
    return with_stream_id(_ENCODER.encode(event), stream_id)


def with_stream_id(event: bytes, stream_id: str | None) -> bytes:
    """Add a stream id to an event without changing its other bytes."""
    if stream_id is None:
        return event
    # A valid stream id contains no characters that need escaping.
    return b'%b,"stream_id":"%b"}' % (event.rstrip()[:-1], stream_id.encode())
