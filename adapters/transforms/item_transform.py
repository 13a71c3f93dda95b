"""The base class of transforms that change complete items of a reply."""

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.accumulator import ItemBuffer, item_events
from adapters.ir.events import BlockId, Closed, Delta, Event, Opened
from adapters.ir.types import Item, Message, Reasoning, ToolCall
from adapters.transforms.transform import EventTransform


class _Block(Struct, eq=False):
    """An open block, which is held or waits behind one that is held."""

    opened: Opened
    # Whether its item is changed, so that it is held until it is complete.
    is_held: bool
    events: list[Delta | Closed] = []
    is_closed: bool = False

    def item(self) -> Item:
        """Return the item of a block that is held; it is incomplete if the block is not closed."""
        buffer = ItemBuffer(self.opened)
        for event in self.events:
            if isinstance(event, Delta):
                buffer.add(event)
            else:
                buffer.closed = event
        item = buffer.item()
        if not self.is_closed and isinstance(item, Message | ToolCall | Reasoning):
            return replace(item, status="incomplete")
        return item


class ItemTransform(EventTransform):
    """A change to complete items of one reply, such as messages and tool calls.

    An item is held until it is complete, so the change to a streamed reply is always the same as
    that to a whole one. Items that are not held are streamed as usual. The order of the items of a
    choice does not change.
    """

    def __init__(self) -> None:
        # The blocks that are held or wait, by choice and by id.
        self._queues: dict[int, deque[_Block]] = {}
        self._waiting: dict[BlockId, _Block] = {}

    def holds(self, _item: Item, /) -> bool:
        """Whether an item is changed; it has no content yet. By default all items are."""
        return True

    def item(self, item: Item) -> Sequence[Item]:
        """Return the items that replace a complete one; an empty list drops it."""
        return [item]

    @property
    def passes_deltas(self) -> bool:
        """Whether no item is held."""
        return not self._waiting

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that replace one event."""
        match event:
            case Opened():
                return self._open(event)
            case Delta() | Closed():
                return self._continue(event)
            case _:
                return [event]

    def flush(self) -> Sequence[Event]:
        """Return the items that are still held, because the reply failed."""
        return [event for choice in [*self._queues] for event in self._release(choice, end=True)]

    def _open(self, event: Opened) -> list[Event]:
        is_held = self.holds(event.item)
        if not is_held and event.choice not in self._queues:
            return [event]
        block = self._waiting[event.index] = _Block(event, is_held)
        self._queues.setdefault(event.choice, deque()).append(block)
        return []

    def _continue(self, event: Delta | Closed) -> list[Event]:
        block = self._waiting.get(event.index)
        if block is None:
            return [event]
        block.events.append(event)
        if isinstance(event, Delta):
            return []
        block.is_closed = True
        return [*self._release(block.opened.choice)]

    def _release(self, choice: int, *, end: bool = False) -> Iterator[Event]:
        """Yield the events of blocks up to one that is still held; at the end, of all."""
        queue = self._queues[choice]
        while queue and (queue[0].is_closed or not queue[0].is_held or end):
            block = queue.popleft()
            del self._waiting[block.opened.index]
            if block.is_held:
                yield from self._changed(block)
            else:
                yield from (block.opened, *block.events)
        if not queue:
            del self._queues[choice]

    def _changed(self, block: _Block) -> Iterator[Event]:
        index, choice = block.opened.index, block.opened.choice
        for number, item in enumerate(self.item(block.item())):
            yield from item_events(f"{index}.{number}" if number else index, choice, item)
