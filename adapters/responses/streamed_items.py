"""The items of a stream, and how its events identify them.

Servers identify an item by its id, by its index, by both, or not at all
(https://github.com/docker/docker-agent/issues/2976). Some encrypt the ids anew in each event,
others send one id or one index for all items. So an id or an index identifies an item only as long
as no other item has it, an id that was seen before has priority over the index, and the index over
a new id. Items of the final response are also found by their order and their content, because an
item that is not found would be added again.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from adapters.ir.events import ITEM_CHANNELS, Channel
from adapters.ir.types import (
    Annotation,
    Item,
    Logprob,
    Message,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from adapters.json_text import JsonCompleteness

# The event that contains an item: its beginning, its end, or the final response.
Stage = Literal["added", "done", "final"]


class Content(Struct, frozen=True):
    """The complete content of one part, or a piece of it."""

    channel: Channel
    # The number that the server gave to the part.
    index: int
    text: str
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[Logprob, ...] = ()


def item_contents(item: Item) -> Iterator[Content]:
    """Yield the content of each part of a complete item."""
    match item:
        case Message():
            for index, part in enumerate(item.content):
                if isinstance(part, Text):
                    yield Content("text", index, part.text, part.annotations, part.logprobs)
                elif isinstance(part, Refusal):
                    yield Content("refusal", index, part.text)
        case ToolCall():
            yield Content("arguments", 0, item.arguments)
        case Reasoning():
            for index, text in enumerate(item.summary):
                yield Content("summary", index, text)
            for index, text in enumerate(item.content):
                yield Content("reasoning", index, text)
        case _:
            return


class StreamedPart(Struct, eq=False):
    """The received content of one part, to compare with its complete content at the end."""

    channel: Channel
    index: int
    texts: list[str] = []
    annotations: int = 0
    has_logprobs: bool = False
    # Whether an event began the part, and whether its complete text was received.
    begun: bool = False
    ended: bool = False

    def may_continue(self, channel: Channel) -> bool:
        """Whether a delta with an unknown number belongs to this part, if it is the last one."""
        return self.begun and not self.ended and self.channel == channel

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self.texts)


class StreamedItem(Struct, eq=False):
    """The received content of one item."""

    item_id: str | None
    index: int | None
    # Set when the block of the item is opened.
    block: int | None = None
    kind: type[Item] | None = None
    # The kind of a call or of an opaque item, and the name and the id of a call.
    subkind: str | None = None
    name: str = ""
    call_id: str = ""
    # The path in the complete reply, for losses.
    path: str = ""
    parts: list[StreamedPart] = []
    # Deltas that arrived before the block could be opened.
    held: list[Content] = []
    # Whether the server sent the beginning and the end of the item.
    added: bool = False
    done: bool = False
    # Whether the final response has the item.
    is_final: bool = False
    closed: bool = False
    # Whether the server sent the end of the arguments, and any arguments before it.
    has_ended_arguments: bool = False
    has_all_arguments: bool = False
    # Created when completeness is checked for the first time.
    completeness: JsonCompleteness | None = None

    def describe(self, item: Item) -> None:
        """Store what identifies a complete item."""
        self.kind, self.subkind = type(item), getattr(item, "kind", None)
        if isinstance(item, ToolCall):
            self.name, self.call_id = item.name, item.call_id

    def find(self, channel: Channel, index: int) -> StreamedPart | None:
        """Return a part that has begun."""
        for part in self.parts:
            if part.channel == channel and part.index == index:
                return part
        return None

    def find_ending(self, content: Content, *, again: bool) -> StreamedPart | None:
        """Return the part that ends with a text: the last one, if the given number is wrong.

        With `again`, its text may have ended before.
        """
        part = self.find(content.channel, content.index)
        if part is not None or not self.parts:
            return part
        last, text = self.parts[-1], self.parts[-1].text()
        if last.channel != content.channel or not text or not content.text.startswith(text):
            return None
        return last if not last.ended or (again and text == content.text) else None

    def held_text(self, channel: Channel, index: int) -> str:
        """Return the deltas of a part that are held."""
        same = (one for one in self.held if (one.channel, one.index) == (channel, index))
        return "".join(one.text for one in same)

    def align(self, contents: list[Content]) -> None:
        """Correct wrong numbers of streamed parts by the complete contents of the item."""
        given = {(content.channel, content.index) for content in contents}
        misplaced = [part for part in self.parts if (part.channel, part.index) not in given]
        for content in contents if misplaced else ():
            if self.find(content.channel, content.index) is not None:
                continue
            for part in misplaced:
                if part.channel == content.channel and content.text.startswith(part.text()):
                    part.index = content.index
                    misplaced.remove(part)
                    break

    def accepts(self, channel: Channel) -> bool:
        """Whether the item can contain a channel; true if its type is not known."""
        return self.kind is None or channel in ITEM_CHANNELS.get(self.kind, ())

    def is_of_type(self, item: Item) -> bool:
        """Whether the item may be this one, by its type alone."""
        if self.kind is None:
            channels = ITEM_CHANNELS.get(type(item), frozenset())
            return all(content.channel in channels for content in self.held)
        return self.kind is type(item) and self.subkind == getattr(item, "kind", None)

    def may_become(self, item: Item) -> bool:
        """Whether the item may be this complete one, by its type and its content so far."""
        if not self.is_of_type(item) or (isinstance(item, ToolCall) and item.name != self.name):
            return False
        contents = list(item_contents(item))
        parts = [(part.channel, part.text()) for part in self.parts]
        if isinstance(item, ToolCall) and not contents[0].text.strip():
            return not any(text.strip() for _, text in parts)
        return len(parts) <= len(contents) and all(
            channel == content.channel and content.text.startswith(text)
            for (channel, text), content in zip(parts, contents, strict=False)
        )

    def has_complete_arguments(self) -> bool:
        """Whether the item is a call whose arguments are complete."""
        if self.has_all_arguments or self.subkind != "function" or not self.parts:
            return self.has_all_arguments
        if self.completeness is None:
            self.completeness = JsonCompleteness(self.parts[0].texts)
        return self.completeness.is_complete()

    def lacks_arguments(self) -> bool:
        """Whether the item is a call whose arguments are blank so far."""
        texts = (text for part in self.parts for text in part.texts)
        return self.kind is ToolCall and not any(text.strip() for text in texts)


class StreamedItems:
    """The items of one stream, in the order in which they were first mentioned."""

    def __init__(self) -> None:
        self.all: list[StreamedItem] = []
        # The item with an id or an index; None if several items have it.
        self._by_id: dict[str, StreamedItem | None] = {}
        self._by_index: dict[int, StreamedItem | None] = {}

    def of_event(self, item_id: str | None, index: int | None, channel: Channel) -> StreamedItem:
        """Return the item of an event without an item, or add it."""
        known = self._by_id.get(item_id) if item_id else None
        if known is None and index is not None:
            known = self._by_index.get(index)
            if known is not None and known.done and item_id and item_id != known.item_id:
                # Nothing follows the end of an item, so the index is that of another one.
                known = None
        if known is None:
            known = self._last_candidate(item_id or None, index, channel)
        return known or self._add(item_id or None, index)

    def _last_candidate(
        self, item_id: str | None, index: int | None, channel: Channel
    ) -> StreamedItem | None:
        """Return the last open item that an event may belong to, if its keys are not unique."""
        is_shared = item_id in self._by_id or index in self._by_index
        possible = [one for one in reversed(self.all) if not one.done and one.accepts(channel)]
        for one in possible:
            if is_shared and (one.item_id, one.index) in {
                (item_id, one.index),
                (one.item_id, index),
            }:
                return one
            # The beginning of the item may have lacked the key that this event has.
            if (
                not is_shared
                and not (item_id and one.item_id)
                and (index is None or one.index is None)
            ):
                self._identify(one, item_id, index)
                return one
        # A server that sends the beginning of an item sends it for all items, so no other begins.
        return next((one for one in possible if one.added), None)

    def of_item(self, item: Item, index: int | None, stage: Stage) -> StreamedItem:
        """Return the received content of a complete item, or add the item."""
        item_id: str | None = getattr(item, "item_id", None) or None
        known = next(self._matching(item, item_id, index, stage), None)
        if known is None:
            known = self._add(item_id, index)
        else:
            self._identify(known, item_id, None if stage == "final" else index)
        known.added = True
        known.done = known.done or stage != "added"
        known.is_final = stage == "final"
        if known.kind is None:
            known.describe(item)
        return known

    def _matching(
        self, item: Item, item_id: str | None, index: int | None, stage: Stage
    ) -> Iterator[StreamedItem]:
        """Yield the items that a complete item may be, the most certain one first."""
        possible = [one for one in self.all if one.is_of_type(item) and not one.is_final]
        by_id = self._by_id.get(item_id) if item_id else None
        if by_id is not None and by_id in possible and _may_be_sent(by_id, item, index, stage):
            yield by_id
        if isinstance(item, ToolCall) and item.call_id:
            same_call = [one for one in possible if one.call_id == item.call_id]
            for one in sorted(same_call, key=lambda one: one.index != index):
                if _may_be_sent(one, item, index, stage):
                    yield one
            # A call with another call id is another call, unless all ids change.
            possible = [one for one in possible if not one.call_id or one.may_become(item)]
        by_index = None if index is None else self._by_index.get(index)
        if by_index not in possible:
            by_index = None
        if by_index is not None and _may_have_index(by_index, item, stage):
            yield by_index
        if stage == "done":
            yield from (one for one in possible if _lacks_keys(one, item, item_id, index))
        elif stage == "final":
            yield from (one for one in possible if one.may_become(item))
            if by_index is not None:
                # The final text differs, which is reported.
                yield by_index

    def add(self) -> StreamedItem:
        """Add an item to which no other event refers."""
        return self._add(None, None)

    def _add(self, item_id: str | None, index: int | None) -> StreamedItem:
        place = len(self.all) if index is None or index in self._by_index else index
        added = StreamedItem(None, None, path=f"output[{place}]")
        self.all.append(added)
        # A key that several items have identifies none of them.
        if item_id in self._by_id:
            self._by_id[item_id] = None
        if index in self._by_index:
            self._by_index[index] = None
        self._identify(added, item_id, index)
        added.item_id, added.index = item_id, index
        return added

    def _identify(self, known: StreamedItem, item_id: str | None, index: int | None) -> None:
        """Store keys by which later events may refer to an item."""
        if item_id is not None:
            self._by_id.setdefault(item_id, known)
            known.item_id = known.item_id or item_id
        if index is not None:
            self._by_index.setdefault(index, known)
            known.index = index if known.index is None else known.index


def _may_be_sent(known: StreamedItem, item: Item, index: int | None, stage: Stage) -> bool:
    """Whether an event with a known id may be about this item, and not about another one.

    Some servers send one id for all items, others send an event twice.
    """
    same_index = index is None or known.index is None or index == known.index
    if stage == "added":
        return not known.added or (same_index and not known.done)
    return stage == "final" or not known.done or (same_index and known.may_become(item))


def _may_have_index(known: StreamedItem, item: Item, stage: Stage) -> bool:
    """Whether an event with a known index and a new id may be about this item."""
    if stage == "added":
        return not known.added
    return (stage == "done" and not known.done) or known.may_become(item)


def _lacks_keys(known: StreamedItem, item: Item, item_id: str | None, index: int | None) -> bool:
    """Whether an open item may be the one that ends, although its keys do not show it."""
    if known.done or not known.may_become(item):
        return False
    has_text = any(part.text() for part in known.parts)
    if index is not None and known.index is not None and index != known.index:
        return has_text
    changed = bool(item_id and known.item_id and item_id != known.item_id)
    return not changed or has_text
