"""The interface of both databases, SQLite and PostgreSQL, and group commit.

Statements are written for PostgreSQL, with `$1` for the first argument. Words in braces are
replaced by SQL that differs between the databases:

    {bytes}        the type of bytes
    {serial}       the type of a column that numbers its rows
    {now}          seconds since 1970, by the clock of the database, because clocks of nodes differ
    {in_array}     after a column: a condition that its text is in the JSON array $2
    {for_share}    after a query: locks its rows against changes until the commit
    {global_lock}  a statement that only one transaction at a time can pass
    {tables}       a table of all tables, with their `name`
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from gateway.store.records import CommitOutcomeUnknownError, DatabaseUnavailableError

Row: TypeAlias = Sequence[Any]

# Returns the password for a new connection to a server; None if the URL has all that is needed.
Password: TypeAlias = Callable[[], str] | None


class Signals:
    """Wakes tasks of this process that wait for a name."""

    def __init__(self) -> None:
        self._events: dict[str, set[asyncio.Event]] = {}

    def fire(self, name: str) -> None:
        """Wake all tasks that wait for this name."""
        for event in self._events.get(name, ()):
            event.set()

    @contextmanager
    def subscribe(self, *names: str) -> Generator[asyncio.Event]:
        """Return an event that is set whenever one of the names is fired inside the block."""
        event = asyncio.Event()
        for name in names:
            self._events.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            for name in names:
                others = self._events[name]
                others.discard(event)
                if not others:
                    del self._events[name]


async def wait_and_clear(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most for this time, and clear it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()


class Transaction(Protocol):
    """Statements that take effect together or not at all."""

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    async def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement once for each row of arguments."""
        ...

    def notify(self, name: str) -> None:
        """Fire the signals of this name on all nodes after the commit."""
        ...


class Database(Protocol):
    """A database and the connections of this process to it."""

    signals: Signals
    # How long a task waits for a signal before it queries the database.
    poll_seconds: float

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a read-only statement on committed data."""
        ...

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Run a read-only statement that finds a few small rows through an index."""
        ...

    def transaction(self, *, long: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Start a transaction; commit it at the end, or roll it back on an exception.

        A long transaction may change any number of rows, others only the rows of a few requests.
        """
        ...

    async def listen(self) -> None:
        """Start to receive notifications of other nodes, if the database supports them."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


def sanitize_text(text: str) -> str:
    """Return text that both databases accept.

    Clients choose ids freely, but PostgreSQL stores no NUL, and neither database stores half of a
    surrogate pair. Objects with such an id are not found, because the character is replaced.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def sanitize_row(row: Sequence[object]) -> tuple[object, ...]:
    """Return the arguments of a statement with sanitized texts."""
    return tuple([sanitize_text(value) if isinstance(value, str) else value for value in row])


def json_array(texts: Iterable[str]) -> str:
    """Return the argument for `{in_array}`."""
    return msgspec.json.encode([sanitize_text(text) for text in texts]).decode()


def render_sql(statement: str, replacements: dict[str, str]) -> str:
    """Replace the words in braces by the SQL of one database."""
    for placeholder, sql in replacements.items():
        statement = statement.replace(placeholder, sql)
    return statement


# Group commit. A commit waits for the disk, which takes as long for one change as for a hundred.
# Therefore all changes that arrive during a commit are committed together afterwards. Changes with
# the same function are made by one call of it; no client depends on their order yet.

A = TypeVar("A")
R = TypeVar("R")

# Makes all changes of one kind; returns one result for each.
Change: TypeAlias = Callable[[Transaction, Sequence[A]], Awaitable[Sequence[R]]]

_MAX_GROUP_SIZE: Final = 256
# PostgreSQL aborts one of two transactions of different nodes that wait for each other.
_ATTEMPTS: Final = 3
# While the database is unavailable, a change is retried at once, because only idle connections may
# have been lost. It is retried no longer than this, because all other writers wait.
_RETRY_SECONDS: Final = 5.0
# After these errors, committing each change of a group alone would fail too.
_FINAL_ERRORS: Final = (DatabaseUnavailableError, CommitOutcomeUnknownError)


@dataclass(slots=True)
class _PendingChange:
    change: Change[Any, Any]
    argument: object
    long: bool
    # Done early if the waiting task was cancelled.
    result: asyncio.Future[Any]

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)

    def succeed(self, result: object) -> None:
        if not self.result.done():
            self.result.set_result(result)


class GroupCommitter:
    """Collects changes and commits them in groups."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[_PendingChange] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, change: Change[A, R], argument: A, *, long: bool = False) -> R:
        """Make a change and return its result after the commit.

        Cancelling the waiting task does not undo the change.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.append(_PendingChange(change, argument, long, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Wait until all changes are written."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while self._pending:
                group = self._pending[:_MAX_GROUP_SIZE]
                del self._pending[:_MAX_GROUP_SIZE]
                await self._commit(group)
        finally:
            self._task = None

    async def _commit(self, group: list[_PendingChange]) -> None:
        """Commit a group, or each of its changes alone if the group as a whole fails."""
        error = await self._try_repeatedly(group)
        if error is None:
            return
        for pending in group:
            if isinstance(error, _FINAL_ERRORS):
                pending.fail(error)
                continue
            own_error = await self._commit_alone(pending)
            # After other errors of this change, the other changes may still succeed.
            if isinstance(own_error, DatabaseUnavailableError):
                error = own_error

    async def _commit_alone(self, pending: _PendingChange) -> Exception | None:
        """Commit one change in a few attempts; return the last error."""
        error: Exception | None = None
        for _ in range(_ATTEMPTS):
            error = await self._try_repeatedly([pending])
            if error is None or isinstance(error, _FINAL_ERRORS):
                break
        if error is not None:
            pending.fail(error)
        return error

    async def _try_repeatedly(self, group: list[_PendingChange]) -> Exception | None:
        """Commit a group, with retries while the database is unavailable; return the last error."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + _RETRY_SECONDS
        error = await self._try(group)
        for _ in range(_ATTEMPTS):
            if not isinstance(error, DatabaseUnavailableError) or clock() > deadline:
                break
            error = await self._try(group)
        return error

    async def _try(self, group: list[_PendingChange]) -> Exception | None:
        """Commit a group in one transaction; return the error."""
        try:
            long = any(pending.long for pending in group)
            async with self._database.transaction(long=long) as transaction:
                results = await _apply(transaction, group)
        except Exception as error:  # noqa: BLE001 - raised in the waiting tasks
            return error
        for pending, result in zip(group, results, strict=True):
            pending.succeed(result)
        return None


async def _apply(transaction: Transaction, group: list[_PendingChange]) -> list[object]:
    """Make the changes with the same function together; return the results in group order."""
    indexes_by_change: dict[Change[Any, Any], list[int]] = {}
    for index, pending in enumerate(group):
        indexes_by_change.setdefault(pending.change, []).append(index)
    results: list[object] = [None] * len(group)
    for change, indexes in indexes_by_change.items():
        batch = await change(transaction, [group[index].argument for index in indexes])
        for index, result in zip(indexes, batch, strict=True):
            results[index] = result
    return results
