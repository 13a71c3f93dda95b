"""The hub, streamed: six events, in the order that `grammar` allows.

A block is an item on its way: `Opened` gives its identity, `Delta`s fill it, `Closed` ends it.
Blocks may overlap. A part of a block begins with its first `Delta`, which may be empty. Exactly one
`Finished` or `Failed` ends the stream; `Failed` may leave blocks open, because nobody knows how
they would have ended.
"""

from typing import Literal

from msgspec import Struct

from adapters.ir.types import (
    Annotation,
    Error,
    Extras,
    Finish,
    Item,
    Logprob,
    Message,
    Reasoning,
    Status,
    ToolCall,
    Usage,
)

# Codes of the faults that we find in a backend's stream ourselves.
UNREADABLE = "bad_gateway"
CUT = "stream_cut"

# What a delta adds to: the text or the refusal of a message, the summary or the words of a
# reasoning, the arguments (or the custom input) of a call.
Channel = Literal["text", "refusal", "summary", "thought", "arguments"]


class Started(Struct, frozen=True, tag="started"):
    """The reply has begun."""

    id: str = ""
    model: str = ""
    created: int | None = None
    service_tier: str | None = None
    extras: Extras = ()


class Opened(Struct, frozen=True, tag="opened"):
    """A block has begun: its item, with all that identifies it, and nothing in it yet."""

    index: int
    item: Item
    choice: int = 0


# The hot path: one of these per token. It holds no cycles, so the collector need not look at it.
class Delta(Struct, frozen=True, gc=False, tag="delta"):
    """A piece of a block's content."""

    index: int
    channel: Channel
    text: str
    part: int = 0
    logprobs: tuple[Logprob, ...] = ()
    annotations: tuple[Annotation, ...] = ()


class Closed(Struct, frozen=True, tag="closed"):
    """A block has ended; what its server sealed, or knows only now, comes with the end."""

    index: int
    status: Status = "completed"
    encrypted: str | None = None
    extras: Extras = ()


class Finished(Struct, frozen=True, tag="finished"):
    """The reply is whole: how each choice ended, and what it cost."""

    finishes: tuple[Finish, ...]
    usage: Usage | None = None
    service_tier: str | None = None
    extras: Extras = ()


class Failed(Struct, frozen=True, tag="failed"):
    """The reply broke off."""

    error: Error
    usage: Usage | None = None
    # Found by us in a stream that was cut or cannot be read; its backend did not say so.
    found: bool = False


def undecodable_stream(why: str, usage: Usage | None = None) -> Failed:
    """Say that a stream cannot be read."""
    return Failed(Error(why, code=UNREADABLE, status=502), usage, found=True)


def truncated_stream(usage: Usage | None = None) -> Failed:
    """Say that a stream ended before its answer did."""
    why = "the backend's stream ended before the answer was finished"
    return Failed(Error(why, code=CUT, status=502), usage, found=True)


Event = Started | Opened | Delta | Closed | Finished | Failed


# Which event may follow which, in one table.
#
# Everything about the legal order of hub events lives in this file, and the file does not know who
# reads or writes them. A key that is missing from a table *is* the breach of the protocol. The
# grammar runs between every reader and writer in the tests; in service it is left out.


Phase = Literal["idle", "running", "ended"]

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

# What each kind of item can be filled with; an item that is missing here comes whole.
CHANNELS: dict[type[Item], frozenset[Channel]] = {
    Message: frozenset({"text", "refusal"}),
    Reasoning: frozenset({"summary", "thought"}),
    ToolCall: frozenset({"arguments"}),
}


class EventOrderError(AssertionError):
    """A stage of ours gave its events in an order that the table does not allow."""


class EventOrderChecker:
    """Passes events on as they are, and breaks at the first that may not come now."""

    def __init__(self) -> None:
        self._phase: Phase = "idle"
        # The open blocks, each with the channels that its item allows and its parts so far.
        self._open: dict[int, frozenset[Channel]] = {}
        self._parts: dict[int, list[Channel]] = {}
        self._blocks = 0

    def feed(self, event: Event) -> list[Event]:
        """Check one event."""
        phase = PHASES[self._phase].get(type(event))
        if phase is None:
            raise EventOrderError(f"{event!r} may not come while {self._phase}")
        self._phase = phase
        match event:
            case Opened():
                self._check_opened(event)
            case Delta():
                self._check_delta(event)
            case Closed():
                self._check_closed(event)
            case Finished():
                self._require(not self._open, event, "blocks are still open")
            case Started() | Failed():
                pass
        return [event]

    def flush(self) -> list[Event]:
        """Check that the stream has ended."""
        if self._phase != "ended":
            raise EventOrderError("the stream was flushed without Finished or Failed")
        return []

    def _check_opened(self, event: Opened) -> None:
        self._require(event.index == self._blocks, event, "blocks are numbered from 0")
        self._blocks += 1
        self._open[event.index] = CHANNELS.get(type(event.item), frozenset())
        self._parts[event.index] = []

    def _check_delta(self, event: Delta) -> None:
        channels = self._open.get(event.index)
        self._require(channels is not None, event, "its block is not open")
        self._require(event.channel in (channels or ()), event, "its item has no such channel")
        parts = self._parts[event.index]
        if event.part == len(parts):
            parts.append(event.channel)
        self._require(
            event.part == len(parts) - 1 and parts[event.part] == event.channel,
            event,
            "parts come one after the other and keep to one channel",
        )

    def _check_closed(self, event: Closed) -> None:
        known = self._open.pop(event.index, None)
        self._require(known is not None, event, "its block is not open")

    def _require(self, condition: bool, event: Event, why: str) -> None:  # noqa: FBT001 - an assertion
        if not condition:
            raise EventOrderError(f"{event!r}: {why}")
