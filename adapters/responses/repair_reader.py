"""Reader of streams of which valid events are passed to a client of the same dialect.

It reads the events that begin and end parts and items of built-in tools, too, because a writer may
have to continue the stream after any event.
"""

from functools import partial

from msgspec import Raw, Struct, ValidationError
from msgspec.structs import replace

from adapters.dialect import BaseStreamReader, ReplyContext
from adapters.ir.events import Delta, Event, Started
from adapters.ir.types import Annotation, Item
from adapters.json_text import DECODE_ERRORS, is_utf8
from adapters.losses import Losses
from adapters.responses.canonical_items import read_part, read_type
from adapters.responses.repair_check import EventCheck
from adapters.responses.stream_event import (
    CHANNELS,
    DELTA,
    PART_ADDED,
    PART_DONE,
    READ_EVENTS,
    WireEvent,
)
from adapters.responses.stream_reader import StreamReader
from adapters.responses.streamed_items import Content, StreamedItem, StreamedPart
from adapters.responses.wire import FAMILY
from adapters.sse import Frame, is_done
from adapters.wire.content import read_annotation
from adapters.wire.json_object import MISSING, NULL, JsonObject, read_fields
from adapters.wire.malformed_values import read_or_drop

_EMPTY_LIST = Raw(b"[]")
_NO_LOGPROBS = (MISSING, _EMPTY_LIST)


class DeltaFastPath(Struct, eq=False):
    """Reads a delta of the same part as the event before it.

    The resulting event and the verdict are the same as if the whole event were read.
    """

    name: bytes
    first: WireEvent
    part: StreamedPart
    delta: Delta
    check: EventCheck

    def read(self, frame: Frame) -> Delta | None:
        """Read the next event; return None if it has to be read in full."""
        data = frame.data
        if frame.name != self.name or not (data.isascii() or is_utf8(data)):
            return None
        try:
            event = DELTA.decode(data)
        except DECODE_ERRORS:
            return None
        first, check, text = self.first, self.check, event.delta
        if (
            event.sequence_number != check.number + 1
            or event.item_id != first.item_id
            or event.output_index != first.output_index
            or event.content_index != first.content_index
            or event.type != first.type
            or event.summary_index != first.summary_index
            or event.logprobs not in _NO_LOGPROBS
            or not text
        ):
            return None
        check.number += 1
        self.part.texts.append(text)
        delta = self.delta
        return Delta(delta.index, delta.channel, text, delta.part)


class RepairReader(StreamReader):
    """Reads a stream, with a verdict on each event."""

    def __init__(self, context: ReplyContext) -> None:
        self._reported = context.losses
        # The losses of the latest event: those of its item, which cannot be passed, and those of
        # details, which are reported only if the event is written.
        self._found, self._details = Losses(None), Losses(None)
        super().__init__(replace(context, losses=self._found), self._details)
        self._check = EventCheck(context.losses)
        self._fast_path: DeltaFastPath | None = None
        # Whether the fields of the latest event have the specified types.
        self._is_typed = True
        self._readers |= dict.fromkeys(PART_ADDED, self._begin_part)
        self._readers |= dict.fromkeys(PART_DONE, self._end_part)

    def read(self, frame: Frame) -> list[Event]:
        """Read one frame; raise `InvalidRequestError` if it cannot be read."""
        if self._fast_path is not None:
            delta = self._fast_path.read(frame)
            if delta is not None:
                self.similar = True
                return [delta]
            self._fast_path = None
        self.similar, self.verdict = False, "pass"
        if is_done(frame):
            self.saw_end = True
            return self.flush()
        self._items.latest = None
        event, events = (self._decode(frame.data), []) if self._ended else self._read_event(frame)
        if frame.whole or event.type:
            self._judge(frame, event, events)
        else:
            # A whole reply instead of a stream.
            self.writes = True
        self._report_losses()
        if self._check.resumed and events and isinstance(events[0], Started):
            # The reply began in an earlier stream.
            return events[1:]
        return events

    def _decode(self, data: bytes, error: ValidationError | None = None) -> WireEvent:
        """Decode an event, and note whether its fields have the specified types."""
        self._is_typed = True
        event = super()._decode(data, error)
        if error is not None:
            self._is_typed = event.type not in READ_EVENTS
        return event

    def _judge(self, frame: Frame, event: WireEvent, events: list[Event]) -> None:
        known, is_valid = self._items.latest, not self._found and self._is_typed
        if not self._is_typed:
            self._reported.changed(event.item_path(), "fields of a wrong type are converted")
        self.verdict = self._check.verdict(frame, event, known, events, is_valid=is_valid)
        self.writes = self.writes or self.verdict == "write"
        self.part_ends = self._check.part_ends
        if self.verdict == "pass" and not self.writes and known is not None and len(events) == 1:
            self._fast_path = self._find_fast_path(frame, event, known, events[0])

    def _report_losses(self) -> None:
        """Report the losses of an event if it is written."""
        if self.writes:
            self._reported.extend(self._found)
            self._reported.extend(self._details)
        self._found.clear()
        self._details.clear()

    def _find_fast_path(
        self, frame: Frame, event: WireEvent, known: StreamedItem, delta: Event
    ) -> DeltaFastPath | None:
        """Return the fast path for deltas of the same part."""
        if not isinstance(delta, Delta) or not event.type.endswith(".delta"):
            return None
        if not self._items.continues(known, delta.channel):
            return None
        return DeltaFastPath(frame.name, event, known.parts[-1], delta, self._check)

    def _response_fields(self, raw: Raw) -> JsonObject:
        """Return the fields without the items if these only repeat those of the stream."""
        fields = super()._response_fields(raw).take_all()
        if self._check.are_repeated(fields.get("output", NULL)):
            fields["output"] = _EMPTY_LIST
        return JsonObject(fields, "response")

    # What other readers do not need

    def _begin_opaque(self, item: Item, event: WireEvent) -> list[Event]:
        return self._items.begin_opaque(item, event.output_index)

    def _begin_part(self, event: WireEvent) -> list[Event]:
        channel = CHANNELS.get(read_type(event.part))
        if channel is None:
            return []
        item = self._items.find(event.item_id, event.output_index, channel)
        return self._items.begin_part(item, channel, event.part_index())

    def _end_part(self, event: WireEvent) -> list[Event]:
        channel, part = CHANNELS.get(read_type(event.part)), read_part(event.part)
        if channel is None:
            return []
        item = self._items.find(event.item_id, event.output_index, channel)
        text = None if part is None else part.refusal if channel == "refusal" else part.text
        if not isinstance(text, str) or item.closed:
            return []
        annotations = self._read_annotations(event.part) if channel == "text" else ()
        content = Content(channel, event.part_index(), text, annotations)
        return self._items.complete(item, content, again=True)

    def _read_annotations(self, part: Raw) -> tuple[Annotation, ...]:
        """Return the annotations of a part, which some servers do not send as events."""
        raws = read_fields(part, "part").array("annotations")
        read = partial(read_annotation, family=FAMILY, path="part.annotations")
        annotations = (read_or_drop(read, raw, "part.annotations", self._losses) for raw in raws)
        return tuple(one for one in annotations if one is not None)


def read_stream(context: ReplyContext) -> BaseStreamReader:
    """Return the reader of a stream."""
    return RepairReader(context) if context.repairs else StreamReader(context)
