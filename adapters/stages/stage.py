"""The base classes of stages, which change a reply between its reader and its writer.

A stage takes an event and returns the events that replace it. A whole reply is converted to events,
so each stage is written once, for streams. At the last event, a stage closes all blocks that it has
opened.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.normalize import part_path
from adapters.ir.types import Message, Reply


class BlockProcessor(Protocol):
    """Changes one open block."""

    def feed(self, delta: Delta, /) -> list[Event]:
        """Return the events that replace a delta."""
        ...

    def close(self, closed: Closed, /) -> list[Event]:
        """Return the events that replace the end of the block."""
        ...


class Stage:
    """One change to a reply; the base class returns every event unchanged."""

    def __init__(self) -> None:
        # By open block that this stage changes. The deltas of other blocks are not changed.
        self._processors: dict[BlockId, BlockProcessor] = {}

    @property
    def passes_deltas(self) -> bool:
        """Whether deltas are not changed until an event of another type is fed.

        Deltas are the most frequent events, so they skip the stages that do not change them.
        """
        return not self._processors

    def reply(self, reply: Reply) -> Reply:
        """Return a whole reply with the changes of this stage."""
        return Pipeline(self).reply(reply)

    def applies_to(self, _reply: Reply) -> bool:
        """Whether the stage may change a whole reply or collect data from it.

        Replies without such a stage, as most are, are not converted to events, which would take a
        tenth of the time of an exchange.
        """
        return True

    def feed_all(self, events: list[Event]) -> list[Event]:
        """Return the events that replace several events."""
        return [out for event in events for out in self.feed(event)]

    def feed(self, event: Event) -> list[Event]:
        """Return the events that replace one event."""
        match event:
            case Delta():
                processor = self._processors.get(event.index)
                return [event] if processor is None else processor.feed(event)
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
        processor = self._processors.pop(event.index, None)
        return [event] if processor is None else processor.close(event)

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
        """Whether no stage changes deltas until an event of another type is fed."""
        return all(stage.passes_deltas for stage in self._stages)

    def reply(self, reply: Reply) -> Reply:
        """Return a whole reply with the changes of all stages."""
        if not any(stage.applies_to(reply) for stage in self._stages):
            return reply
        return accumulate(self.feed_all(list(to_events(reply))))

    def feed_all(self, events: list[Event]) -> list[Event]:
        """Return the events that replace several events after all stages."""
        for stage in self._stages:
            # Usually there is one event.
            events = stage.feed(events[0]) if len(events) == 1 else stage.feed_all(events)
        return events


class DiscardBlock:
    """Removes a block from a reply."""

    def feed(self, _delta: Delta) -> list[Event]:
        """Drop a delta."""
        return []

    def close(self, _closed: Closed) -> list[Event]:
        """Drop the end of the block."""
        return []


# Stages that extract blocks, such as tool calls, from the text of messages


def message_path(opened: Opened) -> str:
    """Return the path of the text of a message, for losses."""
    path = part_path(opened.item, 0) if isinstance(opened.item, Message) else ""
    return f"{path}.content" if path.endswith("message") else path


def call_path_in(opened: Opened) -> str:
    """Return the path of a call in the text of a message; "" if the message has no path."""
    has_path = isinstance(opened.item, Message) and opened.item.path
    return message_path(opened) if has_path else ""


class SplitMessage(ABC):
    """Changes one message, which may become several blocks."""

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
        """Return the buffered events of a stream that failed."""


class MessageSplitter(Stage, ABC):
    """A stage that may split a message into several blocks."""

    @abstractmethod
    def _split(self, opened: Opened) -> SplitMessage:
        """Return the processor of a message."""

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
