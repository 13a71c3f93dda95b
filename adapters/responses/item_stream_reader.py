"""Reader of the items of a stream, from which servers omit content or send it repeatedly.

Arguments and texts may arrive in deltas, in the events that end a text or an item, in the final
response, or in several of these (https://github.com/BerriAI/litellm/issues/27144,
https://github.com/lidge-jun/opencodex/issues/361). Only content that has not arrived before becomes
an IR event. Servers identify an item by its id, by its index, or not at all
(https://github.com/docker/docker-agent/issues/2976).
"""

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
    OpaqueItem,
    Reasoning,
    Status,
    ToolCall,
)
from adapters.losses import Losses
from adapters.responses.streamed_items import (
    Content,
    StreamedItem,
    StreamedItems,
    StreamedPart,
    item_contents,
)
from adapters.responses.wire import CALLS

_TEXT_DIFFERS = "the final text differs from the streamed text, which is used"


class ItemStreamReader:
    """Converts the items of one stream to IR events."""

    def __init__(self, losses: Losses, call_ids: frozenset[str] = frozenset()) -> None:
        self._losses = losses
        self._items = StreamedItems()
        self._unique_ids = UniqueCallIds(losses, call_ids)
        self._blocks = 0
        # The call that was opened last.
        self._last_call: StreamedItem | None = None
        # The item of the latest event.
        self.latest: StreamedItem | None = None

    def find(self, item_id: str | None, index: int | None, channel: Channel) -> StreamedItem:
        """Return the item of a delta, or of the end of a text."""
        self.latest = known = self._items.of_event(item_id, index, channel)
        return known

    def begin(self, item: Item, index: int | None) -> list[Event]:
        """Open the block of an item, with the content that some servers send at once."""
        self.latest = known = self._items.of_item(item, index, "added")
        events = self._open(known, item)
        for content in item_contents(item):
            if content.text and known.find(content.channel, content.index) is None:
                events += self.complete(known, content)
        return events

    def begin_opaque(self, item: Item, index: int | None) -> list[Event]:
        """Open the block of an item that is read when it is complete."""
        self.latest = known = self._items.of_item(item, index, "added")
        return self._open(known, item)

    def begin_part(self, known: StreamedItem, channel: Channel, index: int) -> list[Event]:
        """Begin a part without text, unless it has begun."""
        if known.find(channel, index) is not None:
            return []
        if known.parts:
            known.parts[-1].ended = True
        events = self.add(known, channel, index, "")
        part = known.find(channel, index)
        if part is not None:
            part.begun = True
        return events

    def continues(self, known: StreamedItem, channel: Channel) -> bool:
        """Whether another delta of the item is only added to its last part."""
        return not known.closed and (channel != "arguments" or known is self._last_call)

    def _open(self, known: StreamedItem, item: Item) -> list[Event]:
        """Open the block of an item, unless it is open or the item is a call without a name."""
        if known.block is not None or (isinstance(item, ToolCall) and not item.name):
            return []
        known.describe(item)
        events: list[Event] = []
        if isinstance(item, ToolCall):
            events += self._close_complete_calls()
            self._last_call = known
            call_id = self._unique_ids.unique(item.call_id, item.name, known.path)
            item = replace(item, call_id=call_id, path=known.path)
        elif isinstance(item, Message | Reasoning | OpaqueItem):
            item = replace(item, path=known.path)
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
            events += self._open(known, _item_with(channel, known))
        if known.closed:
            if text:
                self._losses.dropped(known.path, "received after the end of the item")
            return events
        part = known.parts[-1] if known.parts else None
        if part is None or not (
            (part.channel == channel and part.index == index)
            or (part.may_continue(channel) and known.find(channel, index) is None)
        ):
            if channel not in ITEM_CHANNELS.get(known.kind or Message, ()):
                self._losses.dropped(known.path, f"the item cannot contain {channel}")
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

    def annotate(self, known: StreamedItem, index: int, annotation: Annotation) -> list[Event]:
        """Add an annotation to a part, or to the last text if no part has this index."""
        texts = [part for part in known.parts if part.channel == "text"]
        if texts and known.find("text", index) is None:
            index = texts[-1].index
        return self.add(known, "text", index, "", (), (annotation,))

    def end_arguments(self, known: StreamedItem) -> list[Event]:
        """Store that all arguments of a call arrived, and close the call if another one waits."""
        known.has_ended_arguments = True
        # Some servers send empty arguments first, and the real ones when the item is done.
        known.has_all_arguments = any(text.strip() for part in known.parts for text in part.texts)
        return [] if known is self._last_call else self._close_complete(known)

    def _close_complete_calls(self) -> list[Event]:
        """Close the calls with complete arguments, because another call begins and would wait."""
        return [event for known in self._items.all for event in self._close_complete(known)]

    def _close_complete(self, known: StreamedItem) -> list[Event]:
        if known.closed or known.block is None or not known.has_complete_arguments():
            return []
        return self._close(known, "completed")

    def complete(
        self, known: StreamedItem, content: Content, *, again: bool = False
    ) -> list[Event]:
        """Add the missing rest of a part whose complete content has arrived, once or `again`."""
        channel, index, text = content.channel, content.index, content.text
        part = known.find_ending(content, again=again)
        if part is None:
            text = self._without_held(known, content)
            events = self.add(known, channel, index, text, content.logprobs, content.annotations)
            part = known.find(channel, index)
            if part is not None:
                part.ended = True
            return events
        part.ended = True
        streamed = part.text()
        if not text.startswith(streamed):
            self._losses.changed(known.path, _TEXT_DIFFERS)
            return []
        if part is not known.parts[-1]:
            if text != streamed:
                self._losses.dropped(known.path, "received after the end of the part")
            return []
        logprobs = () if part.has_logprobs else content.logprobs
        annotations = content.annotations[part.annotations :]
        rest = text.removeprefix(streamed)
        return self.add(known, channel, part.index, rest, logprobs, annotations)

    def _without_held(self, known: StreamedItem, content: Content) -> str:
        """Return the rest of a text after the deltas that are held until the item begins."""
        held = known.held_text(content.channel, content.index)
        if not content.text.startswith(held):
            self._losses.changed(known.path, _TEXT_DIFFERS)
            return ""
        return content.text.removeprefix(held)

    def end(self, item: Item, index: int | None) -> list[Event]:
        """Add the missing rest of an item that is now complete, and close its block."""
        self.latest = known = self._items.of_item(item, index, "done")
        if known.closed:
            return []
        events = self._add_rest(known, item)
        is_call = isinstance(item, ToolCall) and item.kind in CALLS and item.status != "incomplete"
        is_empty = known.subkind == "custom" and known.has_ended_arguments
        if is_call and known.lacks_arguments() and not is_empty:
            # Some servers send the arguments only in the final response.
            return events
        return events + self._end(known, item)

    def end_finally(self, item: Item, index: int) -> list[Event]:
        """Add what is only in the final response: an item, or the missing rest of one."""
        known = self._items.of_item(item, index, "final")
        if not known.closed:
            return self._add_rest(known, item) + self._end(known, item)
        late = [content for content in item_contents(item) if not _has_received(known, content)]
        if late and known.kind is Message and not any(part.text() for part in known.parts):
            # Its end came without any text, so the text becomes a message of its own.
            known = self._items.add()
            return self._add_rest(known, item) + self._end(known, item)
        for content in late:
            part = known.find(content.channel, content.index)
            if part is None or content.text.startswith(part.text()):
                self._losses.dropped(known.path, "received after the end of the item")
            else:
                self._losses.changed(known.path, _TEXT_DIFFERS)
        return []

    def _add_rest(self, known: StreamedItem, item: Item) -> list[Event]:
        events = self._open(known, item)
        contents = list(item_contents(item))
        known.align(contents)
        for content in contents:
            events += self.complete(known, content)
        return events

    def _end(self, known: StreamedItem, item: Item) -> list[Event]:
        if known.closed:
            # Its arguments became complete while another call waited.
            return []
        encrypted = item.encrypted if isinstance(item, Reasoning) else None
        return self._close(known, getattr(item, "status", None), encrypted)

    def _close(
        self, known: StreamedItem, status: Status | None, encrypted: str | None = None
    ) -> list[Event]:
        known.closed = True
        if known.block is None:
            self._losses.dropped(known.path, MISSING_NAME_REASON, "capability")
            return []
        if status == "incomplete":
            return [Closed(known.block, "incomplete", encrypted)]
        closed = Closed(known.block, "completed", encrypted)
        if known.subkind != "function" or not known.lacks_arguments():
            return [closed]
        self._losses.changed(known.path, EMPTY_ARGUMENTS_REASON)
        return [Delta(known.block, "arguments", EMPTY_ARGUMENTS), closed]

    def close_all(self, *, truncated: bool) -> list[Event]:
        """Close all open blocks; the last block of a truncated reply is incomplete."""
        events: list[Event] = []
        for known in self._items.all:
            if not known.closed:
                last = known.block == self._blocks - 1
                events += self._close(known, "incomplete" if truncated and last else "completed")
        return events


def _item_with(channel: Channel, known: StreamedItem) -> Item:
    """Return the item of a delta, whose type follows from the channel if no event added it."""
    if channel in ("text", "refusal"):
        return Message("assistant", item_id=known.item_id)
    return Reasoning(item_id=known.item_id)


def _has_received(known: StreamedItem, content: Content) -> bool:
    """Whether the text of a part of the final response was streamed."""
    part = known.find(content.channel, content.index)
    return not content.text.strip() or (part is not None and part.text() == content.text)
