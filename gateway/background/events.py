"""The events of a response as they are kept, and as they are told."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.conversation import Error
from adapters.envelope import read_error_value
from adapters.fields import ABSENT, is_said, read_body
from adapters.jsontext import UNDECODABLE
from gateway.state import Event

# How a stream ends. There is none for a response that was cancelled: neither the SDK nor Open
# Responses knows a `response.cancelled`, and OpenAI ends such streams with `response.failed`.
TERMINAL: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
# How it begins.
BEGINNING: Final = frozenset(("response.created", "response.queued", "response.in_progress"))
ERROR: Final = "error"


class Seen(Struct):
    """What is looked at of an event."""

    type: str = ""
    response: Raw = ABSENT
    error: Raw = ABSENT


_SEEN: Final = msgspec.json.Decoder(Seen)
_ENCODER: Final = msgspec.json.Encoder()


def look(body: bytes | Raw) -> Seen | None:
    """Look at an event; None if it is none."""
    try:
        return _SEEN.decode(body)
    except UNDECODABLE:
        return None


def event(kind: str, number: int, response: bytes | Raw) -> Event:
    """Make an event that tells a response."""
    told = {"type": kind, "response": Raw(response), "sequence_number": number}
    return Event(number, Raw(_ENCODER.encode(told)))


def numbered(bodies: Iterable[bytes], number: int) -> Iterator[Event]:
    """Count events on from a number, whatever numbers they had."""
    for place, body in enumerate(bodies, number):
        yield Event(place, Raw(read_body(body).spelled(sequence_number=place)))


def frame(body: Raw) -> bytes:
    """Tell an event."""
    seen = look(body)
    kind = "" if seen is None else seen.type
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), bytes(body))


def error_in(body: bytes) -> Error | None:
    """Read what an event says of a failure: in the event, in an object of its own, or in both."""
    seen = look(body)
    if seen is None:
        return None
    if seen.type == ERROR:
        return read_error_value(seen.error if is_said(seen.error) else Raw(body), None)
    told = look(seen.response)
    return None if told is None or not is_said(told.error) else read_error_value(told.error, None)


class _Outcome(Struct):
    status: str = ""
    output: list[Raw] = []
    usage: Raw = ABSENT


_OUTCOME: Final = msgspec.json.Decoder(_Outcome)


def is_bare(response: Raw) -> bool:
    """Tell whether a failed response says nothing of what there was of it."""
    try:
        outcome = _OUTCOME.decode(response)
    except UNDECODABLE:
        return False
    return outcome.status == "failed" and not outcome.output and not is_said(outcome.usage)
