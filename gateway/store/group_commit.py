"""One transaction for all who wait to write.

A commit waits for the disk, and that takes as long for one change as for a hundred. While one group
is being committed the next one gathers. Within a group, changes of a kind are made together; their
order is free, since nobody has been told of any of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from gateway.store.database import Database, Transaction
from gateway.store.errors import CommitOutcomeUnknownError, DatabaseUnavailableError

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
