"""IR events of a streamed reply, and their valid order.

A block is an item that is being streamed. `Opened` identifies it, `Delta` events contain its
content, and `Closed` marks its end. Blocks may overlap. A part of a block begins with its first
`Delta`, which may be empty. Exactly one `Finished` or `Failed` ends the stream; blocks may still be
open at a `Failed`.
"""

from typing import Literal, get_args

from msgspec import Struct

from adapters.ir.types import (
    Annotation,
    Error,
    Extras,
    Finish,
    Item,
    Logprob,
    Message,
    Part,
    Reasoning,
    Status,
    ToolCall,
    Usage,
)

# Codes of the errors that the gateway itself detects in a backend's stream.
UNDECODABLE_STREAM = "bad_gateway"
TRUNCATED_STREAM = "stream_cut"

# The target of a delta: the text or the refusal of a message, the summary or the text of reasoning,
# the arguments (or the custom input) of a call.
Channel = Literal["text", "refusal", "summary", "reasoning", "arguments"]
ALL_CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))

# The id of a block is unique within its reply and has no other meaning: writers number blocks in
# the order in which they are opened. A stage that adds a block derives its id from another block.
BlockId = int | str


class Started(Struct, frozen=True, tag="started"):
    """The start of a reply."""

    id: str = ""
    model: str = ""
    created: int | None = None
    service_tier: str | None = None
    extras: Extras = ()


class Opened(Struct, frozen=True, tag="opened"):
    """The start of a block: its item without content."""

    index: BlockId
    item: Item
    choice: int = 0


# Exempt from garbage collection: there is one delta per token, and it contains no cycles.
class Delta(Struct, frozen=True, gc=False, tag="delta"):
    """A piece of a block's content."""

    index: BlockId
    channel: Channel
    text: str
    part: int = 0
    logprobs: tuple[Logprob, ...] = ()
    annotations: tuple[Annotation, ...] = ()


class Closed(Struct, frozen=True, tag="closed"):
    """The end of a block, with the fields that the backend sends only then."""

    index: BlockId
    status: Status = "completed"
    encrypted: str | None = None
    extras: Extras = ()
    # Set only if a message has parts that cannot be streamed. Contains all of its parts; the text
    # of streamed parts is empty.
    parts: tuple[Part, ...] = ()


class Finished(Struct, frozen=True, tag="finished"):
    """The end of a complete reply, with the finish of each choice."""

    finishes: tuple[Finish, ...]
    usage: Usage | None = None
    service_tier: str | None = None
    extras: Extras = ()
    # The extra fields of each choice, if any choice has some; they cannot be streamed.
    choice_extras: tuple[Extras, ...] = ()


class Failed(Struct, frozen=True, tag="failed"):
    """The end of a reply that failed."""

    error: Error
    usage: Usage | None = None
    # "gateway" if the backend sent no error, but its stream was truncated or undecodable.
    origin: Literal["backend", "gateway"] = "backend"


Event = Started | Opened | Delta | Closed | Finished | Failed


def undecodable_stream(message: str) -> Failed:
    """Return the last event of a stream that cannot be decoded."""
    return Failed(Error(message, code=UNDECODABLE_STREAM, status=502), origin="gateway")


def truncated_stream() -> Failed:
    """Return the last event of a stream that ended before its reply was complete."""
    message = "the backend's stream ended before the reply was complete"
    return Failed(Error(message, code=TRUNCATED_STREAM, status=502), origin="gateway")


# The channels of each type of item; an item of any other type is complete when it is opened.
ITEM_CHANNELS: dict[type[Item], frozenset[Channel]] = {
    Message: frozenset({"text", "refusal"}),
    Reasoning: frozenset({"summary", "reasoning"}),
    ToolCall: frozenset({"arguments"}),
}
