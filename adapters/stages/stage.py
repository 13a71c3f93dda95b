"""Stages: small machines that are fed, and flushed once.

A stage takes one thing and gives a list of others. It never waits. `flush` says that no more will
come; the stage then ends what it opened. Stages are piped by feeding one's output to the next.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.types import Choice, Item, Message, Reply
from adapters.losses import Losses

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")


class Stage(Protocol[In_contra, Out]):
    """What every machine on a stream looks like."""

    def feed(self, given: In_contra, /) -> list[Out]:
        """Take one thing; give what it led to."""
        ...

    def flush(self) -> list[Out]:
        """Learn that no more will come; give what that led to."""
        ...


# Each stage has its own types, and Python cannot say that neighbours fit; the grammar does.
AnyStage = Stage[Any, Any]


def ignores_deltas(stage: AnyStage) -> bool:
    """Tell whether a stage passes deltas on as they are, until it is fed something else.

    Nothing comes as often. A stage that does not say so wants to see each of them.
    """
    return getattr(stage, "passes_deltas", False)


class Pipeline:
    """Stages in a row, which are a stage again."""

    def __init__(self, *stages: AnyStage) -> None:
        self._stages = stages

    def feed(self, given: Any, /) -> list[Any]:
        """Pass one thing through all stages."""
        return self.feed_all([given])

    def feed_all(self, given: list[Any]) -> list[Any]:
        """Pass several things through all stages, stage by stage."""
        for stage in self._stages:
            feed = stage.feed
            # Mostly there is one.
            given = feed(given[0]) if len(given) == 1 else [o for one in given for o in feed(one)]
        return given

    def flush(self) -> list[Any]:
        """Flush the stages in order, each after it has had the last of its forerunner."""
        given: list[Any] = []
        for stage in self._stages:
            given = [*(out for one in given for out in stage.feed(one)), *stage.flush()]
        return given


# What stages share that look into the texts of an answer and make several blocks of one message.
#
# Blocks are told under new numbers. A text of which nobody knows yet what it is, is held back; it
# keeps its place before whatever begins after it.


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
