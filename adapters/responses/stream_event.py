"""The events of a Responses stream, as servers send them."""

import msgspec
from msgspec import Raw, Struct

from adapters.ir.events import Channel
from adapters.responses.wire import CALLS, PARTS
from adapters.wire.json_object import MISSING


class WireEvent(Struct, gc=False):
    """One event as servers send it, in which every field may be missing."""

    type: str = ""
    sequence_number: int | None = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Raw = MISSING
    text: str | None = None
    refusal: str | None = None
    arguments: Raw = MISSING
    input: str | None = None
    item: Raw = MISSING
    part: Raw = MISSING
    response: Raw = MISSING
    annotation: Raw = MISSING
    annotation_index: int | None = None
    logprobs: Raw = MISSING
    error: Raw = MISSING
    code: Raw = MISSING
    message: str | None = None
    param: str | None = None

    def item_path(self) -> str:
        """Return the path of the item in the complete reply."""
        return "output" if self.output_index is None else f"output[{self.output_index}]"

    def part_index(self) -> int:
        """Return the number of the part."""
        return self.content_index or self.summary_index or 0


class EventType(Struct, gc=False):
    """The type and the number of an event whose other fields are not read."""

    type: str = ""
    sequence_number: int | None = None


class DeltaEvent(Struct, gc=False):
    """A delta with all fields that identify its place."""

    type: str
    sequence_number: int
    item_id: str
    output_index: int
    delta: str
    content_index: int | None = None
    summary_index: int | None = None
    logprobs: Raw = MISSING


EVENT = msgspec.json.Decoder(WireEvent)
# Accepts numbers as strings.
LENIENT_EVENT = msgspec.json.Decoder(WireEvent, strict=False)
EVENT_TYPE = msgspec.json.Decoder(EventType)
DELTA = msgspec.json.Decoder(DeltaEvent)

# The channels of parts by their types.
CHANNELS: dict[str, Channel] = {names.part: channel for channel, names in PARTS.items()}
PART_ADDED = frozenset(f"response.{names.part_event}.added" for names in PARTS.values())
PART_DONE = frozenset(f"response.{names.part_event}.done" for names in PARTS.values())

# The types of events without parts and texts.
RESPONSE_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")
RESPONSE_EVENTS = frozenset(
    (*RESPONSE_BEGINNINGS, "response.completed", "response.incomplete", "response.failed")
)
ITEM_ADDED, ITEM_DONE = "response.output_item.added", "response.output_item.done"
ANNOTATION_ADDED = "response.output_text.annotation.added"
# The events of texts (`.delta`, `.done`), with the field that has the index of their part.
TEXT_EVENTS = {
    **{f"response.{names.text_event}": names.index for names in PARTS.values()},
    # The name of `response.reasoning_text` in Open Responses.
    "response.reasoning": "content_index",
    **{f"response.{call.event}": "" for call in CALLS.values()},
}
# All events that are read.
READ_EVENTS = frozenset(
    (
        *RESPONSE_EVENTS,
        "response.cancelled",
        "error",
        *(ITEM_ADDED, ITEM_DONE, ANNOTATION_ADDED),
        *PART_ADDED,
        *PART_DONE,
        *(f"{name}.{step}" for name in TEXT_EVENTS for step in ("delta", "done")),
    )
)
