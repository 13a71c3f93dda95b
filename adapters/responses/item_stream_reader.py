"""The items of a stream, as events of blocks, whatever its server leaves out or repeats.

Arguments and texts may come in deltas, in the events that end a text or an item, in the final
response, or in several of them (https://github.com/BerriAI/litellm/issues/27144,
https://github.com/lidge-jun/opencodex/issues/361). Only what is still missing becomes an event.
Items are identified by their id, by their index, or by neither
(https://github.com/docker/docker-agent/issues/2976).
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.events import ITEM_CHANNELS, Channel, Closed, Delta, Event, Opened
from adapters.ir.normalize import (
    EMPTY_ARGUMENTS,
    EMPTY_ARGUMENTS_REASON,
    MISSING_NAME_REASON,
    UniqueCallIds,
    call_path,
    without_content,
)
from adapters.ir.types import (
    Annotation,
    Item,
    Logprob,
    Message,
    Reasoning,
    Refusal,
    Status,
    Text,
    ToolCall,
)
from adapters.losses import Losses


class Content(Struct, frozen=True):
    """The content of one part, complete or a piece of it."""

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
    """What came of one part, to compare it with what its server sends at the end."""

    channel: Channel
    index: int
    texts: list[str] = []
    annotations: int = 0
    has_logprobs: bool = False


class StreamedItem(Struct, eq=False):
    """What came of one item."""

    item_id: str | None
    # Known once its block is open.
    block: int | None = None
    kind: type[Item] | None = None
    is_function: bool = False
    # How losses refer to it, if it is a call.
    path: str = ""
    parts: list[StreamedPart] = []
    # Deltas that came before its block could be opened.
    held: list[Content] = []
    closed: bool = False

    def find(self, channel: Channel, index: int) -> StreamedPart | None:
        """Return a part that has begun."""
        for part in self.parts:
            if part.channel == channel and part.index == index:
                return part
        return None

    def lacks_arguments(self) -> bool:
        """Whether it is a function call with nothing that could be parsed as arguments."""
        return self.is_function and not any(text.strip() for p in self.parts for text in p.texts)


class ItemsReader:
    """The items of one stream."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._items: list[StreamedItem] = []
        self._by_id: dict[str, StreamedItem] = {}
        self._by_index: dict[int, StreamedItem] = {}
        self._by_call_id: dict[str, StreamedItem] = {}
        self._unique_ids = UniqueCallIds(losses)
        self._blocks = 0

    # Identification

    def find(self, item_id: str | None, index: int | None) -> StreamedItem:
        """Return the item of an event, new if it is not known; without both, the last open one."""
        known = self._find(item_id, index)
        if known is None and item_id is None and index is None:
            known = next((item for item in reversed(self._items) if not item.closed), None)
        return known or self._add(item_id, index)

    def _find(self, item_id: str | None, index: int | None) -> StreamedItem | None:
        if item_id is not None and item_id in self._by_id:
            return self._by_id[item_id]
        known = None if index is None else self._by_index.get(index)
        if known is not None and item_id and known.item_id and known.item_id != item_id:
            return None
        return known

    def find_item(self, item: Item, index: int | None) -> StreamedItem:
        """Return what came of an item that is now complete."""
        item_id = getattr(item, "item_id", None)
        known = self._find(item_id, index)
        if known is None and isinstance(item, ToolCall):
            known = self._by_call_id.get(item.call_id)
            if known is not None and known.closed and index is not None:
                # Another call with the same id.
                known = None
        if known is not None and not _may_be(known, item, item_id):
            known = None
        return known or self._add(item_id, index)

    def is_repeated(self, item: Item) -> bool:
        """Whether an item with this content is closed; the final response may lack its id."""
        contents = [(content.channel, content.text) for content in item_contents(item)]
        return any(
            known.closed
            and known.kind is type(item)
            and [(part.channel, "".join(part.texts)) for part in known.parts] == contents
            for known in self._items
        )

    def _add(self, item_id: str | None, index: int | None) -> StreamedItem:
        added = StreamedItem(item_id)
        self._items.append(added)
        if item_id is not None:
            self._by_id[item_id] = added
        if index is not None:
            self._by_index[index] = added
        return added

    # Events

    def begin(self, known: StreamedItem, item: Item) -> list[Event]:
        """Open the block of an item, with the content that some servers send at once."""
        events = self._open(known, item)
        for content in item_contents(item):
            if content.text and known.find(content.channel, content.index) is None:
                events += self.complete(known, content)
        return events

    def _open(self, known: StreamedItem, item: Item) -> list[Event]:
        """Open the block of an item, unless it is open or a call whose name is not known."""
        if known.block is not None or (isinstance(item, ToolCall) and not item.name):
            return []
        known.kind = type(item)
        if isinstance(item, ToolCall):
            known.is_function = item.kind == "function"
            self._by_call_id[item.call_id] = known
            item = replace(item, call_id=self._unique_ids.unique(item.call_id, item.name))
            known.path = call_path(item)
        known.block = self._blocks
        self._blocks += 1
        events: list[Event] = [Opened(known.block, without_content(item))]
        held, known.held = known.held, []
        for content in held:
            events += self.add(known, content.channel, content.index, content.text)
        return events

    def add(
        self,
        known: StreamedItem,
        channel: Channel,
        index: int,
        text: str,
        logprobs: tuple[Logprob, ...] = (),
        annotations: tuple[Annotation, ...] = (),
    ) -> list[Event]:
        """Add a delta to an item; the first one of a part begins the part."""
        events: list[Event] = []
        if known.block is None:
            if channel == "arguments":
                # The name of the call is not known yet.
                known.held.append(Content(channel, index, text))
                return events
            events += self._open(known, _item_with(channel, known.item_id))
        if known.closed:
            if text:
                self._losses.dropped(channel, "received after the end of the item")
            return events
        part = known.parts[-1] if known.parts else None
        if part is None or part.channel != channel or part.index != index:
            if channel not in ITEM_CHANNELS.get(known.kind or Message, ()):
                self._losses.dropped(channel, "received for an item that cannot contain it")
                return events
            part = StreamedPart(channel, index)
            known.parts.append(part)
        elif not text and not logprobs and not annotations:
            return events
        part.texts.append(text)
        part.annotations += len(annotations)
        part.has_logprobs = part.has_logprobs or bool(logprobs)
        if known.block is not None:
            number = len(known.parts) - 1
            events.append(Delta(known.block, channel, text, number, logprobs, annotations))
        return events

    def complete(self, known: StreamedItem, content: Content) -> list[Event]:
        """Add what is missing of a part that is now complete."""
        channel, index, text = content.channel, content.index, content.text
        part = known.find(channel, index)
        if part is None:
            return self.add(known, channel, index, text, content.logprobs, content.annotations)
        streamed = "".join(part.texts)
        if not text.startswith(streamed):
            reason = "the final text differs from the streamed text, which is used"
            self._losses.changed(channel, reason)
            return []
        if part is not known.parts[-1]:
            if text != streamed:
                self._losses.dropped(channel, "received after the end of the part")
            return []
        logprobs = () if part.has_logprobs else content.logprobs
        annotations = content.annotations[part.annotations :]
        return self.add(known, channel, index, text.removeprefix(streamed), logprobs, annotations)

    def finish(self, known: StreamedItem, item: Item) -> list[Event]:
        """Add what is missing of an item that is now complete, and close its block."""
        if known.closed:
            return []
        events = self._open(known, item)
        for content in item_contents(item):
            events += self.complete(known, content)
        encrypted = item.encrypted if isinstance(item, Reasoning) else None
        return events + self._close(known, getattr(item, "status", None), encrypted)

    def _close(
        self, known: StreamedItem, status: Status | None, encrypted: str | None = None
    ) -> list[Event]:
        known.closed = True
        if known.block is None:
            self._losses.dropped("call", MISSING_NAME_REASON)
            return []
        if status == "incomplete":
            return [Closed(known.block, "incomplete", encrypted)]
        closed = Closed(known.block, "completed", encrypted)
        if not known.lacks_arguments():
            return [closed]
        self._losses.changed(known.path, EMPTY_ARGUMENTS_REASON)
        return [Delta(known.block, "arguments", EMPTY_ARGUMENTS), closed]

    def close_all(self, *, truncated: bool) -> list[Event]:
        """Close the blocks that are open; the last block of a truncated reply is incomplete."""
        events: list[Event] = []
        for known in self._items:
            if not known.closed:
                last = known.block == self._blocks - 1
                events += self._close(known, "incomplete" if truncated and last else "completed")
        return events


def _may_be(known: StreamedItem, item: Item, item_id: str | None) -> bool:
    """Whether what came so far can be of this item."""
    if known.item_id and item_id and known.item_id != item_id:
        return False
    return known.kind in (None, type(item))


def _item_with(channel: Channel, item_id: str | None) -> Item:
    """Return the item to which a delta must belong if no event added one."""
    if channel in ("text", "refusal"):
        return Message("assistant", item_id=item_id)
    return Reasoning(item_id=item_id)
