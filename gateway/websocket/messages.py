"""Reads what clients say on a socket."""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError, UnsupportedRequestError
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import JsonObject, read_body
from gateway.errors import InvalidStreamIdError

CREATE: Final = "response.create"
STEER: Final = "response.steer"
_KINDS: Final = (CREATE, STEER)
_STREAM_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
# So much of an unknown word is repeated to whoever said it.
_SHOWN: Final = 100


class _CacheOptions(Struct):
    prewarm: bool | None = None


_OPTIONS: Final = msgspec.json.Decoder(_CacheOptions)


class Message(Struct, frozen=True):
    """One message: what it wants, in which lane, and what else it says."""

    kind: str
    # None: the one that has no name.
    lane: str | None
    fields: JsonObject
    # How many bytes it was.
    size: int


class CreateMessage(Struct, frozen=True):
    """A response that is to be made."""

    lane: str | None
    # Its body, without what only sockets know and what is kept here beside it.
    rest: JsonObject
    size: int
    previous: str | None
    model: str | None
    cache_options: Raw | None
    # False: the turn is only prepared, and a later one begins where it ends.
    generates: bool

    def body(self, model: str | None = None) -> bytes:
        """Give the request as it would be posted; whoever names no model may be given one."""
        said: dict[str, object] = {
            "model": self.model or model,
            "previous_response_id": self.previous,
            "prompt_cache_options": self.cache_options,
        }
        named = {name: value for name, value in said.items() if value is not None}
        return self.rest.encode_with(**named, stream=True)


def read_message(data: bytes) -> Message:
    """Read a message; raise `InvalidInput` if it is none."""
    fields = read_body(data)
    kind = fields.string("type")
    if kind not in _KINDS:
        said = "it is missing" if kind is None else f"{kind[:_SHOWN]!r} is not known here"
        raise InvalidRequestError("type", f"{said}; a message is one of {', '.join(_KINDS)}")
    return Message(kind, _read_lane(fields), fields, len(data))


def _read_lane(fields: JsonObject) -> str | None:
    try:
        lane = fields.string("stream_id")
    except InvalidRequestError as problem:
        raise InvalidStreamIdError("stream_id", problem.message) from None
    if lane is not None and not _STREAM_ID.fullmatch(lane):
        why = "it has to be 1 to 256 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`"
        raise InvalidStreamIdError("stream_id", why)
    return lane


def read_create(message: Message) -> CreateMessage:
    """Read what is to be made; raise `Refused` for what a socket does not do."""
    fields = message.fields
    _refuse_transport(fields)
    cache_options = fields.raw("prompt_cache_options")
    prewarms = cache_options is not None and _prewarms(cache_options)
    return CreateMessage(
        lane=message.lane,
        rest=fields,
        size=message.size,
        previous=fields.string("previous_response_id"),
        model=fields.string("model"),
        cache_options=cache_options,
        generates=fields.boolean("generate") is not False and not prewarms,
    )


def _refuse_transport(fields: JsonObject) -> None:
    """Refuse what says how an answer is carried over HTTP.

    Open Responses forbids all three fields here. `stream: true` asks for just what a socket does,
    and Codex always says it; a `background` that is false asks for nothing.
    """
    if fields.boolean("stream") is False:
        raise UnsupportedRequestError("stream", "over a WebSocket every answer is streamed")
    if fields.raw("stream_options") is not None:
        raise UnsupportedRequestError("stream_options", "it is not taken over a WebSocket")
    if fields.boolean("background"):
        raise UnsupportedRequestError(
            "background", "over a WebSocket nothing runs in the background"
        )


def _prewarms(options: Raw) -> bool:
    """Tell whether only the cache is to be warmed, which overrides `generate`."""
    try:
        return _OPTIONS.decode(options).prewarm is True
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return False


# Answers the wish to steer a response that is being made: no backend here can be steered.


_ENCODER: Final = msgspec.json.Encoder()


def steer_failed(fields: JsonObject) -> bytes:
    """Write the event that gives the input back; raise `InvalidInput` if there is none."""
    previous, given = fields.string("previous_response_id"), fields.raw("input")
    if previous is None:
        raise InvalidRequestError("previous_response_id", "it is missing")
    if given is None:
        raise InvalidRequestError("input", "it is missing")
    return _ENCODER.encode(
        {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "error": {
                "type": "invalid_request_error",
                "code": "steering_not_supported",
                "message": "Responses cannot be steered here; send the input with the next turn.",
            },
            "steer": {"previous_response_id": previous, "input": Raw(given)},
        }
    )
