"""Reader of the items of a stream, from which servers omit content or send it repeatedly.

Arguments and texts may arrive in deltas, in the events that end a text or an item, in the final
response, or in several of these (https://github.com/BerriAI/litellm/issues/27144,
https://github.com/lidge-jun/opencodex/issues/361). Only content that has not arrived before becomes
an IR event. Servers identify an item by its id, by its index, or not at all
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
from adapters.json_text import JsonCompleteness
from adapters.losses import Losses


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


class StreamedItem(Struct, eq=False):
    """The received content of one item."""

    item_id: str | None
    # Set when the block of the item is opened.
    block: int | None = None
    kind: type[Item] | None = None
    is_function: bool = False
    # The path of a call in losses.
    path: str = ""
    parts: list[StreamedPart] = []
    # Deltas that arrived before the block could be opened.
    held: list[Content] = []
    closed: bool = False
    # Whether the server sent the end of the arguments.
    has_all_arguments: bool = False
    # Created when completeness is checked for the first time.
    completeness: JsonCompleteness | None = None

    def find(self, channel: Channel, index: int) -> StreamedPart | None:
        """Return a part that has begun."""
        for part in self.parts:
            if part.channel == channel and part.index == index:
                return part
        return None

    def has_complete_arguments(self) -> bool:
        """Whether the item is a call whose arguments are complete."""
        if self.has_all_arguments or not self.is_function or not self.parts:
            return self.has_all_arguments
        if self.completeness is None:
            self.completeness = JsonCompleteness(self.parts[0].texts)
        return self.completeness.is_complete()

    def lacks_arguments(self) -> bool:
        """Whether the item is a function call without arguments."""
        return self.is_function and not any(text.strip() for p in self.parts for text in p.texts)


class ItemStreamReader:
    """Converts the items of one stream to IR events."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._items: list[StreamedItem] = []
        self._by_id: dict[str, StreamedItem] = {}
        self._by_index: dict[int, StreamedItem] = {}
        self._by_call_id: dict[str, StreamedItem] = {}
        self._unique_ids = UniqueCallIds(losses)
        self._blocks = 0
        # The call that was opened last.
        self._last_call: StreamedItem | None = None

    # Identification

    def find(self, item_id: str | None, index: int | None) -> StreamedItem:
        """Return the item of an event, or add it; without id and index, the last open item."""
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
        """Return the received content of an item that was sent in whole, or add the item."""
        item_id = getattr(item, "item_id", None)
        known = self._find(item_id, index)
        if known is None and isinstance(item, ToolCall):
            known = self._by_call_id.get(item.call_id)
            if known is not None and known.closed and index is not None:
                # This is another call with the same id.
                known = None
        if known is not None and (
            known.kind not in (None, type(item))
            or (known.item_id and item_id and known.item_id != item_id)
        ):
            known = None
        return known or self._add(item_id, index)

    def is_repeated(self, item: Item) -> bool:
        """Whether a closed item has this content: the final response may repeat it without id."""
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
        """Open the block of an item, unless it is open or the item is a call without a name."""
        if known.block is not None or (isinstance(item, ToolCall) and not item.name):
            return []
        known.kind = type(item)
        events: list[Event] = []
        if isinstance(item, ToolCall):
            events += self._close_complete_calls()
            self._last_call = known
            known.is_function = item.kind == "function"
            self._by_call_id[item.call_id] = known
            item = replace(item, call_id=self._unique_ids.unique(item.call_id, item.name))
            known.path = call_path(item)
        known.block = self._blocks
        self._blocks += 1
        events.append(Opened(known.block, without_content(item)))
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
                # Hold the delta until the name of the call is known.
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
            if channel == "arguments" and known is not self._last_call:
                events += self._close_complete(known)
        return events

    def end_arguments(self, known: StreamedItem) -> list[Event]:
        """Store that all arguments of a call arrived, and close the call if another one waits."""
        # Some servers send empty arguments first, and the real ones when the item is done.
        known.has_all_arguments = any(text.strip() for part in known.parts for text in part.texts)
        return [] if known is self._last_call else self._close_complete(known)

    def _close_complete_calls(self) -> list[Event]:
        """Close the calls with complete arguments, because another call begins and would wait."""
        return [event for known in self._items for event in self._close_complete(known)]

    def _close_complete(self, known: StreamedItem) -> list[Event]:
        if known.closed or known.block is None or not known.has_complete_arguments():
            return []
        return self._close(known, "completed")

    def complete(self, known: StreamedItem, content: Content) -> list[Event]:
        """Add the missing rest of a part whose complete content has arrived."""
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
        """Add the missing rest of an item that is now complete, and close its block."""
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
            self._losses.dropped("call", MISSING_NAME_REASON, "capability")
            return []
        if status == "incomplete":
            return [Closed(known.block, "incomplete", encrypted)]
        closed = Closed(known.block, "completed", encrypted)
        if not known.lacks_arguments():
            return [closed]
        self._losses.changed(known.path, EMPTY_ARGUMENTS_REASON)
        return [Delta(known.block, "arguments", EMPTY_ARGUMENTS), closed]

    def close_all(self, *, truncated: bool) -> list[Event]:
        """Close all open blocks; the last block of a truncated reply is incomplete."""
        events: list[Event] = []
        for known in self._items:
            if not known.closed:
                last = known.block == self._blocks - 1
                events += self._close(known, "incomplete" if truncated and last else "completed")
        return events


def _item_with(channel: Channel, item_id: str | None) -> Item:
    """Return the item of a delta, whose type follows from the channel if no event added it."""
    if channel in ("text", "refusal"):
        return Message("assistant", item_id=item_id)
    return Reasoning(item_id=item_id)
