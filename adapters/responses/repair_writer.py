"""The writer of the events that replace invalid events of a backend with the client's dialect."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Raw
from msgspec.json import Decoder

from adapters.dialect import BaseStreamWriter, Passed, ReplyContext
from adapters.ir.events import BlockId, Closed, Event, Failed, Finished, Started
from adapters.ir.types import Item, Status, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.responses.reply_repair import Fields, keep_item_fields, keep_response_fields
from adapters.responses.reply_writer import ResponseState
from adapters.responses.stream_event import READ_EVENTS
from adapters.responses.stream_writer import ItemStreamWriter, StreamWriter
from adapters.responses.wire import Wire
from adapters.sse import Frame

_OBJECT = Decoder(dict[str, Raw])
_STRING = Decoder(str)


class RepairItemWriter(ItemStreamWriter):
    """Writes the events of one item, of which some may have passed."""

    # The item as the backend sent it when it was complete.
    received: Fields | None = None
    # How many of the events that end the latest part, or the arguments, have passed.
    _passed_ends = 0

    def _write_item(self, item: Item, status: Status) -> Wire | Raw:
        written = super()._write_item(item, status)
        return keep_item_fields(written, self.received or {}, self.item_id)

    def note_passed(self, ends: int) -> None:
        """Note that the events of the item so far have passed, and how many ends of its part."""
        self._passed_ends = ends
        if not self.begun:
            # The writer would begin the item when it is complete.
            self.begun = True
            self._passed_ends = 1

    def _end_part(self) -> list[bytes]:
        return self._without_passed(super()._end_part) if self.buffer.parts else []

    def _end_call(self, call: ToolCall) -> list[bytes]:
        return self._without_passed(lambda: super(RepairItemWriter, self)._end_call(call))

    def _without_passed(self, write: Callable[[], list[bytes]]) -> list[bytes]:
        """Return the frames that have not passed, with the next numbers."""
        passed, self._passed_ends = self._passed_ends, 0
        self._frames.next_number -= passed
        return write()[passed:]


class RepairWriter(StreamWriter):
    """Writes events with the fields of the backend's events that the IR lacks.

    Events of which the IR has nothing, such as the progress of built-in tools, are kept.
    """

    item_writer = RepairItemWriter

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        # The backend's latest event with the response object, and the last event of each item.
        self._response_event = b""
        self._item_events: dict[BlockId, bytes] = {}
        # Whether the beginning of the stream has passed.
        self._has_begun = False

    def continue_passed(self, events: Iterable[Event], passed: Passed) -> None:
        """Continue a stream that was passed through so far."""
        super().continue_passed(events, passed)
        for block, item in self._items.items():
            if isinstance(item, RepairItemWriter) and item.buffer.closed is None:
                item.note_passed(passed.part_ends.get(block, 0))
        self._frames.next_number = passed.frames
        self._has_begun = passed.frames > 0

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream, unless its beginning has passed."""
        number = self._frames.next_number
        written = super().start(event)
        if not self._has_begun:
            return written
        self._frames.next_number = number
        return []

    def note_frame(self, frame: Frame, events: Sequence[Event]) -> None:
        """Store the event of a response or of the end of an item."""
        last = events[-1] if events else None
        if isinstance(last, Closed):
            self._item_events[last.index] = frame.data
        elif isinstance(last, Started | Finished | Failed):
            self._response_event = frame.data

    def close(self, event: Closed) -> list[bytes]:
        """End a block."""
        item = self._items[event.index]
        if isinstance(item, RepairItemWriter) and event.index in self._item_events:
            item.received = _object_in(self._item_events.pop(event.index), "item")
        return super().close(event)

    def _write_response(self, state: ResponseState) -> Wire:
        written = super()._write_response(state)
        received = _object_in(self._response_event, "response")
        return keep_response_fields(written, received, self._context)

    def keep_fields(self, frame: Frame | None, written: list[bytes]) -> list[bytes]:
        """Return the written events, or an event that the IR lacks, at its new place."""
        if written or frame is None:
            return written
        try:
            event = _OBJECT.decode(frame.data)
            kind = _STRING.decode(event.get("type", b""))
            item_id = _STRING.decode(event["item_id"]) if "item_id" in event else None
        except DECODE_ERRORS:
            return []
        if kind in READ_EVENTS:
            return []
        fields: Wire = {**event}
        if "output_index" in event or item_id is not None:
            item = next((one for one in self._items.values() if one.item_id == item_id), None)
            if item is None:
                self._losses.dropped("stream", f"events of the type {kind} are removed")
                return []
            fields["output_index"] = item.output_index
        del fields["type"]
        fields.pop("sequence_number", None)
        return [self._frames.event(kind, fields)]


def _object_in(event: bytes, name: str) -> Fields:
    """Return an object in an event, or the event itself if it is a whole reply."""
    try:
        fields = _OBJECT.decode(event) if event else {}
        return _OBJECT.decode(fields[name]) if name in fields else {}
    except DECODE_ERRORS:
        return {}


def write_stream(context: ReplyContext) -> BaseStreamWriter:
    """Return the writer of a stream."""
    return RepairWriter(context) if context.repairs else StreamWriter(context)
