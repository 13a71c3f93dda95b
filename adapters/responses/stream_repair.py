"""Events that end a recorded stream, written by the gateway or by a backend, with an error.

Open items except calls are closed in the form in which they were begun, so that the stream is
valid. Its last event has all closed items.
"""

import msgspec
from msgspec import Raw, Struct

from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.responses.reply_writer import write_response_error
from adapters.responses.wire import PARTS, PartNames, Wire, error_fields
from adapters.sse import Decoder, encode
from adapters.wire.json_object import MISSING, is_present, read_body


class _Event(Struct):
    type: str = ""
    output_index: int = -1
    content_index: int | None = None
    summary_index: int | None = None
    item: Raw = MISSING
    part: Raw = MISSING
    delta: str = ""
    annotation: Raw = MISSING

    def part_index(self) -> int:
        return (self.content_index if self.summary_index is None else self.summary_index) or 0


class _Head(Struct):
    """The fields of an item or a part that identify it."""

    type: str = ""
    id: str = ""
    status: str | None = None


_EVENT = msgspec.json.Decoder(_Event)
_HEAD = msgspec.json.Decoder(_Head)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])

_NAMES = {names.part: names for names in PARTS.values()}
_PART_ADDED = frozenset(f"response.{names.part_event}.added" for names in PARTS.values())
_PART_DONE = frozenset(f"response.{names.part_event}.done" for names in PARTS.values())
_TEXT_DELTA = frozenset(f"response.{names.text_event}.delta" for names in PARTS.values())
_TEXT_DONE = frozenset(f"response.{names.text_event}.done" for names in PARTS.values())


class _Part(Struct):
    names: PartNames
    index: int
    added: Raw
    texts: list[str] = []
    annotations: list[Raw] = []
    text_done: bool = False
    done: Raw | None = None

    def complete(self) -> Raw:
        """Return the part with all text and annotations that were received."""
        if self.done is not None:
            return self.done
        changes: Wire = {self.names.field: "".join(self.texts)}
        if self.annotations:
            changes["annotations"] = self.annotations
        return Raw(encode(_OBJECT.decode(self.added) | changes))


class _Item(Struct):
    index: int
    added: Raw
    parts: list[_Part] = []
    done: Raw | None = None

    def find(self, event: _Event) -> _Part | None:
        """Return the part of an event."""
        for part in self.parts:
            is_summary = part.names.index == "summary_index"
            if part.index == event.part_index() and is_summary == (event.summary_index is not None):
                return part
        return None


def failure_events(recorded: bytes, error: Error, response: bytes) -> list[bytes]:
    """Return the last events, without numbers; `response` is the latest response object."""
    items = _read_items(recorded)
    written: list[Wire] = []
    last_done = max((item.index for item in items if item.done is not None), default=-1)
    for item in items:
        # Leave calls open: Codex runs a call when it is done, and this one may be truncated.
        if item.done is None and not _HEAD.decode(item.added).type.endswith("_call"):
            # Only the last items may be incomplete.
            written += _close_item(item, "incomplete" if item.index > last_done else "completed")
    output = [item.done for item in items if item.done is not None]
    failed = read_body(response).encode_with(
        status="failed", error=write_response_error(error), output=output
    )
    written.append({"type": "error"} | error_fields(error))
    written.append({"type": "response.failed", "response": Raw(failed)})
    return [encode(event) for event in written]


def _read_items(recorded: bytes) -> list[_Item]:
    items: dict[int, _Item] = {}
    for frame in Decoder().feed(recorded):
        try:
            _read_event(items, _EVENT.decode(frame.data))
        except DECODE_ERRORS:
            # Ignore an invalid event, which begins no item or part.
            continue
    return [items[index] for index in sorted(items)]


def _read_event(items: dict[int, _Item], event: _Event) -> None:
    index = event.output_index
    if event.type == "response.output_item.added" and is_present(event.item):
        # Raise here for an item that could not be closed.
        _HEAD.decode(event.item)
        items[index] = _Item(index, event.item)
    elif event.type == "response.output_item.done" and is_present(event.item):
        items.setdefault(index, _Item(index, event.item)).done = event.item
    elif index in items:
        _read_part_event(items[index], event)


def _read_part_event(item: _Item, event: _Event) -> None:
    if event.type in _PART_ADDED:
        names = _NAMES.get(_HEAD.decode(event.part).type)
        if names is not None:
            item.parts.append(_Part(names, event.part_index(), event.part))
        return
    part = item.find(event)
    if part is None:
        return
    if event.type in _TEXT_DELTA:
        part.texts.append(event.delta)
    elif event.type in _TEXT_DONE:
        part.text_done = True
    elif event.type in _PART_DONE:
        part.done = event.part
    elif event.type == "response.output_text.annotation.added":
        part.annotations.append(event.annotation)


def _close_item(item: _Item, status: str) -> list[Wire]:
    """Return the events that end an item and its open parts."""
    head = _HEAD.decode(item.added)
    written: list[Wire] = []
    for part in item.parts:
        if part.done is None:
            place: Wire = {"item_id": head.id, "output_index": item.index}
            written += _close_part(part, place | {part.names.index: part.index})
    changes: Wire = {} if head.status is None else {"status": status}
    for name in ("content", "summary"):
        parts = [part.complete() for part in item.parts if part.names.index == f"{name}_index"]
        if parts:
            changes[name] = parts
    item.done = Raw(encode(_OBJECT.decode(item.added) | changes))
    done: Wire = {"output_index": item.index, "item": item.done}
    return [*written, {"type": "response.output_item.done", **done}]


def _close_part(part: _Part, place: Wire) -> list[Wire]:
    written: list[Wire] = []
    if not part.text_done:
        text: Wire = {part.names.field: "".join(part.texts)}
        if part.names is PARTS["text"]:
            text["logprobs"] = ()
        written.append({"type": f"response.{part.names.text_event}.done", **place, **text})
    part.done = part.complete()
    written.append({"type": f"response.{part.names.part_event}.done", **place, "part": part.done})
    return written
