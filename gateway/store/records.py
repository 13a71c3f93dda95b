"""What is kept: plain values, whose JSON the store carries and never reads.

An `Item` that came out of the store knows where it is kept. Handed in again it becomes a link to
that place instead of a copy, so that what clients repeat is stored once.
"""

from typing import Final, Generic, Literal, TypeVar

from msgspec import Raw, Struct

T = TypeVar("T")

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

# A response that is still worked at.
RUNNING: Final[frozenset[Status]] = frozenset({"queued", "in_progress"})
# A response whose items enter its conversation: OpenAI adds them "after this response completes".
# What failed or was cancelled leaves no trace there, so that it can simply be asked again.
ENTERS_CONVERSATION: Final[frozenset[Status]] = frozenset({"completed", "incomplete"})

NOTHING: Final = Raw(b"null")


class Item(Struct, frozen=True):
    """One item of a history."""

    id: str
    body: Raw
    # Where it is kept; 0: nowhere yet.
    number: int = 0


class Response(Struct, frozen=True):
    """One response, without its items."""

    id: str
    # The digest of the key that it was made with; "" where there are no keys.
    owner: str
    created: int
    status: Status
    # The object as it was sent, but with an empty `output`: the items are kept apart.
    body: Raw
    # What later turns need to know of this one besides its items. Read with every turn that
    # follows, so it is to be small.
    settings: Raw = NOTHING
    model: str = ""
    # The response that this one continues.
    parent: str | None = None
    # The conversation to which its items are appended when it is finished.
    conversation: str | None = None


class StoredTurn(Struct, frozen=True):
    """A response with the items that came with it: not those of the turns before."""

    response: Response
    input: tuple[Item, ...] = ()
    output: tuple[Item, ...] = ()
    # What stands before the input, by way of the parent. It is kept with this turn only if that was
    # deleted while the turn was made; never read from the store.
    history: tuple[Item, ...] | None = None


class ChainLink(Struct, frozen=True):
    """What one response of a chain adds to the history."""

    id: str
    status: Status
    settings: Raw
    input: tuple[Item, ...]
    output: tuple[Item, ...]
    # The conversation that it was made in.
    conversation: str | None = None


class Event(Struct, frozen=True):
    """One event of a stream, under its sequence number."""

    number: int
    body: Raw


class Job(Struct, frozen=True):
    """A response made in the background, taken over from a node that is gone.

    If it is still queued, nothing of it has been sent anywhere, and it can be done from its
    request. Otherwise it can only be ended.
    """

    response: Response
    request: Raw
    # Somebody asked for its end.
    cancelled: bool
    # The number that the next event has.
    next_event: int


class Conversation(Struct, frozen=True):
    """A history that responses are appended to."""

    id: str
    owner: str
    created: int
    metadata: Raw = Raw(b"{}")


class Completion(Struct, frozen=True):
    """A stored chat completion."""

    id: str
    owner: str
    created: int
    body: Raw
    # The messages of its request, a JSON array.
    messages: Raw
    model: str = ""
    metadata: dict[str, str] = {}


class Page(Struct, frozen=True):
    """Which part of a list is wanted."""

    # The id of the last one that was seen.
    after: str | None = None
    # None: all.
    limit: int | None = None
    newest_first: bool = False


class Listing(Struct, Generic[T], frozen=True):
    """A part of a list, and whether there is more of it."""

    data: tuple[T, ...]
    more: bool
    # From where to go on, if the id of the last one may not be enough to say.
    cursor: str | None = None
