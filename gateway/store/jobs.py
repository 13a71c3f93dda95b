"""Background responses with their jobs and events.

Only the node that holds the lease of a job changes the job, and each change locks the row of the
job until the commit. A node that was considered dead can therefore not write to a job that another
node has taken over.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Raw, Struct

from gateway.store.database import Database, GroupCommitter, Transaction, wait_and_clear
from gateway.store.items import OUTPUT, ItemLocation, insert_items, reserve_places
from gateway.store.records import (
    APPENDED_TO_CONVERSATION,
    RUNNING,
    Event,
    Item,
    Job,
    JobUpdate,
    Response,
    StoredTurn,
)
from gateway.store.responses import RESPONSE_COLUMNS, ResponseStore, insert_queued, read_response

_EVENTS_PER_QUERY: Final = 500
# Clients may request the events after any number, but databases limit the size of integers.
_MAX_EVENT_NUMBER: Final = 2**62
# The signal that wakes all nodes when jobs were released.
_JOBS_RELEASED: Final = "jobs"

_STATUS: Final = "SELECT status FROM responses WHERE id = $1 AND owner = $2 AND deleted = 0"
_LOAD_EVENTS: Final = """
    SELECT number, body FROM events WHERE response = $1 AND number > $2 ORDER BY number LIMIT $3
"""
_INSERT_JOB: Final = """
    INSERT INTO jobs (response, node, lease, request) VALUES ($1, $2, {now} + $3, $4)
"""
# A node that does not know whether an event was committed inserts it again.
_INSERT_EVENT: Final = """
    INSERT INTO events (response, number, body) VALUES ($1, $2, $3)
    ON CONFLICT (response, number) DO NOTHING
"""
# Changes nothing, but locks the row.
_LOCK_JOB: Final = (
    "UPDATE jobs SET node = node WHERE response = $1 AND node = $2 RETURNING response"
)
_MARK_IN_PROGRESS: Final = "UPDATE responses SET status = 'in_progress', body = $2 WHERE id = $1"
_FINISH: Final = "UPDATE responses SET status = $2, body = $3, settings = $4 WHERE id = $1"
_DELETE_JOB: Final = "DELETE FROM jobs WHERE response = $1"
_COUNT_INPUT: Final = "SELECT COUNT(*) FROM items WHERE response = $1 AND side = 0"
_APPEND_INPUT: Final = """
    UPDATE items SET conversation = $2, place = $3 + position WHERE response = $1 AND side = 0
"""
_REQUEST_CANCEL: Final = """
    UPDATE jobs SET cancelled = 1 WHERE response = $1 AND EXISTS (
        SELECT 1 FROM responses WHERE id = $1 AND owner = $2 AND deleted = 0
    ) RETURNING node
"""
_RENEW: Final = "UPDATE jobs SET lease = {now} + $2 WHERE node = $1 RETURNING response, cancelled"
_RELEASE: Final = "UPDATE jobs SET lease = 0 WHERE response = $1 AND node = $2"
_ANY_EXPIRED: Final = "SELECT 1 FROM jobs WHERE lease < {now} LIMIT 1"
_CLAIM: Final = """
    UPDATE jobs SET node = $1, lease = {now} + $2 WHERE lease < {now}
    RETURNING response, request, cancelled
"""
_LOAD_CLAIMED: Final = f"""
    SELECT (SELECT COALESCE(MAX(number) + 1, 0) FROM events WHERE response = $1),
        {RESPONSE_COLUMNS}
    FROM responses WHERE id = $1
"""


class _NewJob(Struct, frozen=True):
    turn: StoredTurn
    request: Raw
    node: str
    lease_seconds: float
    events: Sequence[Event]


class JobStore:
    """Jobs, each with the node that holds its lease."""

    def __init__(
        self, database: Database, writer: GroupCommitter, responses: ResponseStore
    ) -> None:
        self._database = database
        self._writer = writer
        self._responses = responses

    async def enqueue(
        self,
        turn: StoredTurn,
        request: Raw,
        node: str,
        lease_seconds: float,
        events: Sequence[Event] = (),
    ) -> None:
        """Save a queued response and its first events, with a lease for this node."""
        await self._writer.write(_enqueue, _NewJob(turn, request, node, lease_seconds, events))

    async def update(self, update: JobUpdate) -> bool:
        """Write to a job; return False if another node has taken it over or it was deleted."""
        return await self._writer.write(_update, update)

    async def request_cancel(self, owner: str, response_id: str) -> bool:
        """Request the cancellation of a job from its node; return False if there is no job."""
        return await self._writer.write(_request_cancel, (owner, response_id))

    async def renew_leases(self, node: str, lease_seconds: float) -> dict[str, bool]:
        """Renew the leases of this node; return its jobs, and whether each is to be cancelled."""
        return await self._writer.write(_renew_leases, (node, lease_seconds))

    async def release(self, node: str, response_ids: Collection[str]) -> None:
        """Release the leases of jobs, so that other nodes take them over at once."""
        await self._writer.write(_release, (node, response_ids))

    async def wait_for_signal(self, node: str, seconds: float) -> None:
        """Wait until a job of this node is to be cancelled or jobs were released.

        With SQLite there is no signal from other processes, so check for both after the timeout.
        """
        with self._database.signals.subscribe(node, _JOBS_RELEASED) as signal:
            await self._database.listen()
            await wait_and_clear(signal, seconds)

    async def claim_expired(self, node: str, lease_seconds: float) -> tuple[Job, ...]:
        """Take over the jobs whose leases have expired."""
        # Usually no lease has expired. This query does not block writers, unlike the update.
        if not await self._database.fetch(_ANY_EXPIRED):
            return ()
        return await self._writer.write(_claim_expired, (node, lease_seconds))

    async def wait_until_finished(
        self, owner: str, response_id: str, seconds: float
    ) -> StoredTurn | None:
        """Wait until a response is finished, at most for this time; then load it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in self.follow_events(owner, response_id, _MAX_EVENT_NUMBER):
                    pass
        return await self._responses.load(owner, response_id)

    async def follow_events(
        self, owner: str, response_id: str, after: int = -1
    ) -> AsyncGenerator[Event]:
        """Yield the events after this number as they are written, until the job is finished."""
        after = min(after, _MAX_EVENT_NUMBER)
        with self._database.signals.subscribe(response_id) as signal:
            while True:
                await self._database.listen()
                # Load the status before the events: a finished response has all its events.
                rows = await self._database.fetch(_STATUS, response_id, owner)
                full = bool(rows)
                while full:
                    events = await self._database.fetch(
                        _LOAD_EVENTS, response_id, after, _EVENTS_PER_QUERY
                    )
                    for number, body in events:
                        yield Event(number, Raw(body))
                        after = number
                    full = len(events) == _EVENTS_PER_QUERY
                if not rows or rows[0][0] not in RUNNING:
                    return
                await wait_and_clear(signal, self._database.poll_seconds)


async def _enqueue(transaction: Transaction, jobs: Sequence[_NewJob]) -> Sequence[None]:
    await insert_queued(transaction, [job.turn for job in jobs])
    rows = [(job.turn.response.id, job.node, job.lease_seconds, bytes(job.request)) for job in jobs]
    await transaction.execute_many(_INSERT_JOB, rows)
    await _insert_events(transaction, ((job.turn.response.id, job.events) for job in jobs))
    return [None] * len(jobs)


async def _insert_events(
    transaction: Transaction, groups: Iterable[tuple[str, Sequence[Event]]]
) -> None:
    rows = [
        (response_id, event.number, bytes(event.body))
        for response_id, events in groups
        for event in events
    ]
    if rows:
        await transaction.execute_many(_INSERT_EVENT, rows)


async def _update(transaction: Transaction, batch: Sequence[JobUpdate]) -> Sequence[bool]:
    jobs = sorted({(it.response_id, it.node) for it in batch})
    locked = {job for job in jobs if await transaction.fetch(_LOCK_JOB, *job)}
    allowed = [it for it in batch if (it.response_id, it.node) in locked]
    started = [(it.response_id, bytes(it.body)) for it in allowed if it.body is not None]
    if started:
        await transaction.execute_many(_MARK_IN_PROGRESS, started)
    await _insert_events(transaction, ((it.response_id, it.events) for it in allowed))
    for it in allowed:
        if it.finished is not None:
            await _finish(transaction, it.finished, it.output)
        transaction.notify(it.response_id)
    return [(it.response_id, it.node) in locked for it in batch]


async def _finish(transaction: Transaction, response: Response, output: Sequence[Item]) -> None:
    body, settings = bytes(response.body), bytes(response.settings)
    await transaction.fetch(_FINISH, response.id, response.status, body, settings)
    await transaction.fetch(_DELETE_JOB, response.id)
    place = await _append_input(transaction, response, len(output))
    conversation = None if place is None else response.conversation
    location = ItemLocation(response.owner, response.id, OUTPUT, conversation, place or 0)
    await insert_items(transaction, [(location, output)])


async def _append_input(
    transaction: Transaction, response: Response, output_count: int
) -> int | None:
    """Append the input to the conversation, if there is one; return the place for the output."""
    if response.conversation is None or response.status not in APPENDED_TO_CONVERSATION:
        return None
    input_count: int = (await transaction.fetch(_COUNT_INPUT, response.id))[0][0]
    place = await reserve_places(
        transaction, response.owner, response.conversation, input_count + output_count
    )
    if place is None:
        return None
    await transaction.fetch(_APPEND_INPUT, response.id, response.conversation, place)
    return place + input_count


async def _request_cancel(
    transaction: Transaction, batch: Sequence[tuple[str, str]]
) -> Sequence[bool]:
    found: list[bool] = []
    for owner, response_id in batch:
        rows = await transaction.fetch(_REQUEST_CANCEL, response_id, owner)
        for (node,) in rows:
            transaction.notify(node)
        found.append(bool(rows))
    return found


async def _renew_leases(
    transaction: Transaction, batch: Sequence[tuple[str, float]]
) -> Sequence[dict[str, bool]]:
    return [
        {response_id: bool(cancelled) for response_id, cancelled in rows}
        for rows in [await transaction.fetch(_RENEW, *one) for one in batch]
    ]


async def _release(
    transaction: Transaction, batch: Sequence[tuple[str, Collection[str]]]
) -> Sequence[None]:
    jobs = sorted((response_id, node) for node, ids in batch for response_id in ids)
    if jobs:
        await transaction.execute_many(_RELEASE, jobs)
        transaction.notify(_JOBS_RELEASED)
    return [None] * len(batch)


async def _claim_expired(
    transaction: Transaction, batch: Sequence[tuple[str, float]]
) -> Sequence[tuple[Job, ...]]:
    claims: list[tuple[Job, ...]] = []
    for node, lease_seconds in batch:
        jobs: list[Job] = []
        for response_id, request, cancelled in await transaction.fetch(_CLAIM, node, lease_seconds):
            next_event, *row = (await transaction.fetch(_LOAD_CLAIMED, response_id))[0]
            jobs.append(Job(read_response(row), Raw(request), bool(cancelled), next_event))
        claims.append(tuple(jobs))
    return claims
