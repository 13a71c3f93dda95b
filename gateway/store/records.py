"""What is kept: plain values, whose JSON the store carries and never reads.

An `Item` that came out of the store knows where it is kept. Handed in again it becomes a link to
that place instead of a copy, so that what clients repeat is stored once.
"""

from collections.abc import Sequence
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import Raw, Struct

from adapters import DragomanError

T = TypeVar("T")

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

# A response that is still worked at.
RUNNING: Final[frozenset[Status]] = frozenset({"queued", "in_progress"})
# A response whose items enter its conversation: OpenAI adds them "after this response completes".
# What failed or was cancelled leaves no trace there, so that it can simply be asked again.
ENTERS_CONVERSATION: Final[frozenset[Status]] = frozenset({"completed", "incomplete"})

JSON_NULL: Final = Raw(b"null")


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
    settings: Raw = JSON_NULL
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
    has_more: bool
    # From where to go on, if the id of the last one may not be enough to say.
    cursor: str | None = None


# Lists in parts.


Order: TypeAlias = Literal["ASC", "DESC"]

# More than there can be.
_ALL: Final = 2**31


def order_of(page: Page) -> Order:
    """Say the order as SQL does."""
    return "DESC" if page.newest_first else "ASC"


def size_of(page: Page) -> int:
    """Say how many rows to read: one more than is wanted, which tells whether there is more."""
    return _ALL if page.limit is None else page.limit + 1


def listing(found: Sequence[T], page: Page) -> Listing[T]:
    """Make a part of a list of what was found."""
    if page.limit is None or len(found) <= page.limit:
        return Listing(tuple(found), has_more=False)
    return Listing(tuple(found[: page.limit]), has_more=True)


# What can go wrong with the store.
#
# DragomanError
# └── Unavailable       the database did not do what it was asked
#     ├── Away          … nor would it do anything else now: it is locked, full, or not there
#     └── Uncertain     … or perhaps it did: it was lost in the middle of a commit
#
# StateError            the service cannot start with this database
# └── NewerSchema       it was made by a later version
#
# That something is not there is no error here: methods then give None or False.


class StoreUnavailableError(DragomanError):
    """The database cannot be reached, or failed."""

    status = 503
    code = "state_unavailable"
    kind = "server_error"


class DatabaseUnavailableError(StoreUnavailableError):
    """The database does nothing for anybody, for now."""


class CommitOutcomeUnknownError(StoreUnavailableError):
    """The database failed while it was committing: whether it did, nobody knows."""


class StoreError(Exception):
    """The database cannot be used."""


class NewerSchemaError(StoreError):
    """The database was made by a later version of the gateway."""
