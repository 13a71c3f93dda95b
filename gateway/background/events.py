"""The stored events of background responses."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.wire.error_body import read_error_value
from adapters.wire.json_object import MISSING, is_present, read_body
from gateway.store import Event

# A cancelled response ends with `response.failed`, as OpenAI's streams do: neither the SDK nor Open
# Responses knows a `response.cancelled`.
TERMINAL_EVENTS: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
INITIAL_EVENTS: Final = frozenset(("response.created", "response.queued", "response.in_progress"))
ERROR_EVENT: Final = "error"


class EventHead(Struct):
    """The fields of an event by which it is told apart."""

    type: str = ""
    response: Raw = MISSING
    error: Raw = MISSING


class _Response(Struct):
    status: str = ""
    output: list[Raw] = []
    usage: Raw = MISSING


_HEAD: Final = msgspec.json.Decoder(EventHead)
_RESPONSE: Final = msgspec.json.Decoder(_Response)
_ENCODER: Final = msgspec.json.Encoder()


def read_head(body: bytes | Raw) -> EventHead:
    """Decode the head of an event; one that cannot be decoded has no type."""
    try:
        return _HEAD.decode(body)
    except DECODE_ERRORS:
        return EventHead()


def response_event(kind: str, number: int, response: bytes | Raw) -> Event:
    """Return an event that contains the response object."""
    fields = {"type": kind, "response": Raw(response), "sequence_number": number}
    return Event(number, Raw(_ENCODER.encode(fields)))


def renumber(bodies: Iterable[bytes], first: int) -> Iterator[Event]:
    """Give events consecutive numbers, whatever numbers they had."""
    for number, body in enumerate(bodies, first):
        yield Event(number, Raw(read_body(body).encode_with(sequence_number=number)))


def frame(event: Event) -> bytes:
    """Return the SSE frame of an event."""
    kind = read_head(event.body).type.encode()
    return b"event: %b\ndata: %b\n\n" % (kind, bytes(event.body))


def read_event_error(body: bytes) -> Error | None:
    """Read the error of an event: in the event itself, in its `error`, or in its response."""
    head = read_head(body)
    if head.type == ERROR_EVENT:
        return read_error_value(head.error if is_present(head.error) else Raw(body), None)
    error = read_head(head.response).error
    return read_error_value(error, None) if is_present(error) else None


def is_empty_failure(response: Raw) -> bool:
    """Whether a failed response has neither output nor usage."""
    try:
        outcome = _RESPONSE.decode(response)
    except DECODE_ERRORS:
        return False
    return outcome.status == "failed" and not outcome.output and not is_present(outcome.usage)
