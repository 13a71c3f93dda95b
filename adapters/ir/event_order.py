"""The legal order of events, which is checked where it does not follow from our own code."""

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
PHASES: dict[Phase, dict[type, Phase]] = {
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


class EventOrderError(ValueError):
    """Events in an order that is not legal; the message contains none of their content."""


class EventOrder:
    """Checks the events of one reply, one at a time."""

    def __init__(self) -> None:
        self.phase: Phase = "idle"
        # Whether all deltas are checked; otherwise the first ones of a part may be missing.
        self.sees_deltas = True
        # The channels of each open block, and the channel of each of its parts so far.
        self._open: dict[BlockId, frozenset[Channel]] = {}
        self._parts: dict[BlockId, list[Channel]] = {}

    def check(self, event: Event) -> None:
        """Raise `EventOrderError` if this event is not legal after the ones before it."""
        phase = PHASES[self.phase].get(type(event))
        if phase is None:
            raise EventOrderError(f"{type(event).__name__} is not legal while {self.phase}")
        self.phase = phase
        match event:
            case Opened():
                self._require(event.index not in self._parts, event, "block ids must be unique")
                self._open[event.index] = ITEM_CHANNELS.get(type(event.item), frozenset())
                self._parts[event.index] = []
            case Delta():
                self._check_delta(event)
            case Closed():
                self._require(event.index in self._open, event, "the block is not open")
                del self._open[event.index]
            case Finished():
                if self._open:
                    raise EventOrderError("Finished while blocks are open")
            case Started() | Failed():
                pass

    def _check_delta(self, event: Delta) -> None:
        self._require(event.index in self._open, event, "the block is not open")
        channels = self._open[event.index]
        self._require(event.channel in channels, event, f"the item has no {event.channel}")
        parts = self._parts[event.index]
        if not self.sees_deltas:
            parts += [event.channel] * (event.part - len(parts))
        if event.part == len(parts):
            parts.append(event.channel)
        in_last_part = event.part == len(parts) - 1 and parts[event.part] == event.channel
        message = "parts must follow each other and have one channel each"
        self._require(in_last_part, event, message)

    def _require(self, condition: bool, event: Opened | Delta | Closed, message: str) -> None:  # noqa: FBT001 - an assertion
        if not condition:
            raise EventOrderError(f"{type(event).__name__} of block {event.index!r}: {message}")
