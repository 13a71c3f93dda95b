"""The work at one response: the same as for any request, with the store in the client's place."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

from litestar.types.asgi_types import HTTPDisconnectEvent
from msgspec import Raw

from adapters import DragomanError
from adapters.ir.types import Error
from adapters.wire.error_body import to_error
from adapters.wire.json_object import read_body
from gateway.background.events import event
from gateway.background.outcome import Job, JobOutcome, cancelled, failed, finished
from gateway.background.queued_request import authorization_of, opened, plan_of
from gateway.background.recorder import EventRecorder
from gateway.context import AppContext
from gateway.errors import ClientDisconnectedError
from gateway.http.client_connection import ClientConnection
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.handler import Visit
from gateway.store import Event, StoreUnavailableError
from gateway.store.errors import CommitOutcomeUnknownError, DatabaseUnavailableError

_PATH: Final = "/v1/responses"
# Before a database that cannot be reached is asked again.
_PAUSE: Final = 0.5


class Reason(Enum):
    """Why the work ends before the answer does: a word for the log, and for the client."""

    CANCELLED = "cancelled"
    # Another node works at it, or it was deleted: nothing more is ours to write.
    LOST = "lost"
    STOPPING = "the gateway was stopped while it made this response"
    DEAD = "the node that made this response died"


_SILENT: Final = "the backend's answer ended before it was whole"


class BackgroundJob:
    """One response, from its turn to its end."""

    def __init__(
        self, desk: AppContext, job: Job, node: str, lease: float, next_event: int
    ) -> None:
        self._desk = desk
        self._job = job
        self._node = node
        self._lease = lease
        self._reason: Reason | None = None
        self._stopped = asyncio.Event()
        self._recorder = EventRecorder(self._append, lambda: self.stop(Reason.LOST))
        self._recorder.next = next_event
        # Why the backend was not even asked.
        self._problem: Error | None = None

    @property
    def name(self) -> str:
        """Give the id of the response."""
        return self._job.response.id

    @property
    def is_stopped(self) -> bool:
        """Tell whether there is nothing left to do but to end it."""
        return self._reason is not None

    def stop(self, reason: Reason) -> None:
        """End the work; the connection to the backend is closed at once."""
        if self._reason is None or reason is Reason.LOST:
            self._reason = reason
        self._stopped.set()

    async def work(self) -> None:
        """Do all of it; when this returns, the end is committed, or left to whoever holds it."""
        if not self.is_stopped and await self._begin() and not self.is_stopped:
            await self._serve()
        await self._recorder.settle()
        if self._reason is not Reason.LOST:
            await self._finish(await self._ending())

    # Before the backend is asked

    async def _begin(self) -> bool:
        """Say that it is in progress: from here on nobody else may ask a backend for it."""
        body = Raw(read_body(bytes(self._job.response.body)).encode_with(status="in_progress"))
        number = self._recorder.next
        begun = [event("response.in_progress", number, body)]
        jobs = self._desk.store.jobs
        if not await self._write_with_retry(lambda: jobs.begin(self.name, self._node, body, begun)):
            self.stop(Reason.LOST)
            return False
        self._recorder.next = number + 1
        return True

    async def _serve(self) -> None:
        desk, record = self._desk, ExchangeRecord(_PATH)
        kept, response = self._job.kept, self._job.response
        client = ClientConnection(dict(kept.headers), self._receive, self._recorder.send, record)
        try:
            shown = authorization_of(kept, response, desk.sealer)
            caller = desk.gatekeeper.reauthenticate(response.owner, shown)
            plan = plan_of(opened(kept, response, desk.sealer), response)
            await Visit(desk, "responses", client, record).serve(caller, plan.body, plan)
        except DragomanError as problem:
            self._problem = to_error(problem)
            record.note_failure(problem.code)
        except ClientDisconnectedError:
            record.note_failure(None if self._reason is None else self._reason.name.lower())
        finally:
            desk.record_exchange(record)

    async def _receive(self) -> HTTPDisconnectEvent:
        """Wait, as for a client that leaves, until the work is to end."""
        await self._stopped.wait()
        return {"type": "http.disconnect"}

    async def _append(self, events: list[Event]) -> bool:
        jobs = self._desk.store.jobs
        return await self._write_with_retry(lambda: jobs.append(self.name, self._node, events))

    # The end

    async def _ending(self) -> JobOutcome:
        desk, job, recorder = self._desk, self._job, self._recorder
        if recorder.response is not None and recorder.is_whole:
            # Who wants to stop what is whole already comes too late.
            return finished(desk.ledger, job, recorder.response, recorder.last, recorder.next)
        if self._reason is Reason.CANCELLED:
            return await cancelled(desk.store, job, recorder.next)
        return await failed(desk, job, self._why(), recorder.next)

    def _why(self) -> Error:
        if self._reason is not None:
            return Error(self._reason.value, "server_error", "server_error")
        said = self._problem or self._recorder.error()
        return said or Error(_SILENT, "server_error", "server_error")

    async def _finish(self, ending: JobOutcome) -> None:
        jobs = self._desk.store.jobs
        kept = await self._write_with_retry(
            lambda: jobs.finish(ending.response, self._node, ending.output, ending.events)
        )
        if not kept:
            LOG.warning("the end of a response was not ours to keep", response=self.name)

    async def _write_with_retry(self, write: Callable[[], Awaitable[bool]]) -> bool:
        """Write; try again while the database cannot be reached, for as long as it is ours.

        While it is away nobody can take the response over either. To write again what may have been
        written changes nothing. What a database refuses that is there is not tried for ever: then
        the response is left as it is, and whoever takes it over ends it.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + self._lease
        while self._reason is not Reason.LOST:
            try:
                return await write()
            except (DatabaseUnavailableError, CommitOutcomeUnknownError):
                LOG.warning("a response waits for the database", response=self.name)
            except StoreUnavailableError:
                LOG.warning("a response cannot be written down", response=self.name)
                if clock() > end:
                    break
            await asyncio.sleep(_PAUSE)
        return False
