"""The legal order of events, which tests check between every reader and writer."""

from collections.abc import Iterable
from typing import Literal

from adapters.ir.events import (
    ITEM_CHANNELS,
    BlockId,
    Channel,
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
)

Phase = Literal["idle", "running", "ended"]

# phase -> event -> next phase; an event that is missing is not allowed.
PHASES: dict[Phase, dict[type[Event], Phase]] = {
    "idle": {Started: "running", Failed: "ended"},
    "running": {
        Opened: "running",
        Delta: "running",
        Closed: "running",
        Finished: "ended",
        Failed: "ended",
    },
    "ended": {},
}


class EventOrderError(AssertionError):
    """Events in an order that the table does not allow."""


def check_order(events: Iterable[Event]) -> list[Event]:
    """Return the events of a stream; raise `EventOrderError` if they are out of order."""
    checker = _OrderChecker()
    checked = list(events)
    for event in checked:
        checker.check(event)
    if checker.phase != "ended":
        raise EventOrderError("the stream ends without Finished or Failed")
    return checked


class _OrderChecker:
    def __init__(self) -> None:
        self.phase: Phase = "idle"
        # The channels of each open block, and the channel of each of its parts so far.
        self._open: dict[BlockId, frozenset[Channel]] = {}
        self._parts: dict[BlockId, list[Channel]] = {}

    def check(self, event: Event) -> None:
        """Check one event."""
        phase = PHASES[self.phase].get(type(event))
        if phase is None:
            raise EventOrderError(f"{event!r} may not come while {self.phase}")
        self.phase = phase
        match event:
            case Opened():
                self._require(event.index not in self._parts, event, "block ids are unique")
                self._open[event.index] = ITEM_CHANNELS.get(type(event.item), frozenset())
                self._parts[event.index] = []
            case Delta():
                self._check_delta(event)
            case Closed():
                self._require(event.index in self._open, event, "its block is not open")
                del self._open[event.index]
            case Finished():
                self._require(not self._open, event, "blocks are still open")
            case Started() | Failed():
                pass

    def _check_delta(self, event: Delta) -> None:
        self._require(event.index in self._open, event, "its block is not open")
        channels = self._open[event.index]
        self._require(event.channel in channels, event, "its item has no such channel")
        parts = self._parts[event.index]
        if event.part == len(parts):
            parts.append(event.channel)
        in_last_part = event.part == len(parts) - 1 and parts[event.part] == event.channel
        self._require(in_last_part, event, "parts follow each other and have one channel each")

    def _require(self, condition: bool, event: Event, error: str) -> None:  # noqa: FBT001 - an assertion
        if not condition:
            raise EventOrderError(f"{event!r}: {error}")
