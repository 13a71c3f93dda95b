"""The events of a response as they are kept, and as they are told."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.wire.error_body import read_error_value
from adapters.wire.json_object import MISSING, is_present, read_body
from gateway.store import Event

# How a stream ends. There is none for a response that was cancelled: neither the SDK nor Open
# Responses knows a `response.cancelled`, and OpenAI ends such streams with `response.failed`.
TERMINAL: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
# How it begins.
BEGINNING: Final = frozenset(("response.created", "response.queued", "response.in_progress"))
ERROR: Final = "error"


class EventHead(Struct):
    """What is looked at of an event."""

    type: str = ""
    response: Raw = MISSING
    error: Raw = MISSING


_SEEN: Final = msgspec.json.Decoder(EventHead)
_ENCODER: Final = msgspec.json.Encoder()


def peek_event(body: bytes | Raw) -> EventHead | None:
    """Look at an event; None if it is none."""
    try:
        return _SEEN.decode(body)
    except DECODE_ERRORS:
        return None


def event(kind: str, number: int, response: bytes | Raw) -> Event:
    """Make an event that tells a response."""
    told = {"type": kind, "response": Raw(response), "sequence_number": number}
    return Event(number, Raw(_ENCODER.encode(told)))


def numbered(bodies: Iterable[bytes], number: int) -> Iterator[Event]:
    """Count events on from a number, whatever numbers they had."""
    for place, body in enumerate(bodies, number):
        yield Event(place, Raw(read_body(body).encode_with(sequence_number=place)))


def frame(body: Raw) -> bytes:
    """Tell an event."""
    seen = peek_event(body)
    kind = "" if seen is None else seen.type
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), bytes(body))


def error_in(body: bytes) -> Error | None:
    """Read what an event says of a failure: in the event, in an object of its own, or in both."""
    seen = peek_event(body)
    if seen is None:
        return None
    if seen.type == ERROR:
        return read_error_value(seen.error if is_present(seen.error) else Raw(body), None)
    told = peek_event(seen.response)
    return (
        None if told is None or not is_present(told.error) else read_error_value(told.error, None)
    )


class _Outcome(Struct):
    status: str = ""
    output: list[Raw] = []
    usage: Raw = MISSING


_OUTCOME: Final = msgspec.json.Decoder(_Outcome)


def is_bare(response: Raw) -> bool:
    """Tell whether a failed response says nothing of what there was of it."""
    try:
        outcome = _OUTCOME.decode(response)
    except DECODE_ERRORS:
        return False
    return outcome.status == "failed" and not outcome.output and not is_present(outcome.usage)
