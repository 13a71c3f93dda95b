"""The worker that creates the background responses of one node.

It holds a lease for each of its jobs and renews all leases together. It takes over the jobs of
other nodes whose leases have expired: it runs queued jobs, whose requests were not yet sent to a
backend, and marks jobs that had begun as failed.
"""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.responses.reply_writer import write_queued_response
from gateway.background.events import EventReplay, response_event
from gateway.background.job import run_job
from gateway.background.queued_request import QueuedRequest, decode_request, encode_request
from gateway.background.recorder import EventRecorder, StopReason
from gateway.context import AppContext, CurrentContext
from gateway.errors import NotCancellableError, ResponseNotFoundError
from gateway.http.auth import Principal
from gateway.http.headers import JSON
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.server.shutdown import on_shutdown
from gateway.store import RUNNING, Job, Response, Store, StoredTurn, StoreUnavailableError
from gateway.turns.history import load_turn
from gateway.turns.service import queued_turn
from gateway.turns.turn import Turn

# How often to look for cancelled and abandoned jobs: not every database can send signals.
_MAX_POLL_SECONDS: Final = 1.0
_RENEWALS_PER_LEASE: Final = 3
_RETRY_DELAY_SECONDS: Final = 1.0
# How long the node that runs a job may take to cancel it.
_CANCEL_SECONDS: Final = 10.0


class _Background(Struct):
    background: bool | None = None


_BACKGROUND: Final = msgspec.json.Decoder(_Background)


class BackgroundWorker:
    """Accepts requests and serves them later, a limited number at a time."""

    def __init__(self, current: CurrentContext) -> None:
        self._current = current
        app = current.value
        self._concurrency = app.config.background.concurrency
        self._lease_seconds = app.config.background.lease_duration
        self._node = f"node_{token_hex(8)}"
        # The jobs of this node by response id; a running job has a task.
        self._waiting: dict[str, Job] = {}
        self._running: dict[str, EventRecorder] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The response ids of jobs that are being inserted into the store.
        self._starting: set[str] = set()
        self._next_renewal = 0.0
        # Delayed when the database was unavailable, because no node could renew its leases.
        self._next_claim = 0.0
        # When running jobs are stopped; None before the shutdown begins.
        self._deadline: float | None = None
        self._release_task: asyncio.Task[None] | None = None

    @property
    def _app(self) -> AppContext:
        return self._current.value

    @property
    def stopping(self) -> bool:
        """Whether the shutdown has begun."""
        return self._deadline is not None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the jobs of this node, and take over those of nodes that disappeared."""
        poller = asyncio.create_task(self._poll())
        unsubscribe = on_shutdown(self._begin_shutdown)
        try:
            yield
        finally:
            await self._close()
            unsubscribe()
            poller.cancel()
            await asyncio.wait((poller,))

    async def accept(self, principal: Principal, turn: Turn, sink: ReplySink) -> None:
        """Store a request, and send the queued response or all its events."""
        job = await self._enqueue(principal, turn, sink.headers)
        if self._deadline is None:
            self._add(job)
        else:
            await self._release([job.response.id])
        if not turn.stream:
            await sink.send_response(HTTPStatus.OK, JSON, bytes(job.response.body))
            return
        interval = self._app.config.server.heartbeat_interval
        await EventReplay(self._app.store, job.response, -1, sink).run(interval)

    async def _enqueue(self, principal: Principal, turn: Turn, headers: dict[str, str]) -> Job:
        """Store a request with its queued response; when this returns, both are committed."""
        app, response_id = self._app, turn.response_id
        request = encode_request(turn, principal, headers, app.sealing_keys)
        overrides = turn.overrides | {"created_at": turn.created}
        body = Raw(write_queued_response(turn.request.body.encode(stream=True), overrides, app.ids))
        stored = queued_turn(turn, body)
        kinds = ("response.created", "response.queued")
        events = [response_event(kind, number, body) for number, kind in enumerate(kinds)]
        self._starting.add(response_id)
        try:
            await app.store.jobs.enqueue(stored, request, self._node, self._lease_seconds, events)
        finally:
            self._starting.discard(response_id)
        return Job(stored.response, request, cancelled=False, next_event=len(events))

    def _add(self, job: Job) -> None:
        self._waiting[job.response.id] = job
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Start as many waiting jobs as may run at a time, the oldest first."""
        while self._waiting and len(self._tasks) < self._concurrency:
            self._start(self._waiting.pop(next(iter(self._waiting))))

    def _start(self, job: Job, reason: StopReason | None = None) -> None:
        """Run a job; with a `reason`, only save that it ended, without a request to a backend."""
        request, response_id = decode_request(job.request), job.response.id
        headers = {} if request is None else request.headers
        recorder = EventRecorder(self._app.store, job, self._node, self._lease_seconds, headers)
        if request is None and reason is None:
            reason = StopReason.DEAD
        if reason is not None:
            recorder.stop(reason)
        self._running[response_id] = recorder
        self._tasks[response_id] = asyncio.create_task(self._run(recorder, request))

    async def _run(self, recorder: EventRecorder, request: QueuedRequest | None) -> None:
        response_id = recorder.job.response.id
        try:
            await run_job(self._app, recorder, request)
        except Exception:  # noqa: BLE001 - after any failure, the waiting jobs must be started
            # The node that takes the job over marks it as failed.
            LOG.exception("background response failed", response_id=response_id)
        finally:
            del self._running[response_id], self._tasks[response_id]
            self._start_waiting()

    def _stop(self, response_id: str, reason: StopReason) -> None:
        if response_id in self._running:
            self._running[response_id].stop(reason)
        elif response_id in self._waiting:
            self._start(self._waiting.pop(response_id), reason)

    async def _poll(self) -> None:
        """Renew leases and take over jobs until this task is cancelled; log failures."""
        while True:
            try:
                await self._poll_once(self._lease_seconds / _RENEWALS_PER_LEASE)
            except StoreUnavailableError as error:
                LOG.warning("database unavailable", error=error.message)
                await asyncio.sleep(_RETRY_DELAY_SECONDS)
                self._next_claim = asyncio.get_running_loop().time() + self._lease_seconds
            except Exception:  # noqa: BLE001 - without leases, all jobs would be lost
                LOG.exception("background worker failed")
                await asyncio.sleep(_RETRY_DELAY_SECONDS)

    async def _poll_once(self, interval: float) -> None:
        clock = asyncio.get_running_loop().time
        # A node without jobs writes nothing until the next renewal is due.
        if self._waiting or self._running or clock() >= self._next_renewal:
            self._next_renewal = clock() + interval
            await self._renew_leases()
        if self._deadline is None and clock() >= self._next_claim:
            await self._claim()
        await self._app.store.jobs.wait_for_signal(self._node, min(interval, _MAX_POLL_SECONDS))

    async def _renew_leases(self) -> None:
        """Renew the leases; stop jobs that this node has lost or that are to be cancelled."""
        known, jobs = self._jobs(), self._app.store.jobs
        leases = await jobs.renew_leases(self._node, self._lease_seconds)
        for response_id in known:
            if response_id not in leases:
                self._stop(response_id, StopReason.LOST)
            elif leases[response_id]:
                self._stop(response_id, StopReason.CANCELLED)
        # Release jobs without a task, so that a node takes them over: the client disconnected while
        # a job was being inserted, or the end of a job could not be saved.
        abandoned = leases.keys() - known - self._jobs() - self._starting
        if abandoned:
            await jobs.release(self._node, abandoned)

    def _jobs(self) -> set[str]:
        return {*self._waiting, *self._running}

    async def _claim(self) -> None:
        """Take over the jobs of nodes that disappeared."""
        claimed = await self._app.store.jobs.claim_expired(self._node, self._lease_seconds)
        if self._deadline is not None:
            # The shutdown has begun meanwhile.
            await self._release([job.response.id for job in claimed])
            return
        for job in claimed:
            if job.response.id not in self._jobs():
                self._take_over(job)

    def _take_over(self, job: Job) -> None:
        response = job.response
        LOG.warning("response taken over", response_id=response.id, status=response.status)
        if job.cancelled:
            self._start(job, StopReason.CANCELLED)
        elif response.status != "queued":
            self._start(job, StopReason.DEAD)
        else:
            self._add(job)

    def _begin_shutdown(self) -> None:
        """Release the waiting jobs at once, so that other nodes take them over.

        Running jobs have the same time to end as the connections of the server.
        """
        if self._deadline is not None:
            return
        timeout = self._app.config.server.shutdown_timeout or math.inf
        self._deadline = asyncio.get_running_loop().time() + timeout
        waiting = [*self._waiting]
        self._waiting.clear()
        self._release_task = asyncio.create_task(self._release(waiting))

    async def _release(self, response_ids: list[str]) -> None:
        try:
            await self._app.store.jobs.release(self._node, response_ids)
        except StoreUnavailableError as error:
            LOG.warning("leases not released, they have to expire", error=error.message)

    async def _close(self) -> None:
        """Wait for the running jobs, and stop those that take too long."""
        self._begin_shutdown()
        if self._release_task is not None:
            await self._release_task
        await self._wait_until(self._deadline or 0)
        for response_id in [*self._running]:
            self._stop(response_id, StopReason.STOPPING)
        await self._wait_until(asyncio.get_running_loop().time() + self._lease_seconds)

    async def _wait_until(self, deadline: float) -> None:
        """Wait until all jobs have ended, at most until the deadline."""
        if self._tasks:
            left = deadline - asyncio.get_running_loop().time()
            timeout = None if left == math.inf else max(left, 0)
            await asyncio.wait(self._tasks.values(), timeout=timeout)


def is_background(response: Response) -> bool:
    """Whether a response was created in the background, so that its events are stored."""
    return bool(_BACKGROUND.decode(response.body).background)


async def cancel_response(
    store: Store, owner: str, response_id: str, lease_seconds: float
) -> StoredTurn:
    """Request the cancellation of a background response, and return it when it has ended.

    If the node that runs it has died, the node that takes it over cancels it. If this takes too
    long, return the response in its current state.
    """
    turn = await load_turn(store, owner, response_id)
    if turn.response.status in RUNNING:
        await store.jobs.request_cancel(owner, response_id)
        timeout = lease_seconds + _CANCEL_SECONDS
        finished = await store.jobs.wait_until_finished(owner, response_id, timeout)
        if finished is None:
            raise ResponseNotFoundError(response_id)
        turn = finished
    status, background = turn.response.status, is_background(turn.response)
    if not background or (status != "cancelled" and status not in RUNNING):
        raise NotCancellableError(status, background=background)
    return turn
