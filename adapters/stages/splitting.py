"""What stages share that look into the texts of an answer and make several blocks of one message.

Blocks are told under new numbers. A text of which nobody knows yet what it is, is held back; it
keeps its place before whatever begins after it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.types import Choice, Item, Message, Reply
from adapters.losses import Losses


class SplitMessage(Protocol):
    """One message on its way."""

    choice: int

    def fill(self, delta: Delta) -> list[Event]:
        """Take a piece."""
        ...

    def flush_before_next_block(self) -> list[Event]:
        """Learn that another block begins: what is held back keeps its place."""
        ...

    def flush(self) -> list[Event]:
        """Tell what was held back, because no more will come."""
        ...

    def close(self, event: Closed) -> list[Event]:
        """End the message."""
        ...


class MessageSplitter(ABC):
    """Makes several blocks of one message, whole or streamed."""

    def __init__(self, losses: Losses, moved: str) -> None:
        self._losses = losses
        # Why what is said of a text cannot stay with it.
        self._moved = moved
        self._blocks = 0
        # By the numbers that the reader gave them.
        self._messages: dict[int, SplitMessage] = {}
        self._numbers: dict[int, int] = {}

    # Whole

    def reply(self, reply: Reply) -> Reply:
        """Split the messages of a whole reply."""
        return replace(reply, choices=tuple(map(self._split_choice, reply.choices)))

    def _split_choice(self, choice: Choice) -> Choice:
        items: list[Item] = []
        for item in choice.items:
            items += self._split(item) if isinstance(item, Message) else (item,)
        return replace(choice, items=tuple(items))

    @abstractmethod
    def _split(self, message: Message) -> Iterable[Item]:
        """Give what becomes of a whole message."""

    # Streamed

    def feed(self, event: Event) -> list[Event]:
        """Pass an event on, blocks under their new numbers."""
        match event:
            case Delta():
                return self._fill(event)
            case Opened():
                return [*self._settle(event.choice), *self._open(event)]
            case Closed():
                return self._close(event)
            case Failed():
                held = [told for block in self._messages.values() for told in block.flush()]
                return [*held, event]
            case Finished():
                return [self._finished(event)]
            case _:
                return [event]

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []

    @abstractmethod
    def _begin(self, opened: Opened) -> SplitMessage:
        """Begin to look into a message."""

    def _open(self, event: Opened) -> list[Event]:
        if isinstance(event.item, Message):
            self._messages[event.index] = self._begin(event)
            return []
        self._numbers[event.index] = number = self.number()
        return [replace(event, index=number)]

    def _fill(self, delta: Delta) -> list[Event]:
        block = self._messages.get(delta.index)
        if block is not None:
            return block.fill(delta)
        return [replace(delta, index=self._numbers[delta.index])]

    def _close(self, event: Closed) -> list[Event]:
        block = self._messages.pop(event.index, None)
        if block is not None:
            return block.close(event)
        return [replace(event, index=self._numbers[event.index])]

    def _settle(self, choice: int) -> list[Event]:
        """Let texts of a choice keep their place before a block that begins."""
        blocks = [block for block in self._messages.values() if block.choice == choice]
        return [event for block in blocks for event in block.flush_before_next_block()]

    def _finished(self, event: Finished) -> Finished:
        """Give the end of the answer."""
        return event

    # What the messages on their way ask

    def number(self) -> int:
        """Give the next block its number."""
        self._blocks += 1
        return self._blocks - 1

    def report(self) -> None:
        """Say what cannot stay with a text that was split."""
        self._losses.dropped("content", self._moved)
