"""The base class of everything that changes a reply between its reader and its writer.

A stage is written once, for streams: it takes an event and returns the events that take its place.
A whole reply goes through the same code, as events. A stage never waits, and the last event of a
reply ends everything that the stage has opened.
"""

from typing import Protocol

from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Reply


class BlockHandler(Protocol):
    """What a stage does with one open block."""

    def fill(self, delta: Delta, /) -> list[Event]:
        """Return the events that take the place of a delta."""
        ...

    def close(self, closed: Closed, /) -> list[Event]:
        """Return the events that take the place of the end of the block."""
        ...


class Stage:
    """One change to a reply; the base class passes every event on as it is."""

    def __init__(self) -> None:
        # The open blocks that this stage handles. The deltas of all others pass as they are.
        self._handlers: dict[BlockId, BlockHandler] = {}

    @property
    def passes_deltas(self) -> bool:
        """Whether all deltas pass as they are until the stage is fed something else.

        Nothing comes as often as deltas, so they skip the stages that do not change them.
        """
        return not self._handlers

    def reply(self, reply: Reply) -> Reply:
        """Return a whole reply, changed as its stream would be."""
        if not self.may_change(reply):
            return reply
        return accumulate(self.feed_all(list(to_events(reply))))

    def may_change(self, _reply: Reply) -> bool:
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
                handler = self._handlers.get(event.index)
                return [event] if handler is None else handler.fill(event)
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
        handler = self._handlers.pop(event.index, None)
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
        if not any(stage.may_change(reply) for stage in self._stages):
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

    def fill(self, _delta: Delta) -> list[Event]:
        """Drop a delta."""
        return []

    def close(self, _closed: Closed) -> list[Event]:
        """Drop the end."""
        return []
