"""The stage that puts blocks which overlap one after another.

Backends may send several calls in turns, but many clients mix up or reject calls whose pieces
alternate, and the texts of two messages cannot alternate in the one text of a Chat choice. So a
block waits until the block of the same type before it is closed. Deltas of the first open block are
not held. Readers close a call as soon as its arguments are complete and another call has begun.
Later blocks of any type wait behind a block that waits, so that blocks keep their order.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby

from msgspec import Struct, field
from msgspec.structs import replace

from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Opened
from adapters.ir.normalize import wants_one_choice
from adapters.ir.types import Item, Reply, Request
from adapters.stages.stage import Stage


class BlockSequencer(Stage):
    """A stage that holds a block until the block of the same type before it is closed."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        # Whether writers merge all choices into one.
        self._merges_choices = wants_one_choice(request)
        self._choices: dict[int, _ChoiceOrder] = {}
        # The choice and the type of each block that is open and does not wait.
        self._open_blocks: dict[BlockId, tuple[_ChoiceOrder, type[Item]]] = {}

    def applies_to(self, _reply: Reply) -> bool:
        """Whether the stage may change a whole reply: its blocks never overlap."""
        return False

    def note_passed(self, events: Iterable[Event]) -> None:
        """Note the blocks of a stream that was passed through so far, which may overlap."""
        for event in events:
            if isinstance(event, Closed):
                self._close(event)
            elif isinstance(event, Opened):
                choice, kind = self._choice(event), type(event.item)
                if kind not in choice.open_types:
                    self._begin(choice, event.index, kind)

    def _choice(self, event: Opened) -> "_ChoiceOrder":
        number = 0 if self._merges_choices else event.choice
        return self._choices.setdefault(number, _ChoiceOrder())

    def _open(self, event: Opened) -> list[Event]:
        choice, kind = self._choice(event), type(event.item)
        if choice.waiting or kind in choice.open_types:
            self._processors[event.index] = block = WaitingBlock(event.index, kind, [event])
            choice.waiting.append(block)
            return []
        self._begin(choice, event.index, kind)
        return [event]

    def _begin(self, choice: "_ChoiceOrder", block: BlockId, kind: type[Item]) -> None:
        choice.open_types.add(kind)
        self._open_blocks[block] = (choice, kind)

    def _close(self, event: Closed) -> list[Event]:
        begun = self._open_blocks.pop(event.index, None)
        if begun is None:
            return super()._close(event)
        choice, kind = begun
        choice.open_types.remove(kind)
        if not choice.waiting:
            return [event]
        return _with_incomplete_last([event, *self._release(choice)])

    def _release(self, choice: "_ChoiceOrder") -> list[Event]:
        """Return the events of the blocks that no longer wait."""
        events: list[Event] = []
        while choice.waiting and choice.waiting[0].kind not in choice.open_types:
            block = choice.waiting.popleft()
            events += block.merged_events()
            if self._processors.pop(block.index, None) is not None:
                self._begin(choice, block.index, block.kind)
        return events

    def _fail(self, event: Failed) -> list[Event]:
        waiting = (block for choice in self._choices.values() for block in choice.waiting)
        return [*(held for block in waiting for held in block.merged_events()), event]


def _with_incomplete_last(events: list[Event]) -> list[Event]:
    """Move all ends of blocks behind the blocks that begin after an incomplete one.

    Open Responses allows no item to begin after the end of an incomplete one.
    """
    for number, event in enumerate(events):
        if isinstance(event, Closed) and event.status == "incomplete":
            rest = events[number:]
            ends = [one for one in rest if isinstance(one, Closed)]
            return [
                *events[:number],
                *(one for one in rest if not isinstance(one, Closed)),
                *ends,
            ]
    return events


class _ChoiceOrder(Struct, eq=False):
    """The order of the blocks of one choice."""

    # The types of the items that are open and do not wait.
    open_types: set[type[Item]] = set()
    waiting: "deque[WaitingBlock]" = field(default_factory=deque)


class WaitingBlock(Struct, eq=False):
    """A block that waits for the end of another one."""

    index: BlockId
    kind: type[Item]
    events: list[Event]

    def feed(self, delta: Delta) -> list[Event]:
        """Hold a delta."""
        self.events.append(delta)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Hold the end of the block."""
        self.events.append(closed)
        return []

    def merged_events(self) -> Iterator[Event]:
        """Yield the held events, with neighboring deltas of the same part as one."""
        for part, group in groupby(self.events, _plain_part):
            events = list(group)
            deltas = [event for event in events if isinstance(event, Delta)]
            if part is None or len(deltas) == 1:
                yield from events
            else:
                yield replace(deltas[0], text="".join(delta.text for delta in deltas))


def _plain_part(event: Event) -> int | None:
    """Return the part of a delta that has only a text."""
    if not isinstance(event, Delta) or event.logprobs or event.annotations:
        return None
    return event.part
