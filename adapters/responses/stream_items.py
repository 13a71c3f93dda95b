"""Tells the items of a Responses stream as blocks, whatever its server leaves out.

Arguments and texts may come in deltas, in the done events, in the finished item, in the final
snapshot, or in all of these (P127, P128, P134): what is told is always just what is still missing.
Items are known by their id, by their place, or by neither (P130).
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

# One item of a Responses stream on its way in.


class IncomingPart:
    """What has come of one part, for comparison with what the server says of it at the end."""

    __slots__ = ("annotations", "channel", "has_logprobs", "index", "texts")

    def __init__(self, channel: Channel, index: int) -> None:
        self.channel: Channel = channel
        # The server's own number of it.
        self.index = index
        self.texts: list[str] = []
        self.annotations = 0
        self.has_logprobs = False


class BufferedDelta:
    """A delta that came before anybody knew what it belongs to."""

    __slots__ = ("channel", "index", "text")

    def __init__(self, channel: Channel, index: int, text: str) -> None:
        self.channel: Channel = channel
        self.index = index
        self.text = text


class StreamedItem:
    """One item: its ids, its block once it is told, its parts."""

    __slots__ = ("block", "closed", "held", "is_function", "item_id", "kind", "name", "parts")

    def __init__(self, item_id: str | None) -> None:
        self.item_id = item_id
        self.kind: type[Item] | None = None
        self.is_function = False
        # Of a call: how to name it in a loss.
        self.name = ""
        self.block: int | None = None
        self.parts: list[IncomingPart] = []
        self.held: list[BufferedDelta] = []
        self.closed = False

    def current(self, channel: Channel, index: int) -> IncomingPart | None:
        """Give the part that is being filled, if it is this one."""
        if self.parts:
            part = self.parts[-1]
            if part.channel == channel and part.index == index:
                return part
        return None

    def lacks_arguments(self) -> bool:
        """Tell whether it is a call of a function with nothing that could be parsed."""
        return self.is_function and not any(text.strip() for p in self.parts for text in p.texts)

    def find(self, channel: Channel, index: int) -> IncomingPart | None:
        """Give a part that has begun."""
        for part in self.parts:
            if part.channel == channel and part.index == index:
                return part
        return None


class Content(Struct, frozen=True):
    """What a server says of one part when it is whole."""

    channel: Channel
    index: int
    text: str
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[Logprob, ...] = ()


def contents(item: Item) -> Iterator[Content]:
    """Give the parts of a whole item."""
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


class ItemsReader:
    """The items of one stream."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._items: list[StreamedItem] = []
        self._by_id: dict[str, StreamedItem] = {}
        self._by_place: dict[int, StreamedItem] = {}
        self._by_call_id: dict[str, StreamedItem] = {}
        self._ids = UniqueCallIds(losses)
        self._blocks = 0

    # Which item is meant?

    def find(self, item_id: str | None, place: int | None) -> StreamedItem:
        """Find the item of an event, or make one that waits to be known."""
        known = self._find(item_id, place)
        if known is None and item_id is None and place is None:
            known = next((one for one in reversed(self._items) if not one.closed), None)
        return known or self._make(item_id, place)

    def _find(self, item_id: str | None, place: int | None) -> StreamedItem | None:
        if item_id is not None and item_id in self._by_id:
            return self._by_id[item_id]
        known = None if place is None else self._by_place.get(place)
        if known is not None and item_id and known.item_id and known.item_id != item_id:
            return None
        return known

    def find_item(self, item: Item, place: int | None) -> StreamedItem:
        """Find what has come of an item that a server now tells whole."""
        item_id = getattr(item, "item_id", None)
        known = self._find(item_id, place)
        if known is None and isinstance(item, ToolCall):
            known = self._by_call_id.get(item.call_id)
            if known is not None and known.closed and place is not None:
                # Ended, and in another place: another call under the same id.
                known = None
        if known is not None and not _may_be(known, item, item_id):
            known = None
        return known or self._make(item_id, place)

    def find_already_sent(self, item: Item) -> StreamedItem | None:
        """Find an item that ended with just this content; the last snapshot may lack its id."""
        told = [(one.channel, one.text) for one in contents(item)]
        for incoming in self._items:
            parts = [(part.channel, "".join(part.texts)) for part in incoming.parts]
            if incoming.closed and incoming.kind is type(item) and parts == told:
                return incoming
        return None

    def _make(self, item_id: str | None, place: int | None) -> StreamedItem:
        made = StreamedItem(item_id)
        self._items.append(made)
        if item_id is not None:
            self._by_id[item_id] = made
        if place is not None:
            self._by_place[place] = made
        return made

    # What is told of it?

    def open(self, incoming: StreamedItem, item: Item) -> Iterator[Event]:
        """Tell that an item has begun, once it is known what it is."""
        if incoming.block is not None or (isinstance(item, ToolCall) and not item.name):
            return
        incoming.kind = type(item)
        incoming.is_function = isinstance(item, ToolCall) and item.kind == "function"
        if isinstance(item, ToolCall):
            self._by_call_id[item.call_id] = incoming
            item = replace(item, call_id=self._ids.unique(item.call_id, item.name))
            incoming.name = f"{item.name} ({item.call_id})"
        incoming.block = self._blocks
        self._blocks += 1
        yield Opened(incoming.block, without_content(item))
        held, incoming.held = incoming.held, []
        for one in held:
            yield from self.fill(incoming, one.channel, one.index, one.text)

    def begin(self, incoming: StreamedItem, item: Item) -> Iterator[Event]:
        """Tell that an item has begun, with what some servers put into it at once."""
        yield from self.open(incoming, item)
        for content in contents(item):
            if content.text and incoming.find(content.channel, content.index) is None:
                yield from self.complete(incoming, content)

    def fill(
        self,
        incoming: StreamedItem,
        channel: Channel,
        index: int,
        text: str,
        logprobs: tuple[Logprob, ...] = (),
        annotations: tuple[Annotation, ...] = (),
    ) -> list[Event]:
        """Tell more of an item; the first of a part begins it."""
        events: list[Event] = []
        if incoming.block is None:
            if channel == "arguments":
                # Whom the model calls is not known yet.
                incoming.held.append(BufferedDelta(channel, index, text))
                return events
            events += self.open(incoming, _item_of(channel, incoming.item_id))
        if incoming.block is None:
            return events
        if incoming.closed:
            if text:
                self._losses.dropped(channel, "more came after its item had ended")
            return events
        part = incoming.current(channel, index)
        if part is None and channel not in ITEM_CHANNELS.get(incoming.kind or Message, ()):
            self._losses.dropped(channel, "it belongs to no item that could have it")
            return events
        if part is None:
            part = IncomingPart(channel, index)
            incoming.parts.append(part)
        elif not text and not logprobs and not annotations:
            return events
        part.texts.append(text)
        part.annotations += len(annotations)
        part.has_logprobs = part.has_logprobs or bool(logprobs)
        number = len(incoming.parts) - 1
        events.append(Delta(incoming.block, channel, text, number, logprobs, annotations))
        return events

    def complete(self, incoming: StreamedItem, content: Content) -> Iterator[Event]:
        """Tell what is still missing of a part that a server now tells whole."""
        part = incoming.find(content.channel, content.index)
        if part is None:
            yield from self._fill_whole(incoming, content, content.text)
            return
        told = "".join(part.texts)
        if not content.text.startswith(told):
            self._losses.changed(
                content.channel, "the backend ends with another text than it streamed; that stands"
            )
            return
        if part is not incoming.parts[-1]:
            if content.text != told:
                self._losses.dropped(content.channel, "more came after its part had ended")
        else:
            missing = content.text.removeprefix(told)
            logprobs = () if part.has_logprobs else content.logprobs
            annotations = content.annotations[part.annotations :]
            yield from self.fill(
                incoming, content.channel, content.index, missing, logprobs, annotations
            )

    def _fill_whole(self, incoming: StreamedItem, content: Content, text: str) -> Iterator[Event]:
        yield from self.fill(
            incoming, content.channel, content.index, text, content.logprobs, content.annotations
        )

    def finish(self, incoming: StreamedItem, item: Item) -> Iterator[Event]:
        """Tell the rest of an item, and that it has ended."""
        if incoming.closed:
            return
        yield from self.open(incoming, item)
        for content in contents(item):
            yield from self.complete(incoming, content)
        status = getattr(item, "status", None)
        encrypted = item.encrypted if isinstance(item, Reasoning) else None
        yield from self._close(incoming, status or "completed", encrypted)

    def _close(
        self, incoming: StreamedItem, status: Status, encrypted: str | None = None
    ) -> Iterator[Event]:
        incoming.closed = True
        if incoming.block is None:
            self._losses.dropped("call", MISSING_NAME_REASON)
            return
        ended: Status = "incomplete" if status == "incomplete" else "completed"
        if ended == "completed" and incoming.lacks_arguments():
            self._losses.changed(f"call {incoming.name}", EMPTY_ARGUMENTS_REASON)
            yield Delta(incoming.block, "arguments", EMPTY_ARGUMENTS)
        yield Closed(incoming.block, ended, encrypted)

    def close_all(self, *, cut: bool) -> Iterator[Event]:
        """Close what the server left open; the last item of a cut-off answer is incomplete."""
        for incoming in self._items:
            if not incoming.closed:
                last = incoming.block == self._blocks - 1
                yield from self._close(incoming, "incomplete" if cut and last else "completed")


def _may_be(known: StreamedItem, item: Item, item_id: str | None) -> bool:
    """Tell whether what came so far can be of this item."""
    if known.item_id and item_id and known.item_id != item_id:
        return False
    return known.kind in (None, type(item))


def _item_of(channel: Channel, item_id: str | None) -> Item:
    """Give the item that a delta must belong to, where nobody announced it."""
    if channel in ("text", "refusal"):
        return Message("assistant", item_id=item_id)
    return Reasoning(item_id=item_id)
