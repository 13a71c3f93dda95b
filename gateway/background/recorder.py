"""Store the events of a background response as they arrive."""

import asyncio
from enum import Enum
from http import HTTPStatus
from typing import Final

from litestar.types.asgi_types import HTTPDisconnectEvent
from msgspec import Raw

from adapters.ir.types import Error
from adapters.sse import Decoder
from adapters.wire.error_body import read_error
from gateway.background.events import (
    ERROR_EVENT,
    INITIAL_EVENTS,
    TERMINAL_EVENTS,
    is_empty_failure,
    read_event_error,
    read_head,
    renumber,
)
from gateway.http.headers import Headers
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.store import Job, JobUpdate, Store, StoreUnavailableError
from gateway.store.records import CommitOutcomeUnknownError, DatabaseUnavailableError

_PATH: Final = "/v1/responses"
# While more events than this wait to be stored, the backend waits too.
_MAX_PENDING_EVENTS: Final = 1000
_RETRY_DELAY_SECONDS: Final = 0.5


class StopReason(Enum):
    """Why a job ends early: the name is logged, the value is the client's error message."""

    CANCELLED = "cancelled"
    # Another node has taken the job over, or the response was deleted: write nothing more.
    LOST = "lost"
    STOPPING = "the gateway was shut down before the response was complete"
    DEAD = "the node that created this response failed"


class EventRecorder(ReplySink):
    """Stores the events of a job, except `last_events`, which are saved with the response."""

    transport = "background"

    def __init__(
        self, store: Store, job: Job, node: str, lease_seconds: float, headers: dict[str, str]
    ) -> None:
        super().__init__(headers, self._receive_stop, ExchangeRecord(_PATH))
        self.job = job
        self.node = node
        self.next_event = job.next_event
        self.stop_reason: StopReason | None = None
        # The terminal event, perhaps after an error event, and the response that it contains.
        self.last_events: list[bytes] = []
        self.response: Raw | None = None
        self._store = store
        self._lease_seconds = lease_seconds
        self._stopped = asyncio.Event()
        self._status = 0
        self._error_body: list[bytes] = []
        self._decoder = Decoder()
        self._pending: list[bytes] = []
        self._storing: asyncio.Task[None] | None = None
        self._has_output = False

    def stop(self, reason: StopReason) -> None:
        """End the job early and close the connection to its backend."""
        if self.stop_reason is None or reason is StopReason.LOST:
            self.stop_reason = reason
        self._stopped.set()

    async def _receive_stop(self) -> HTTPDisconnectEvent:
        # A stopped job ends like an exchange whose client disconnects.
        await self._stopped.wait()
        return {"type": "http.disconnect"}

    async def update_job(self, update: JobUpdate) -> bool:
        """Write an update with retries; stop the job if it belongs to another node.

        Retry as long as the database is unavailable: no other node can take the job over meanwhile,
        and an update may be written twice. Retry after other errors only for the time of the lease:
        then another node takes the job over.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._lease_seconds
        while self.stop_reason is not StopReason.LOST:
            try:
                written = await self._store.jobs.update(update)
            except (DatabaseUnavailableError, CommitOutcomeUnknownError):
                LOG.warning("database unavailable, retrying", response_id=update.response_id)
            except StoreUnavailableError:
                LOG.warning("storing a response failed, retrying", response_id=update.response_id)
                if clock() > deadline:
                    break
            else:
                if not written:
                    break
                return True
            await asyncio.sleep(_RETRY_DELAY_SECONDS)
        self.stop(StopReason.LOST)
        return False

    async def _send_head(self, status: int, headers: Headers) -> None:
        del headers
        self._status = status

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        """Record the events of a chunk; wait while too many events are pending."""
        del more
        if self._status != HTTPStatus.OK:
            self._error_body.append(data)
            return
        for frame in self._decoder.feed(data):
            if frame.data.startswith(b"{") and self.response is None:
                self._add_event(frame.data)
        self._start_storing()
        while len(self._pending) > _MAX_PENDING_EVENTS and self._storing is not None:
            # Unlike `await self._storing`, a cancelled `wait` does not cancel the task.
            await asyncio.wait((self._storing,))

    def _add_event(self, body: bytes) -> None:
        head = read_head(body)
        if not head.type or head.type in INITIAL_EVENTS:
            # The gateway has stored its own initial events.
            return
        if head.type == ERROR_EVENT:
            self.last_events.append(body)
        elif head.type in TERMINAL_EVENTS and head.response:
            self.last_events.append(body)
            self.response = head.response
        else:
            # An error event before this event was not the end of the stream.
            self._pending += [*self.last_events, body]
            self.last_events.clear()
            self._has_output = True

    def _start_storing(self) -> None:
        if self._pending and self._storing is None:
            self._storing = asyncio.create_task(self._store_events())

    async def _store_events(self) -> None:
        """Store the pending events, and the events that arrive meanwhile."""
        try:
            while self._pending:
                events = list(renumber(self._pending, self.next_event))
                self._pending.clear()
                if not await self.update_job(JobUpdate(self.job.response.id, self.node, events)):
                    return
                self.next_event += len(events)
        except Exception:  # noqa: BLE001 - a stream with missing events must not look complete
            LOG.exception("events not stored")
            self.stop(StopReason.LOST)
        finally:
            self._storing = None

    async def flush(self) -> None:
        """Wait until all pending events are stored."""
        self._start_storing()
        while self._storing is not None:
            await asyncio.wait((self._storing,))

    @property
    def is_complete(self) -> bool:
        """Whether the stream ended with a response that contains its output.

        Passthrough ends an interrupted stream with a response without output.
        """
        return self.response is not None and not (
            self._has_output and is_empty_failure(self.response)
        )

    def error(self) -> Error | None:
        """Return the error that the reply ended with."""
        if self._status not in (0, HTTPStatus.OK):
            return read_error(self._status, b"".join(self._error_body))
        return read_event_error(self.last_events[0]) if self.last_events else None
