"""The check whether a Responses client can receive a backend's events as they are.

Clients need the events of each item in their order, with the item's id and index. Events and items
of unknown types, and fields that no client needs, may have any form.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from adapters.dialect import Verdict
from adapters.ir.events import BlockId, Closed, Delta, Event, Finished, Opened
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.responses.canonical_items import (
    BEGUN,
    ENDED,
    FAILED,
    EndedResponse,
    Item,
    NamedItem,
    fault_in_added,
    fault_in_complete,
    has_counts,
    read_added,
    read_complete,
    read_part,
    read_type,
)
from adapters.responses.stream_event import (
    ANNOTATION_ADDED,
    ITEM_ADDED,
    ITEM_DONE,
    PART_ADDED,
    PART_DONE,
    RESPONSE_BEGINNINGS,
    RESPONSE_EVENTS,
    TEXT_EVENTS,
    WireEvent,
)
from adapters.responses.streamed_items import StreamedItem
from adapters.responses.wire import ALL_CALL_NAMES, CALLS
from adapters.sse import Frame
from adapters.wire.json_object import MISSING, is_present


class _Part(Struct, eq=False):
    """A part of an item."""

    # The field with its index.
    index: str
    # The number of its end events so far: the end of the text, and that of the part.
    ends: int = 0
    # The number of its annotations.
    annotations: int = 0


class _Item(Struct, eq=False):
    """What has been received of one item."""

    known: StreamedItem
    number: int
    # The item as it began; None if its beginning was not canonical.
    added: Item | None = None
    item_id: str | None = None
    parts: list[_Part] = field(default_factory=list[_Part])
    # Whether the end of the arguments was received.
    has_arguments: bool = False
    ended: bool = False
    # The complete item, and as it was read; None if it was not canonical.
    raw: Raw = MISSING
    done: Item | None = None


class EventCheck:
    """Checks the events of one stream, and reports what has to be changed in them."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        # The number of the latest event.
        self.number = -1
        self._response_id: str | None = None
        # The response as it began.
        self._begun = MISSING
        self._is_first = True
        # Whether the stream continues an earlier one, whose events are not known.
        self.resumed = False
        # Whether the last event was received: the final response, or an error before it.
        self._over: Literal["", "error", "end"] = ""
        self._items: dict[StreamedItem, _Item] = {}
        self._invalid = False
        # How many end events of the latest part of a block were received.
        self.part_ends: Mapping[BlockId, int] = {}
        self._checks = self._make_checks()

    def _make_checks(self) -> dict[str, Callable[[WireEvent, StreamedItem, list[Event]], None]]:
        """Return the check of each type of event of an item."""
        checks: dict[str, Callable[[WireEvent, StreamedItem, list[Event]], None]] = {
            ITEM_ADDED: self._check_added,
            ITEM_DONE: self._check_done,
            ANNOTATION_ADDED: self._check_annotation,
            **dict.fromkeys(PART_ADDED, self._check_part_added),
            **dict.fromkeys(PART_DONE, self._check_part_done),
        }
        for name in TEXT_EVENTS:
            checks[f"{name}.delta"] = self._check_delta
            checks[f"{name}.done"] = self._check_text_done
        return checks

    def verdict(
        self,
        frame: Frame,
        event: WireEvent,
        known: StreamedItem | None,
        events: list[Event],
        *,
        is_valid: bool,
    ) -> Verdict:
        """Return the verdict on an event that was read as `events`.

        `is_valid` is false if its reader has reported what it changed.
        """
        self._invalid = not is_valid
        kind, number = event.type, event.sequence_number
        if self._is_first and number and kind != "response.created" and self._response_id is None:
            self.resumed = True
        if self.resumed:
            return "pass"
        check = self._checks.get(kind)
        if check is None and kind not in RESPONSE_EVENTS and kind != "error":
            self._check_other(event)
            return "write" if self._invalid else "pass"
        self._check_event(frame, event)
        if not self._over:
            if check is not None and known is not None:
                check(event, known, events)
            elif check is not None and _lacks_content(event):
                self._report(event.item_path(), "an event lacks its item or its part; removed")
            elif kind in RESPONSE_EVENTS:
                self._check_response(event, events)
            elif kind == "error":
                self._over = "error"
        return "write" if self._invalid else "pass"

    def _check_other(self, event: WireEvent) -> None:
        """Check an event of another type, which has a number if its server counts it."""
        if event.sequence_number == self.number + 1:
            self.number += 1
        elif event.sequence_number is not None and event.type != "keepalive":
            self._report("sequence_number", _NUMBER_REASON)
            self.number += 1
        if not event.type:
            self._report("stream", "an event has no type; replaced")
        if self._over:
            # It is removed, which is reported then.
            self._invalid = True

    def _report(self, path: str, reason: str) -> None:
        self._invalid = True
        self._losses.changed(path, reason)

    def _check_event(self, frame: Frame, event: WireEvent) -> None:
        """Check what all events have in common."""
        if event.sequence_number != self.number + 1:
            self._report("sequence_number", _NUMBER_REASON)
        self.number += 1
        if frame.name != event.type.encode():
            self._report("stream", "an event line is missing or differs from the type; replaced")
        if self._over and not (self._over == "error" and event.type == "response.failed"):
            # It is removed, which is reported then.
            self._invalid = True
        elif self._is_first and event.type not in ("response.created", "error"):
            self._report("stream", "response.created is missing at the start; added")
        self._is_first = False

    # The response object

    def _check_response(self, event: WireEvent, events: list[Event]) -> None:
        status = event.type.removeprefix("response.")
        response_id: str | None
        try:
            if status == "in_progress" and event.response == self._begun:
                return
            if event.type in RESPONSE_BEGINNINGS:
                self._begun = event.response
                begun = BEGUN.decode(event.response)
                self._check_begun(status, begun.status)
                response_id = begun.id
            elif status == "failed":
                response_id = FAILED.decode(event.response).id
            else:
                ended = ENDED.decode(event.response)
                self._check_ended(status, ended, events)
                response_id = ended.id
        except DECODE_ERRORS:
            self._report("response", "fields of the response are missing or invalid; replaced")
            response_id = self._response_id
        if self._response_id is None:
            self._response_id = response_id
        elif response_id != self._response_id:
            self._report("id", "the id of the response changed; the first one is used")
        if event.type not in RESPONSE_BEGINNINGS:
            self._over = "end"

    def _check_begun(self, event_status: str, status: str) -> None:
        if event_status == "created":
            if self._response_id is not None:
                self._report("stream", "response.created is repeated; removed")
        elif status != event_status:
            self._report("status", f"{status!r} contradicts the event; replaced")

    def _check_ended(self, status: str, ended: EndedResponse, events: list[Event]) -> None:
        if ended.status != status or (status == "incomplete") != bool(ended.incomplete_details):
            self._report("status", "contradicts the event or incomplete_details; replaced")
        if not has_counts(ended.usage):
            # The writer reports the counts that it adds.
            self._invalid = True
        if not (len(events) == 1 and isinstance(events[0], Finished)):
            self._report("output", "what the stream lacks is added before the final response")
            return
        if self.are_repeated(ended.output):
            return
        final = [read_complete(raw) for raw in _RAWS.decode(ended.output)]
        if final != [item.done for item in self._items.values()]:
            reason = "differs from the streamed items, which are repeated in the final response"
            self._report("output", reason)
        elif None in final:
            self._invalid = True

    def are_repeated(self, given: Raw) -> bool:
        """Whether the items of the final response are the same bytes as those of the stream."""
        try:
            output = _RAWS.decode(given)
        except DECODE_ERRORS:
            return False
        items = self._items.values()
        return len(output) == len(items) and all(
            item.done is not None and item.raw == raw
            for item, raw in zip(items, output, strict=True)
        )

    # Items

    def _item(self, known: StreamedItem) -> _Item:
        """Return the item of an event; report an item that has not begun."""
        item = self._items.get(known)
        if item is None:
            reason = "an event comes before the one that begins its item; corrected"
            self._report(known.path, reason)
            item = self._add(known)
            item.item_id = known.item_id
        return item

    def _add(self, known: StreamedItem) -> _Item:
        item = self._items[known] = _Item(known, len(self._items))
        return item

    def _check_place(self, event: WireEvent, item: _Item) -> None:
        """Check the id and the index of an event of an item."""
        if event.item_id != item.item_id or not event.item_id:
            self._report_id(event.item_id, item)
        self._check_index(event, item)
        if item.ended:
            self._report(item.known.path, "an event comes after the end of the item; removed")

    def _report_id(self, item_id: str | None, item: _Item) -> None:
        fault = "differs between events; one is used" if item_id else "is missing; added"
        self._report(item.known.path, f"the id of the item {fault}")

    def _check_index(self, event: WireEvent, item: _Item) -> None:
        if event.output_index != item.number:
            reason = "output_index is missing or not the position of the item; replaced"
            self._report(item.known.path, reason)

    def _check_added(self, event: WireEvent, known: StreamedItem, events: list[Event]) -> None:
        if known in self._items:
            if self._items[known].added is not None:
                self._report(known.path, "the event that begins the item is repeated; removed")
            self._invalid = True
            return
        open_calls = [one for one in self._items.values() if _is_call(one) and not one.ended]
        item = self._add(known)
        added = item.added = read_added(event.item)
        item.item_id = known.item_id
        if added is None:
            self._report(known.path, fault_in_added(event.item))
        else:
            if any(one.item_id == added.id for one in self._items.values() if one is not item):
                self._report(known.path, "the id of the item is not unique; replaced")
            item.item_id = added.id
        self._check_index(event, item)
        if _is_call(item) and open_calls:
            self._report(known.path, OVERLAPPING_CALLS_REASON)
        if not (len(events) == 1 and isinstance(events[0], Opened)):
            self._invalid = True

    def _check_done(self, event: WireEvent, known: StreamedItem, events: list[Event]) -> None:
        item = self._item(known)
        if item.ended:
            self._report(known.path, "the event that ends the item is repeated; removed")
            return
        item.raw, done = event.item, read_complete(event.item)
        item.done = done
        if done is None:
            self._report(known.path, fault_in_complete(event.item))
        elif done.id != item.item_id:
            self._report_id(done.id, item)
        elif item.added is not None and _identity(done) != _identity(item.added):
            self._report(known.path, "the type, the name or the call id changed; the first is used")
        elif len(done.parts()) != len(item.parts):
            self._report(known.path, "the events of parts are missing; added")
        self._check_index(event, item)
        self._check_complete(item)
        item.ended = True
        if not _are_end(events, item):
            # What is missing before the end is written, or the end was written before.
            self._invalid = True
        self._note_ends(item, 0)

    def _check_complete(self, item: _Item) -> None:
        if any(part.ends != _CLOSED for part in item.parts):
            self._report(item.known.path, "an event that ends a part is missing; added")
        if _is_call(item) and not item.has_arguments:
            reason = "the event that ends the arguments is missing; added"
            self._report(item.known.path, reason)

    # Parts

    def _check_part_added(self, event: WireEvent, known: StreamedItem, events: list[Event]) -> None:
        item = self._item(known)
        self._check_place(event, item)
        index = "content_index" if ".content_part" in event.type else "summary_index"
        same = [part for part in item.parts if part.index == index]
        if getattr(event, index) != len(same):
            self._report_part_index(item, index)
        if item.parts and item.parts[-1].ends != _CLOSED:
            self._report(known.path, "an event that ends a part is missing; added")
            item.parts[-1].ends = _CLOSED
        part = read_part(event.part)
        if part is None or not part.is_empty():
            self._report(known.path, "fields of a part that begins are missing; added")
        item.parts.append(_Part(index))
        self._note_ends(item, 0)
        if not all(isinstance(one, Delta) for one in events):
            self._invalid = True

    def _report_part_index(self, item: _Item, index: str) -> None:
        self._report(item.known.path, f"{index} is missing or not the position; replaced")

    def _find_part(self, event: WireEvent, item: _Item, index: str) -> _Part:
        """Return the part of an event; report one that has not begun."""
        number = getattr(event, index)
        same = [part for part in item.parts if part.index == index]
        if isinstance(number, int) and 0 <= number < len(same):
            return same[number]
        if same and same[-1].ends != _CLOSED:
            self._report_part_index(item, index)
            return same[-1]
        self._report(item.known.path, "the event that begins a part is missing; added")
        item.parts.append(_Part(index))
        return item.parts[-1]

    def _check_delta(self, event: WireEvent, known: StreamedItem, events: list[Event]) -> None:
        item = self._item(known)
        self._check_place(event, item)
        index = TEXT_EVENTS.get(event.type.removesuffix(".delta"), "content_index")
        if index and self._find_part(event, item, index).ends:
            self._report(known.path, "text comes after its end")
        elif not index and item.has_arguments:
            self._report(known.path, "arguments come after their end")
        if event.type.endswith(".delta") and bytes(event.delta)[:1] != b'"':
            fault = "is not a string; sent as a string" if is_present(event.delta) else "is missing"
            self._report(known.path, f"a delta {fault}")
        if len(events) > 1 or not all(isinstance(one, Delta) for one in events):
            self._invalid = True
        elif not events and bytes(event.delta) not in (b'""', b""):
            # The item cannot begin yet, or cannot have such a text, which its reader reports.
            self._invalid = True

    def _check_annotation(self, event: WireEvent, known: StreamedItem, events: list[Event]) -> None:
        self._check_delta(event, known, events)
        part = self._find_part(event, self._item(known), "content_index")
        if event.annotation_index != part.annotations:
            reason = "annotation_index is missing or not the position; replaced"
            self._report(known.path, reason)
        elif not events:
            self._report(known.path, "an annotation cannot be read; removed")
        part.annotations += 1

    def _check_text_done(self, event: WireEvent, known: StreamedItem, events: list[Event]) -> None:
        item = self._item(known)
        self._check_place(event, item)
        index = TEXT_EVENTS[event.type.removesuffix(".done")]
        if index:
            part = self._find_part(event, item, index)
            if part.ends:
                self._report(known.path, "the end of a text is repeated; removed")
            part.ends = max(part.ends, 1)
        else:
            self._check_arguments_done(event, item)
        self._note_ends(item, 1)
        if _add_text(events) or (index and event.text is None and event.refusal is None):
            self._report(known.path, "the end of a text differs from its deltas; corrected")

    def _check_arguments_done(self, event: WireEvent, item: _Item) -> None:
        if item.has_arguments:
            self._report(item.known.path, "the end of the arguments is repeated; removed")
        item.has_arguments = True
        if not is_present(event.arguments) and event.input is None:
            self._report(item.known.path, "the arguments are missing at their end; added")
        elif is_present(event.arguments) and bytes(event.arguments)[:1] != b'"':
            self._report(item.known.path, "the arguments are not a string; sent as a string")
        elif item.known.lacks_arguments() and item.known.subkind == "function":
            self._report(item.known.path, "the arguments are empty at their end; completed")

    def _check_part_done(self, event: WireEvent, known: StreamedItem, events: list[Event]) -> None:
        item = self._item(known)
        self._check_place(event, item)
        index = "content_index" if ".content_part" in event.type else "summary_index"
        part = self._find_part(event, item, index)
        if part.ends != 1:
            self._report(known.path, "an event that ends a part is missing or repeated; corrected")
        part.ends = _CLOSED
        self._note_ends(item, _CLOSED)
        if _add_text(events) or read_part(event.part) is None:
            self._report(known.path, "the end of a part differs from its text; corrected")

    def _note_ends(self, item: _Item, ends: int) -> None:
        block = item.known.block
        if block is None:
            return
        others = {key: value for key, value in self.part_ends.items() if key != block}
        self.part_ends = {**others, block: ends} if ends else others


_NUMBER_REASON = "missing or not the next number; replaced"
_RAWS = Decoder(list[Raw])
OVERLAPPING_CALLS_REASON = "calls overlap; written one after another"
# The kinds of calls whose arguments are not streamed.
_UNSTREAMED = frozenset(ALL_CALL_NAMES) - frozenset(CALLS)
# The number of events that end a part.
_CLOSED = 2


def _add_text(events: list[Event]) -> bool:
    """Whether events have more than deltas without text."""
    return not all(isinstance(event, Delta) and not event.text for event in events)


def _are_end(events: list[Event], item: _Item) -> bool:
    """Whether events only end an item.

    Annotations and log probabilities that only the complete item has stay in it, because no part is
    open to which their events could belong.
    """
    if not (events and isinstance(events[-1], Closed)):
        return False
    return item.known.subkind in _UNSTREAMED or (
        not _add_text(events[:-1]) and (len(events) == 1 or bool(item.parts))
    )


def _lacks_content(event: WireEvent) -> bool:
    """Whether an event has no item, part or annotation that clients can read."""
    if event.type in (ITEM_ADDED, ITEM_DONE):
        return not read_type(event.item)
    if event.type == ANNOTATION_ADDED:
        return not bytes(event.annotation).startswith(b"{")
    return not read_type(event.part)


def _is_call(item: _Item) -> bool:
    """Whether an item is a call whose arguments are streamed."""
    return isinstance(item.added, NamedItem)


def _identity(item: Item) -> tuple[object, ...]:
    """Return the fields that must not change."""
    return item.kind(), getattr(item, "call_id", None), getattr(item, "name", None)
