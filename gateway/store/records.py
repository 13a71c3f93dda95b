"""Rows, pages and errors of the store.

JSON is stored as it is and never parsed here. An `Item` that was read from the store knows its row:
when it is saved again it becomes a reference to that row, so that repeated items are stored once.
"""

from collections.abc import Sequence
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import Raw, Struct

from adapters import DragomanError

# DragomanError
# └── StoreUnavailableError           a statement failed
#     ├── DatabaseUnavailableError    … and any other would: locked, disk full, server unreachable
#     └── CommitOutcomeUnknownError   … or was committed: the connection broke during the commit
#
# StoreError                          the gateway cannot start with this database
# └── NewerSchemaError                it was created by a later version
#
# A missing object is no error: methods return None or False.


class StoreUnavailableError(DragomanError):
    """The database failed or cannot be reached."""

    status = 503
    code = "state_unavailable"
    kind = "server_error"


class DatabaseUnavailableError(StoreUnavailableError):
    """The database executes no statement at the moment."""


class CommitOutcomeUnknownError(StoreUnavailableError):
    """The database failed during a commit, which may have taken effect."""


class StoreError(Exception):
    """The database cannot be used."""


class NewerSchemaError(StoreError):
    """The database was created by a later version of the gateway."""


Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

# The statuses of an unfinished background response.
RUNNING: Final[frozenset[Status]] = frozenset({"queued", "in_progress"})
# The statuses of responses whose items are appended to their conversation. OpenAI adds items "after
# this response completes"; failed and cancelled requests can then be repeated.
APPENDED_TO_CONVERSATION: Final[frozenset[Status]] = frozenset({"completed", "incomplete"})

JSON_NULL: Final = Raw(b"null")


class Item(Struct, frozen=True):
    """One item of a history."""

    id: str
    body: Raw
    # The row with its body; 0 if it is not stored yet.
    number: int = 0


class Response(Struct, frozen=True):
    """One response, without its items."""

    id: str
    # The digest of the API key that it was created with; "" where no keys are configured.
    owner: str
    created: int
    status: Status
    # The object as it was sent, with an empty `output`: items have rows of their own.
    body: Raw
    # What later turns need besides the items. Small, because each later turn reads it.
    settings: Raw = JSON_NULL
    model: str = ""
    # The id of the response that this one continues.
    parent: str | None = None
    # The conversation to which its items are appended when it is finished.
    conversation: str | None = None


class StoredTurn(Struct, frozen=True):
    """A response with its own items, without those of the turns before it."""

    response: Response
    input: tuple[Item, ...] = ()
    output: tuple[Item, ...] = ()
    # The items before the input. Saved with this turn only if the parent was deleted meanwhile;
    # never loaded.
    history: tuple[Item, ...] | None = None


class ChainLink(Struct, frozen=True):
    """The part of a history that one response of a chain contributes."""

    id: str
    status: Status
    settings: Raw
    input: tuple[Item, ...]
    output: tuple[Item, ...]
    # The conversation that it was created in.
    conversation: str | None = None


class Event(Struct, frozen=True):
    """One event of a stream, with its sequence number."""

    number: int
    body: Raw


class Job(Struct, frozen=True):
    """A background response taken over from a node that disappeared.

    A queued job has not been sent to a backend and can be run from its request. Any other job can
    only be marked as failed.
    """

    response: Response
    request: Raw
    # A client asked to cancel it.
    cancelled: bool
    # The sequence number of its next event.
    next_event: int


class JobUpdate(Struct, frozen=True):
    """What a node writes to its job."""

    response_id: str
    node: str
    events: Sequence[Event] = ()
    # Set when the job is now in progress: it can be finished, but not started again.
    body: Raw | None = None
    # Set when the job is finished, with its output.
    finished: Response | None = None
    output: Sequence[Item] = ()


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


Row = TypeVar("Row")
SortOrder: TypeAlias = Literal["ASC", "DESC"]

# More rows than any list has.
_NO_LIMIT: Final = 2**31


class Listing(Struct, Generic[Row], frozen=True):
    """One page of a list."""

    data: tuple[Row, ...]
    has_more: bool
    # Where the next page starts, if the id of the last object is ambiguous.
    cursor: str | None = None


class Page(Struct, frozen=True):
    """Which page of a list to read."""

    # The id of the last object of the page before.
    after: str | None = None
    # None for all objects.
    limit: int | None = None
    newest_first: bool = False

    @property
    def sort_order(self) -> SortOrder:
        """The order in SQL."""
        return "DESC" if self.newest_first else "ASC"

    @property
    def row_limit(self) -> int:
        """How many rows to read: one more than the limit shows whether there are more."""
        return _NO_LIMIT if self.limit is None else self.limit + 1

    def listing(self, rows: Sequence[Row]) -> Listing[Row]:
        """Return the page made of these rows, of which there are at most `row_limit`."""
        return Listing(tuple(rows[: self.limit]), self.row_limit <= len(rows))
