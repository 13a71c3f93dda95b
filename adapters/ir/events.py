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
    Status,
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
