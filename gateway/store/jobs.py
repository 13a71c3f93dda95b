"""Responses made in the background: leases, events, and how they end.

Each change is made only by the node that holds the lease, and holds the row of the job until it is
committed. So a node that was thought dead cannot write into what another has taken over.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from typing import Final

from msgspec import Raw, Struct

from gateway.store.database import Database, GroupCommitter, Transaction, pause
from gateway.store.records import (
    ENTERS_CONVERSATION,
    RUNNING,
    Event,
    Item,
    Job,
    Response,
    StoredTurn,
)
from gateway.store.responses import (
    OUTPUT,
    ItemLocation,
    ResponseStore,
    insert_turns,
    keep,
    read_response,
    reserve,
)

# So many events are read at once.
_EVENTS: Final = 500
# Clients may ask for what follows any number.
_LAST_EVENT: Final = 2**62

_STATUS: Final = "SELECT status FROM responses WHERE id = $1 AND owner = $2 AND deleted = 0"
_READ_EVENTS: Final = """
    SELECT number, body FROM events WHERE response = $1 AND number > $2 ORDER BY number LIMIT $3
"""
_LOST: Final = "SELECT 1 FROM jobs WHERE lease < {now} LIMIT 1"


# The name under which nodes are called when there are jobs to take over.
_ALL_NODES: Final = "jobs"


class _Start(Struct, frozen=True):
    turn: StoredTurn
    request: Raw
    node: str
    seconds: float
    events: Sequence[Event]


class _Progress(Struct, frozen=True):
    """What a node writes about its job."""

    response_id: str
    node: str
    events: Sequence[Event] = ()
    # In progress now, with this body.
    begun: Raw | None = None
    # Finished, with this output.
    finished: Response | None = None
    output: Sequence[Item] = ()


class JobStore:
    """Keeps responses while they are made."""

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
        seconds: float,
        events: Sequence[Event] = (),
    ) -> None:
        """Keep a queued response, with a lease for this node."""
        await self._writer.write(_start, _Start(turn, request, node, seconds, events))

    async def mark_in_progress(
        self, response_id: str, node: str, body: Raw, events: Sequence[Event] = ()
    ) -> bool:
        """Say that it is in progress."""
        progress = _Progress(response_id, node, events, begun=body)
        return await self._writer.write(_progress, progress)

    async def append_events(self, response_id: str, node: str, events: Sequence[Event]) -> bool:
        """Add to the events of its stream."""
        return await self._writer.write(_progress, _Progress(response_id, node, events))

    async def finish(
        self, response: Response, node: str, output: Sequence[Item], events: Sequence[Event]
    ) -> bool:
        """Keep its end."""
        progress = _Progress(response.id, node, events, finished=response, output=output)
        return await self._writer.write(_progress, progress)

    async def request_cancel(self, owner: str, response_id: str) -> bool:
        """Ask for its end."""
        return await self._writer.write(_cancel, (owner, response_id))

    async def renew_leases(self, node: str, seconds: float) -> dict[str, bool]:
        """Renew the leases of this node; give its jobs, and of which somebody asked the end."""
        return await self._writer.write(_beat, (node, seconds))

    async def release(self, node: str, response_ids: Collection[str]) -> None:
        """Give up the leases of some jobs."""
        await self._writer.write(_release, (node, response_ids))

    async def wait_for_signal(self, node: str, seconds: float) -> None:
        """Wait until something is asked of this node, but not for long."""
        signals = self._database.signals
        with signals.watching(node) as signal, signals.watching(_ALL_NODES, signal):
            await self._database.listen()
            await pause(signal, seconds)

    async def claim_expired(self, node: str, seconds: float) -> tuple[Job, ...]:
        """Take over the jobs whose leases have run out."""
        # Mostly there are none, and reading disturbs nobody.
        if not await self._database.fetch(_LOST):
            return ()
        return await self._writer.write(_claim, (node, seconds))

    async def wait_until_finished(
        self, owner: str, response_id: str, seconds: float
    ) -> StoredTurn | None:
        """Wait for the end of a response, but not for long."""
        try:
            async with asyncio.timeout(seconds):
                # Of its events none is wanted.
                async for _ in self.follow_events(owner, response_id, _LAST_EVENT):
                    pass
        except TimeoutError:
            pass
        return await self._responses.load(owner, response_id)

    async def follow_events(
        self, owner: str, response_id: str, after: int = -1
    ) -> AsyncGenerator[Event]:
        """Give the events after this number until the end."""
        after = min(after, _LAST_EVENT)
        with self._database.signals.watching(response_id) as signal:
            while True:
                await self._database.listen()
                # Asked before the events: if it is finished, they are all there.
                running = await self._is_running(owner, response_id)
                if running is None:
                    return
                full = True
                while full:
                    rows = await self._database.fetch(_READ_EVENTS, response_id, after, _EVENTS)
                    for number, body in rows:
                        yield Event(number, Raw(body))
                        after = number
                    full = len(rows) == _EVENTS
                if not running:
                    return
                await pause(signal, self._database.poll_interval)

    async def _is_running(self, owner: str, response_id: str) -> bool | None:
        rows = await self._database.fetch(_STATUS, response_id, owner)
        return rows[0][0] in RUNNING if rows else None


_INSERT_JOB: Final = """
    INSERT INTO jobs (response, node, lease, request) VALUES ($1, $2, {now} + $3, $4)
"""
# Who does not know whether an event was written writes it again.
_INSERT_EVENT: Final = """
    INSERT INTO events (response, number, body) VALUES ($1, $2, $3)
    ON CONFLICT (response, number) DO NOTHING
"""


async def _start(transaction: Transaction, starts: Sequence[_Start]) -> Sequence[None]:
    await insert_turns(transaction, [start.turn for start in starts])
    jobs = [
        (start.turn.response.id, start.node, start.seconds, bytes(start.request))
        for start in starts
    ]
    await transaction.execute_many(_INSERT_JOB, jobs)
    await _insert_events(transaction, ((start.turn.response.id, start.events) for start in starts))
    return [None] * len(starts)


async def _insert_events(
    transaction: Transaction, groups: Iterable[tuple[str, Sequence[Event]]]
) -> None:
    rows = [(name, event.number, bytes(event.body)) for name, events in groups for event in events]
    if rows:
        await transaction.execute_many(_INSERT_EVENT, rows)


# Changes nothing, but holds the row.
_HOLD: Final = "UPDATE jobs SET node = node WHERE response = $1 AND node = $2 RETURNING response"
_BEGIN: Final = "UPDATE responses SET status = 'in_progress', body = $2 WHERE id = $1"
_END: Final = "UPDATE responses SET status = $2, body = $3, settings = $4 WHERE id = $1"
_END_JOB: Final = "DELETE FROM jobs WHERE response = $1"


async def _progress(transaction: Transaction, batch: Sequence[_Progress]) -> Sequence[bool]:
    held = await _hold(transaction, {(it.response_id, it.node) for it in batch})
    allowed = [it for it in batch if (it.response_id, it.node) in held]
    begun = [(it.response_id, bytes(it.begun)) for it in allowed if it.begun is not None]
    if begun:
        await transaction.execute_many(_BEGIN, begun)
    await _insert_events(transaction, ((it.response_id, it.events) for it in allowed))
    for it in allowed:
        if it.finished is not None:
            await _finish(transaction, it.finished, it.output)
        transaction.notify(it.response_id)
    return [(it.response_id, it.node) in held for it in batch]


async def _hold(
    transaction: Transaction, wanted: set[tuple[str, str]]
) -> frozenset[tuple[str, str]]:
    """Hold the jobs that are still those of the nodes that write to them."""
    return frozenset([job for job in sorted(wanted) if await transaction.fetch(_HOLD, *job)])


async def _finish(transaction: Transaction, response: Response, output: Sequence[Item]) -> None:
    body, settings = bytes(response.body), bytes(response.settings)
    await transaction.fetch(_END, response.id, response.status, body, settings)
    await transaction.fetch(_END_JOB, response.id)
    place = await _enter_conversation(transaction, response, len(output))
    conversation = None if place is None else response.conversation
    home = ItemLocation(response.owner, response.id, OUTPUT, conversation, place or 0)
    await keep(transaction, [(home, output)])


_COUNT_INPUT: Final = "SELECT COUNT(*) FROM items WHERE response = $1 AND side = 0"
_ENTER: Final = """
    UPDATE items SET conversation = $2, place = $3 + position WHERE response = $1 AND side = 0
"""


async def _enter_conversation(
    transaction: Transaction, response: Response, outputs: int
) -> int | None:
    """Append the input to the conversation, if there is one; give the place of the output."""
    if response.conversation is None or response.status not in ENTERS_CONVERSATION:
        return None
    inputs: int = (await transaction.fetch(_COUNT_INPUT, response.id))[0][0]
    count = inputs + outputs
    place = await reserve(transaction, response.owner, response.conversation, count)
    if place is None:
        return None
    await transaction.fetch(_ENTER, response.id, response.conversation, place)
    return place + inputs


_CANCEL: Final = """
    UPDATE jobs SET cancelled = 1 WHERE response = $1 AND EXISTS (
        SELECT 1 FROM responses WHERE id = $1 AND owner = $2 AND deleted = 0
    ) RETURNING node
"""


async def _cancel(transaction: Transaction, wanted: Sequence[tuple[str, str]]) -> Sequence[bool]:
    cancelled: list[bool] = []
    for owner, response_id in wanted:
        rows = await transaction.fetch(_CANCEL, response_id, owner)
        for (node,) in rows:
            transaction.notify(node)
        cancelled.append(bool(rows))
    return cancelled


_BEAT: Final = "UPDATE jobs SET lease = {now} + $2 WHERE node = $1 RETURNING response, cancelled"


async def _beat(
    transaction: Transaction, beats: Sequence[tuple[str, float]]
) -> Sequence[dict[str, bool]]:
    return [
        {name: bool(cancelled) for name, cancelled in await transaction.fetch(_BEAT, *beat)}
        for beat in beats
    ]


_RELEASE: Final = "UPDATE jobs SET lease = 0 WHERE response = $1 AND node = $2"


async def _release(
    transaction: Transaction, wanted: Sequence[tuple[str, Collection[str]]]
) -> Sequence[None]:
    jobs = sorted((response_id, node) for node, names in wanted for response_id in names)
    if jobs:
        await transaction.execute_many(_RELEASE, jobs)
        transaction.notify(_ALL_NODES)
    return [None] * len(wanted)


_CLAIM: Final = """
    UPDATE jobs SET node = $1, lease = {now} + $2 WHERE lease < {now}
    RETURNING response, request, cancelled
"""
_CLAIMED: Final = """
    SELECT (SELECT COALESCE(MAX(number) + 1, 0) FROM events WHERE response = $1),
        id, owner, created, status, body, settings, model, parent, conversation
    FROM responses WHERE id = $1
"""


async def _claim(
    transaction: Transaction, claims: Sequence[tuple[str, float]]
) -> Sequence[tuple[Job, ...]]:
    return [await _claim_all(transaction, *claim) for claim in claims]


async def _claim_all(transaction: Transaction, node: str, seconds: float) -> tuple[Job, ...]:
    jobs: list[Job] = []
    for name, request, cancelled in await transaction.fetch(_CLAIM, node, seconds):
        next_event, *response = (await transaction.fetch(_CLAIMED, name))[0]
        jobs.append(Job(read_response(response), Raw(request), bool(cancelled), next_event))
    return tuple(jobs)
