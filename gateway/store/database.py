"""What the store needs of a database, so that its SQL is written once for both.

Statements are written as PostgreSQL has them, `$1` for the first argument. A few words in braces
stand for what the two databases say differently:

    {bytes}   the type of bytes
    {serial}  a column that numbers its rows
    {now}     seconds since 1970, by the clock of the database: those of machines differ
    {among}   after a column: it is one of the texts of a JSON array in $2
    {shared}  after a query: until the commit, nobody changes or deletes the rows that it gives
    {alone}   waits until no other transaction is past this point
    {tables}  a table of all tables, with their `name`
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from gateway.store.records import CommitOutcomeUnknownError, DatabaseUnavailableError

# Waking those who wait for something to change.


class Signals:
    """Knows who waits for which name."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def fire(self, name: str) -> None:
        """Wake all who wait for this name."""
        for event in self._waiting.get(name, ()):
            event.set()

    @contextmanager
    def watching(self, name: str, event: asyncio.Event | None = None) -> Generator[asyncio.Event]:
        """Give an event that is set when the name is fired, however early in this block."""
        event = event or asyncio.Event()
        self._waiting.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            others = self._waiting[name]
            others.discard(event)
            if not others:
                del self._waiting[name]


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not for long; be ready for the next one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()


Row: TypeAlias = Sequence[Any]


class Transaction(Protocol):
    """Statements that are done together or not at all."""

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and give its rows."""
        ...

    async def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement once for each row of arguments."""
        ...

    def notify(self, name: str) -> None:
        """Tell those who wait for this name, on all nodes, once it is committed."""
        ...


class Database(Protocol):
    """One database, and this process's connections to it."""

    signals: Signals
    # After so many seconds, who waits for a signal looks for itself.
    poll_interval: float

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement that only reads, on what has been committed."""
        ...

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Do the same with a statement that finds a few small rows by an index."""
        ...

    def transaction(self, *, long: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction; commit it in the end, or roll it back if anything is raised.

        One that may change any number of rows, and not just those that a request brings, is long.
        """
        ...

    async def listen(self) -> None:
        """See to it that the announcements of other nodes arrive here, if they can."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


def sanitize_text(text: str) -> str:
    """Give a text that every database takes: names come from clients, and may be anything.

    PostgreSQL keeps no NUL, and neither keeps half of a surrogate pair. With something else in its
    place a name is found nowhere, as it should be.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def plain_row(row: Sequence[object]) -> tuple[object, ...]:
    """Give the arguments of a statement, all texts among them plain."""
    return tuple([sanitize_text(value) if isinstance(value, str) else value for value in row])


def render_sql(statement: str, words: dict[str, str]) -> str:
    """Put the words of one database into a statement."""
    for word, meaning in words.items():
        statement = statement.replace(word, meaning)
    return statement


# One transaction for all who wait to write.
#
# A commit waits for the disk, and that takes as long for one change as for a hundred. While one
# group
# is being committed the next one gathers. Within a group, changes of a kind are made together;
# their
# order is free, since nobody has been told of any of them.


A = TypeVar("A")
R = TypeVar("R")

# Makes all changes of one kind; gives a result for each.
Change: TypeAlias = Callable[[Transaction, Sequence[A]], Awaitable[Sequence[R]]]

# So many at once: a group should not take long either.
_LARGEST_GROUP: Final = 256
# Two nodes can stand in each other's way; the database then refuses one of them.
_ATTEMPTS: Final = 3
# A database that is away is asked again at once, for its connections may have been lost while they
# were idle; but not by one after the other, if each had to wait long for nothing.
_MOMENT: Final = 5.0
# What is not tried again for each by itself.
_HOPELESS: Final = (DatabaseUnavailableError, CommitOutcomeUnknownError)


class _PendingWrite:
    """A change that somebody waits for."""

    __slots__ = ("argument", "change", "done", "long")

    def __init__(self, change: Change[Any, Any], argument: object, *, long: bool) -> None:
        self.change = change
        self.argument = argument
        self.long = long
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self, problem: Exception) -> None:
        """Tell who waits that it was not done."""
        # Some have stopped waiting.
        if not self.done.done():
            self.done.set_exception(problem)


class GroupCommitter:
    """Takes changes and commits them in groups."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wishes: list[_PendingWrite] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, change: Change[A, R], argument: A, *, long: bool = False) -> R:
        """Make a change, which may be a long one; return when it is committed.

        Who stops waiting does not undo it.
        """
        wish = _PendingWrite(change, argument, long=long)
        self._wishes.append(wish)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        result: R = await wish.done
        return result

    async def close(self) -> None:
        """Wait until everything is written."""
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        try:
            while self._wishes:
                group = self._wishes[:_LARGEST_GROUP]
                del self._wishes[:_LARGEST_GROUP]
                await self._commit(group)
        finally:
            self._task = None

    async def _commit(self, group: list[_PendingWrite]) -> None:
        """Commit a group; if one of it cannot be done, each by itself."""
        problem = await self._repeat(group)
        if problem is None:
            return
        for wish in group:
            if isinstance(problem, _HOPELESS):
                wish.fail(problem)
                continue
            again = await self._insist(wish)
            # What went wrong with one says nothing of the others, unless nothing is done at all.
            problem = again if isinstance(again, DatabaseUnavailableError) else problem

    async def _repeat(self, group: list[_PendingWrite]) -> Exception | None:
        """Try again what a database may do that was away for a moment; give what went wrong."""
        clock = asyncio.get_running_loop().time
        end = clock() + _MOMENT
        problem = await self._attempt(group)
        for _ in range(_ATTEMPTS):
            if not isinstance(problem, DatabaseUnavailableError) or clock() > end:
                break
            problem = await self._attempt(group)
        return problem

    async def _insist(self, wish: _PendingWrite) -> Exception | None:
        """Try again by itself what was surely not done; give what went wrong."""
        problem: Exception | None = None
        for _ in range(_ATTEMPTS):
            problem = await self._repeat([wish])
            if problem is None or isinstance(problem, _HOPELESS):
                break
        if problem is not None:
            wish.fail(problem)
        return problem

    async def _attempt(self, group: list[_PendingWrite]) -> Exception | None:
        """Make the changes of a group in one transaction; give what went wrong."""
        try:
            long = any(wish.long for wish in group)
            async with self._database.transaction(long=long) as transaction:
                results = await _apply(transaction, group)
        except Exception as problem:  # noqa: BLE001 - whatever it is, those who wait are told
            return problem
        for wish, result in zip(group, results, strict=True):
            # Some have stopped waiting.
            if not wish.done.done():
                wish.done.set_result(result)
        return None


async def _apply(transaction: Transaction, group: list[_PendingWrite]) -> list[object]:
    """Make the changes of each kind together; give the results in the order of the group."""
    kinds: dict[Change[Any, Any], list[int]] = {}
    for place, wish in enumerate(group):
        kinds.setdefault(wish.change, []).append(place)
    results: list[object] = [None] * len(group)
    for change, places in kinds.items():
        given = await change(transaction, [group[place].argument for place in places])
        for place, result in zip(places, given, strict=True):
            results[place] = result
    return results
