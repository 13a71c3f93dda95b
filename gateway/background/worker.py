"""One process among those that make responses in the background.

It holds a lease for each of its responses and renews them all with one beat. What another process
holds and no longer renews, it takes over: what was still queued is done here, for nothing of it was
sent anywhere; what had begun is ended as failed, for nobody knows how far it had come.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.responses.lifecycle import queued_response
from gateway import store as state
from gateway.background.events import EventReplay, event
from gateway.background.job import (
    NOTHING_KEPT,
    BackgroundJob,
    Job,
    Reason,
    queue_request,
    read_kept,
    write_kept,
)
from gateway.context import AppContext
from gateway.errors import NotCancellableError, ResponseNotFoundError
from gateway.http.auth import Principal
from gateway.http.headers import JSON
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.server import shutdown as stopping
from gateway.store import RUNNING, Response, Store, StoredTurn
from gateway.turns.history import find_turn
from gateway.turns.turn import Turn

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])

# Between two looks at what others ask or leave: not every database can call us.
_LOOK: Final = 1.0
# Several beats fit into one lease.
_BEATS: Final = 3
# Before a database that failed is asked again.
_PAUSE: Final = 1.0


class BackgroundWorker:
    """Takes requests and works at them, so many at a time."""

    def __init__(self, desk: AppContext) -> None:
        self._desk = desk
        self._settings = desk.config.background
        self._name = f"node_{token_hex(8)}"
        # All that is ours, those among it that wait for their turn, and who works at the others.
        self._runs: dict[str, BackgroundJob] = {}
        self._waiting: deque[str] = deque()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # What is being written down for the first time.
        self._starting: set[str] = set()
        self._beat_due = 0.0
        # While the database was away nobody could renew a lease: until then nothing is taken over.
        self._claim_due = 0.0
        self._watching: asyncio.Task[None] | None = None
        # Until when what runs may go on, once the server stops; and what gives up what waits.
        self._end: float | None = None
        self._releasing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Look after what is ours, and after what is nobody's."""
        self._watching = asyncio.create_task(self._watch())
        forget = stopping.on_shutdown(self._begin_shutdown)
        try:
            yield
        finally:
            await self._close()
            forget()
            self._watching.cancel()
            await asyncio.wait((self._watching,))

    # Requests

    async def accept(self, principal: Principal, turn: Turn, sink: ReplySink) -> None:
        """Keep a request, and tell the client that it is queued; it may want all events, too."""
        job = await self._start(principal, turn, sink.headers)
        if self._end is None:
            self._take(
                BackgroundJob(
                    self._desk, job, self._name, self._settings.lease_duration, next_event=2
                )
            )
        else:
            await self._release([job.response.id])
        if not turn.stream:
            await sink.send_response(200, JSON, bytes(job.response.body))
            return
        keep_alive = self._desk.config.server.heartbeat_interval
        await EventReplay(self._desk.store, sink, keep_alive).tell(job.response, -1)

    async def _start(self, caller: Principal, plan: Turn, headers: dict[str, str]) -> Job:
        """Write everything down; when this returns, it is committed."""
        desk, name = self._desk, plan.response_id
        kept = queue_request(plan, caller, headers, desk.sealing_keys)
        body = Raw(queued_response(bytes(kept.body), kept.stamp, desk.ids))
        turn = desk.turns.stored_turn(plan, _OBJECT.decode(body), queued=True)
        begun = [event("response.created", 0, body), event("response.queued", 1, body)]
        self._starting.add(name)
        try:
            lease = self._settings.lease_duration
            await desk.store.jobs.enqueue(turn, write_kept(kept), self._name, lease, begun)
        finally:
            self._starting.discard(name)
        return Job(turn.response, kept)

    # The work

    def _take(self, run: BackgroundJob) -> None:
        self._runs[run.name] = run
        if run.is_stopped:
            self._begin(run)
        else:
            self._waiting.append(run.name)
            self._admit()

    def _admit(self) -> None:
        """Let as many work as may."""
        while self._waiting and len(self._tasks) < self._settings.concurrency:
            self._begin(self._runs[self._waiting.popleft()])

    def _begin(self, run: BackgroundJob) -> None:
        self._tasks[run.name] = asyncio.create_task(self._work(run))

    async def _work(self, run: BackgroundJob) -> None:
        try:
            await run.work()
        except Exception:  # noqa: BLE001 - whatever it is, the others go on
            # Whoever takes it over ends it.
            LOG.exception("background response failed", response_id=run.name)
        finally:
            del self._runs[run.name], self._tasks[run.name]
            self._admit()

    def _stop(self, name: str, reason: Reason) -> None:
        """End the work at a response; what only has to be ended waits for nobody."""
        run = self._runs.get(name)
        if run is None:
            return
        run.stop(reason)
        if name not in self._tasks:
            self._waiting.remove(name)
            self._begin(run)

    # What goes on beside it

    async def _watch(self) -> None:
        """Look again and again; a database that fails for a while must not end this."""
        while True:
            try:
                await self._look(self._settings.lease_duration / _BEATS)
            except state.StoreUnavailableError as problem:
                LOG.warning("database unavailable", error=problem.message)
                await asyncio.sleep(_PAUSE)
                self._claim_due = asyncio.get_running_loop().time() + self._settings.lease_duration
            except Exception:  # noqa: BLE001 - without anybody watching, everything is lost
                LOG.exception("background worker failed")
                await asyncio.sleep(_PAUSE)

    async def _look(self, longest: float) -> None:
        """Look once; with nothing of our own, reading is enough until the next beat is due."""
        clock = asyncio.get_running_loop().time
        if self._runs or clock() >= self._beat_due:
            self._beat_due = clock() + longest
            await self._renew_leases()
        if self._end is None and clock() >= self._claim_due:
            await self._claim()
        await self._desk.store.jobs.wait_for_signal(self._name, min(longest, _LOOK))

    async def _renew_leases(self) -> None:
        """Renew the leases; learn what is no longer ours, and what somebody wants to end."""
        known = {*self._runs}
        jobs = self._desk.store.jobs
        ours = await jobs.renew_leases(self._name, self._settings.lease_duration)
        for name in known:
            if name not in ours:
                self._stop(name, Reason.LOST)
            elif ours[name]:
                self._stop(name, Reason.CANCELLED)
        # Nobody works at these: the request may have been given up while it was written down, or
        # the end could not be. They are taken over like those of others.
        left = ours.keys() - known - self._runs.keys() - self._starting
        if left:
            await jobs.release(self._name, left)

    async def _claim(self) -> None:
        """Take over what nobody looks after."""
        found = await self._desk.store.jobs.claim_expired(self._name, self._settings.lease_duration)
        if self._end is not None:
            # Meanwhile we have been told to stop.
            await self._release([one.response.id for one in found])
            return
        for one in found:
            if one.response.id not in self._runs:
                self._take_over(one)

    def _take_over(self, found: state.Job) -> None:
        response, kept = found.response, read_kept(found.request)
        LOG.warning("response taken over", response_id=response.id, status=response.status)
        job = Job(response, kept or NOTHING_KEPT)
        run = BackgroundJob(
            self._desk, job, self._name, self._settings.lease_duration, found.next_event
        )
        if found.cancelled:
            run.stop(Reason.CANCELLED)
        elif response.status != "queued" or kept is None:
            run.stop(Reason.DEAD)
        self._take(run)

    # The end

    def _begin_shutdown(self) -> None:
        """Give up what waits, at once: the other nodes are called to take it over.

        The server's connections may go on for as long as answers may. What runs here may go on for
        just that time, too, beginning now.
        """
        if self._end is not None:
            return
        allowed = self._desk.config.server.shutdown_timeout or math.inf
        self._end = asyncio.get_running_loop().time() + allowed
        waiting, self._waiting = [*self._waiting], deque()
        for name in waiting:
            del self._runs[name]
        self._releasing = asyncio.create_task(self._release(waiting))

    async def _release(self, names: list[str]) -> None:
        try:
            await self._desk.store.jobs.release(self._name, names)
        except state.StoreUnavailableError as problem:
            LOG.warning("leases not released, they have to expire", error=problem.message)

    async def _close(self) -> None:
        """Let what runs end in its time, and end what does not."""
        self._begin_shutdown()
        if self._releasing is not None:
            await self._releasing
        await self._wait_until(self._end)
        for name in [*self._runs]:
            self._stop(name, Reason.STOPPING)
        await self._wait_until(asyncio.get_running_loop().time() + self._settings.lease_duration)

    async def _wait_until(self, end: float | None) -> None:
        """Wait for all that runs."""
        if end is not None and self._tasks:
            left = end - asyncio.get_running_loop().time()
            timeout = None if left == math.inf else max(left, 0)
            await asyncio.wait(self._tasks.values(), timeout=timeout)


# Ends a response that is made in the background, whichever node works at it.


# So long the node that works at it may take, if it lives.
_PATIENCE: Final = 10.0


class _Made(Struct):
    background: bool | None = None


_MADE: Final = msgspec.json.Decoder(_Made)


def is_background(response: Response) -> bool:
    """Tell whether a response was made in the background, so that there are events of it."""
    return bool(_MADE.decode(response.body).background)


async def cancel(store: Store, owner: str, response_id: str, lease: float) -> StoredTurn:
    """End a response; give it as it then is.

    If its node died, whoever takes it over ends it. If nobody does so in time, it is given as it
    is: the wish stays in the store.
    """
    turn = await find_turn(store, owner, response_id)
    if turn.response.status in RUNNING:
        await store.jobs.request_cancel(owner, response_id)
        settled = await store.jobs.wait_until_finished(owner, response_id, lease + _PATIENCE)
        if settled is None:
            raise ResponseNotFoundError(response_id)
        turn = settled
    status = turn.response.status
    background = is_background(turn.response)
    if not background or (status != "cancelled" and status not in RUNNING):
        raise NotCancellableError(status, background=background)
    return turn
