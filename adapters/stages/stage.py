"""The base class of everything that changes a reply between its reader and its writer.

A stage is written once, for streams: it takes an event and returns the events that take its place.
A whole reply goes through the same code, as events. A stage never waits, and the last event of a
reply ends everything that the stage has opened.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Message, Reply


class BlockProcessor(Protocol):
    """What a stage does with one open block."""

    def feed(self, delta: Delta, /) -> list[Event]:
        """Return the events that take the place of a delta."""
        ...

    def close(self, closed: Closed, /) -> list[Event]:
        """Return the events that take the place of the end of the block."""
        ...


class Stage:
    """One change to a reply; the base class passes every event on as it is."""

    def __init__(self) -> None:
        # The open blocks that this stage handles. The deltas of all others pass as they are.
        self._processors: dict[BlockId, BlockProcessor] = {}

    @property
    def passes_deltas(self) -> bool:
        """Whether all deltas pass as they are until the stage is fed something else.

        Nothing comes as often as deltas, so they skip the stages that do not change them.
        """
        return not self._processors

    def reply(self, reply: Reply) -> Reply:
        """Return a whole reply, changed as its stream would be."""
        return Pipeline(self).reply(reply)

    def applies_to(self, _reply: Reply) -> bool:
        """Whether the stage may change a whole reply or learn something from it.

        Most replies need no stage; to make events of them takes a tenth of the time of a whole
        exchange.
        """
        return True

    def feed_all(self, events: list[Event]) -> list[Event]:
        """Return the events that take the place of several events."""
        return [out for event in events for out in self.feed(event)]

    def feed(self, event: Event) -> list[Event]:
        """Return the events that take the place of one event."""
        match event:
            case Delta():
                handler = self._processors.get(event.index)
                return [event] if handler is None else handler.feed(event)
            case Opened():
                return self._open(event)
            case Closed():
                return self._close(event)
            case Started():
                return self._start(event)
            case Finished():
                return self._finish(event)
            case Failed():
                return self._fail(event)

    def _start(self, event: Started) -> list[Event]:
        return [event]

    def _open(self, event: Opened) -> list[Event]:
        return [event]

    def _close(self, event: Closed) -> list[Event]:
        handler = self._processors.pop(event.index, None)
        return [event] if handler is None else handler.close(event)

    def _finish(self, event: Finished) -> list[Event]:
        return [event]

    def _fail(self, event: Failed) -> list[Event]:
        return [event]


class Pipeline:
    """Several stages in a row."""

    def __init__(self, *stages: Stage) -> None:
        self._stages = stages

    @property
    def passes_deltas(self) -> bool:
        """Whether all deltas pass as they are until the stages are fed something else."""
        return all(stage.passes_deltas for stage in self._stages)

    def reply(self, reply: Reply) -> Reply:
        """Return a whole reply, changed as its stream would be."""
        if not any(stage.applies_to(reply) for stage in self._stages):
            return reply
        return accumulate(self.feed_all(list(to_events(reply))))

    def feed_all(self, events: list[Event]) -> list[Event]:
        """Pass several events through all stages, stage by stage."""
        for stage in self._stages:
            # One event is by far the most frequent.
            events = stage.feed(events[0]) if len(events) == 1 else stage.feed_all(events)
        return events


class DiscardBlock:
    """A handler that removes a block from a reply."""

    def feed(self, _delta: Delta) -> list[Event]:
        """Drop a delta."""
        return []

    def close(self, _closed: Closed) -> list[Event]:
        """Drop the end."""
        return []


# Stages that extract blocks, such as tool calls, from the text of messages


class SplitMessage(ABC):
    """The handler of one message."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.choice = opened.choice

    @abstractmethod
    def feed(self, delta: Delta) -> list[Event]:
        """Read a delta; return the events that do not depend on later text."""

    @abstractmethod
    def close(self, closed: Closed) -> list[Event]:
        """Return the buffered events and the end of the message."""

    @abstractmethod
    def flush_before_next_block(self) -> list[Event]:
        """Return the events that must precede a block that is about to be opened."""

    @abstractmethod
    def flush(self) -> list[Event]:
        """Return the buffered events after the stream has failed."""


class MessageSplitter(Stage, ABC):
    """A stage that may make several blocks of one message."""

    @abstractmethod
    def _split(self, opened: Opened) -> SplitMessage:
        """Return the handler of a message."""

    def _open(self, event: Opened) -> list[Event]:
        events = [
            flushed
            for message in self._messages()
            if message.choice == event.choice
            for flushed in message.flush_before_next_block()
        ]
        if not isinstance(event.item, Message):
            return [*events, event]
        self._processors[event.index] = self._split(event)
        return events

    def _fail(self, event: Failed) -> list[Event]:
        return [*(flushed for message in self._messages() for flushed in message.flush()), event]

    def _messages(self) -> list[SplitMessage]:
        return [one for one in self._processors.values() if isinstance(one, SplitMessage)]
