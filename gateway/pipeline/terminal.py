"""Finds, in what a Responses client is about to be told, the response that it ends with."""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import DragomanError
from adapters.json_text import DECODE_ERRORS
from adapters.responses import wire as frames
from adapters.sse import parse_event
from adapters.wire.error_body import to_error
from adapters.wire.json_object import MISSING, read_body


class _Event(Struct):
    type: str = ""
    response: Raw = MISSING
    sequence_number: int = 0


_EVENT: Final = msgspec.json.Decoder(_Event)
_LAST: Final = frozenset(
    ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
)
# What stands between two events.
_BETWEEN: Final = b"\n\n"


def last_response(piece: bytes) -> Raw | None:
    """Give the response of the last event in a piece of a stream, which is whole events."""
    _, event = _last(piece)
    return event.response if event.type in _LAST and event.response else None


def failed_instead(piece: bytes, problem: DragomanError) -> bytes:
    """Tell, in place of the end of a stream, that what it ends could not be kept."""
    place, event = _last(piece)
    error = to_error(problem)
    number = event.sequence_number
    response = read_body(bytes(event.response)).encode_with(
        status="failed", error={"code": "server_error", "message": error.message}
    )
    return b"".join(
        [
            piece[:place],
            frames.frame("error", frames.error_fields(error), number),
            frames.frame("response.failed", {"response": Raw(response)}, number + 1),
            frames.DONE,
        ]
    )


def _last(piece: bytes) -> tuple[int, _Event]:
    """Find the last event, from the end on: a piece may hold thousands. Give where it begins."""
    end = len(piece)
    while end > 0:
        cut = piece.rfind(_BETWEEN, 0, end - len(_BETWEEN))
        place = 0 if cut < 0 else cut + len(_BETWEEN)
        frame = parse_event(piece[place:end])
        if frame is not None and frame.data.startswith(b"{"):
            return place, _read(frame.data)
        end = place
    return 0, _Event()


def _read(data: bytes) -> _Event:
    """Read an event; one that is passed on may say anything."""
    try:
        return _EVENT.decode(data)
    except DECODE_ERRORS:
        return _Event()
