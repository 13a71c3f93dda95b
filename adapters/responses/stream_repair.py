"""Ends, as a failure, a stream that was kept as it was told: by us, or by another server.

Everything that is open is closed, as it was spelled, so that whoever reads the stream from its
beginning finds it legal, and finds all that there is of the answer in its end.
"""

import msgspec
from msgspec import Raw, Struct, field

from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.responses.response import write_failure
from adapters.responses.wire import PARTS, PartWords, Wire, error_fields
from adapters.sse import Decoder, encode
from adapters.wire.json_object import MISSING, is_present, read_body


class _Event(Struct):
    """What is looked at of an event."""

    type: str = ""
    output_index: int = -1
    content_index: int | None = None
    summary_index: int | None = None
    item: Raw = MISSING
    part: Raw = MISSING
    delta: str = ""
    annotation: Raw = MISSING


class _Spelled(Struct):
    """What is looked at of an item or a part."""

    type: str = ""
    id: str = ""
    status: str | None = None


_EVENT = msgspec.json.Decoder(_Event)
_SPELLED = msgspec.json.Decoder(_Spelled)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])

_WORDS = {words.part: words for words in PARTS.values()}
_ADDED = frozenset(words.added for words in PARTS.values())
_DELTA = frozenset(words.delta for words in PARTS.values())
_DONE = frozenset(words.done for words in PARTS.values())
_ENDED = frozenset(words.ended for words in PARTS.values())
_ANNOTATED = "response.output_text.annotation.added"


class _Part(Struct):
    """A part of an item, as far as it has come."""

    words: PartWords
    number: int
    spelled: Raw
    texts: list[str] = field(default_factory=list[str])
    annotations: list[Raw] = field(default_factory=list[Raw])
    # Its text is done, and so is all of it.
    is_told: bool = False
    done: Raw | None = None

    def whole(self) -> Raw:
        """Give the part with all that has come of it."""
        if self.done is not None:
            return self.done
        changes: Wire = {self.words.field: "".join(self.texts)}
        if self.annotations:
            changes["annotations"] = self.annotations
        return Raw(encode(_OBJECT.decode(self.spelled) | changes))


class _Item(Struct):
    """An item, as far as it has come."""

    index: int
    spelled: Raw
    parts: list[_Part] = field(default_factory=list[_Part])
    done: Raw | None = None

    def find(self, event: _Event) -> _Part | None:
        """Find the part that an event speaks of."""
        number = _number(event)
        summary = event.summary_index is not None
        for part in self.parts:
            if part.number == number and (part.words.index == "summary_index") == summary:
                return part
        return None


def failure_events(told: bytes, error: Error, response: bytes) -> list[bytes]:
    """Give the events, without their numbers, that end a stream of which this has been told.

    The response is the object as it was last told.
    """
    items = _read(told)
    written: list[Wire] = []
    last = max((item.index for item in items if item.done is not None), default=-1)
    for item in items:
        if item.done is None and not _is_call(item):
            # What is incomplete has to stand last.
            written += _close(item, "incomplete" if item.index > last else "completed")
    output = [item.done for item in items if item.done is not None]
    failed = read_body(response).encode_with(
        status="failed", error=write_failure(error), output=output
    )
    written.append({"type": "error"} | error_fields(error))
    written.append({"type": "response.failed", "response": Raw(failed)})
    return [encode(event) for event in written]


def _is_call(item: _Item) -> bool:
    """Tell whether it is a call: one that may not be whole is not told as done, it would be run."""
    return _SPELLED.decode(item.spelled).type.endswith("_call")


# Reading


def _read(told: bytes) -> list[_Item]:
    items: dict[int, _Item] = {}
    for frame in Decoder().feed(told):
        try:
            _take(items, _EVENT.decode(frame.data))
        except DECODE_ERRORS:
            # Odd events of another server are about nothing that we could close.
            continue
    return [items[index] for index in sorted(items)]


def _take(items: dict[int, _Item], event: _Event) -> None:
    match event.type:
        case "response.output_item.added" if is_present(event.item):
            _SPELLED.decode(event.item)
            items[event.output_index] = _Item(event.output_index, event.item)
        case "response.output_item.done" if is_present(event.item):
            item = items.setdefault(event.output_index, _Item(event.output_index, event.item))
            item.done = event.item
        case _ if event.output_index in items:
            _fill(items[event.output_index], event)
        case _:
            return


def _fill(item: _Item, event: _Event) -> None:
    if event.type in _ADDED:
        words = _WORDS.get(_SPELLED.decode(event.part).type)
        if words is not None:
            item.parts.append(_Part(words, _number(event), event.part))
        return
    part = item.find(event)
    if part is None:
        return
    if event.type in _DELTA:
        part.texts.append(event.delta)
    elif event.type in _DONE:
        part.is_told = True
    elif event.type in _ENDED:
        part.done = event.part
    elif event.type == _ANNOTATED:
        part.annotations.append(event.annotation)


def _number(event: _Event) -> int:
    return (event.content_index if event.summary_index is None else event.summary_index) or 0


# Writing


def _close(item: _Item, status: str) -> list[Wire]:
    """End an item, and whatever is open in it."""
    spelled = _SPELLED.decode(item.spelled)
    written: list[Wire] = []
    for part in item.parts:
        if part.done is None:
            place: Wire = {"item_id": spelled.id, "output_index": item.index}
            written += _close_part(part, place | {part.words.index: part.number})
    changes: Wire = {} if spelled.status is None else {"status": status}
    for name, kind in (("content", "content_index"), ("summary", "summary_index")):
        parts = [part.whole() for part in item.parts if part.words.index == kind]
        if parts:
            changes[name] = parts
    item.done = Raw(encode(_OBJECT.decode(item.spelled) | changes))
    done: Wire = {"output_index": item.index, "item": item.done}
    return [*written, {"type": "response.output_item.done", **done}]


def _close_part(part: _Part, place: Wire) -> list[Wire]:
    written: list[Wire] = []
    if not part.is_told:
        text: Wire = {part.words.field: "".join(part.texts)}
        if part.words is PARTS["text"]:
            text["logprobs"] = ()
        written.append({"type": part.words.done, **place, **text})
    part.done = part.whole()
    written.append({"type": part.words.ended, **place, "part": part.done})
    return written
