"""Rows, pages and errors of the store.

JSON is stored unchanged and never parsed. An `Item` that was loaded has the number of its row; if
the item is saved again, only a reference to that row is stored.
"""

from collections.abc import Sequence
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import Raw, Struct

from adapters import DragomanError


class StoreUnavailableError(DragomanError):
    """A statement failed, or the database cannot be reached."""

    status = 503
    code = "state_unavailable"
    kind = "server_error"


class DatabaseUnavailableError(StoreUnavailableError):
    """All statements fail at the moment: the server is unreachable, or the file is locked."""


class CommitOutcomeUnknownError(StoreUnavailableError):
    """The database failed during a commit, which may have taken effect."""


class StoreError(Exception):
    """The gateway cannot start with this database."""


class NewerSchemaError(StoreError):
    """The database was created by a later version of the gateway."""


Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

# The statuses of an unfinished background response.
RUNNING: Final[frozenset[Status]] = frozenset({"queued", "in_progress"})
# The statuses of responses whose items are appended to their conversation. After other statuses the
# request can be repeated; OpenAI also adds items "after this response completes".
APPENDED_TO_CONVERSATION: Final[frozenset[Status]] = frozenset({"completed", "incomplete"})

JSON_NULL: Final = Raw(b"null")


class Item(Struct, frozen=True):
    """One item of a history."""

    id: str
    body: Raw
    # The number of the row with the body; 0 if the item is not stored yet.
    number: int = 0


class Response(Struct, frozen=True):
    """One response, without its items."""

    id: str
    # The digest of the API key of its client; "" if no keys are configured.
    owner: str
    created: int
    status: Status
    # The object that was sent to the client, but with an empty `output`.
    body: Raw
    # Data that later turns need besides the items; small, because each later turn loads it.
    settings: Raw = JSON_NULL
    model: str = ""
    # The id of the response that this one continues.
    parent: str | None = None
    # The conversation to which its items are appended when it is finished.
    conversation: str | None = None


class StoredTurn(Struct, frozen=True):
    """A response with its own items, without the items of earlier turns."""

    response: Response
    input: tuple[Item, ...] = ()
    output: tuple[Item, ...] = ()
    # The items before the input, which are saved only if the parent no longer exists. Never loaded.
    history: tuple[Item, ...] | None = None


class ChainLink(Struct, frozen=True):
    """One response of a chain, with its own items."""

    id: str
    status: Status
    settings: Raw
    input: tuple[Item, ...]
    output: tuple[Item, ...]
    # The conversation of the response.
    conversation: str | None = None


class Event(Struct, frozen=True):
    """One event of a stream, with its sequence number."""

    number: int
    body: Raw


class Job(Struct, frozen=True):
    """A background response that is queued or in progress, with its request."""

    response: Response
    request: Raw
    # Whether a client has requested the cancellation.
    cancelled: bool
    # The sequence number of the next event.
    next_event: int


class JobUpdate(Struct, frozen=True):
    """A change of a job by its node."""

    response_id: str
    node: str
    events: Sequence[Event] = ()
    # The new body of the response, if the update marks the job as in progress.
    body: Raw | None = None
    # The response and its output items, if the update finishes the job.
    finished: Response | None = None
    output: Sequence[Item] = ()


class Conversation(Struct, frozen=True):
    """A history to which the items of responses are appended."""

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
    # The messages of the request, a JSON array.
    messages: Raw
    model: str = ""
    metadata: dict[str, str] = {}


Row = TypeVar("Row")
SortOrder: TypeAlias = Literal["ASC", "DESC"]


class Listing(Struct, Generic[Row], frozen=True):
    """One page of a list."""

    data: tuple[Row, ...]
    has_more: bool
    # The `after` of the next page, if the id of the last object may be ambiguous.
    cursor: str | None = None


class Page(Struct, frozen=True):
    """The range and order of a page of a list."""

    # The id or the cursor of the last object of the previous page.
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
        """The number of rows to read; one more than the limit shows whether more rows follow."""
        return 2**31 if self.limit is None else self.limit + 1

    def listing(self, rows: Sequence[Row]) -> Listing[Row]:
        """Return the page with these rows, which are at most `row_limit`."""
        return Listing(tuple(rows[: self.limit]), self.row_limit <= len(rows))
