"""The monitor of one exchange: disconnects of the client, timeouts of the backend, heartbeats.

The monitor runs in a task of its own. If it cancels the work, which is the task inside the
`async with`, the `async with` raises the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from litestar.types import Receive

from gateway.config.schema import TimeoutConfig
from gateway.errors import BackendTimeoutError, ClientDisconnectedError, InternalError
from gateway.observability.logging import LOG

# The monitor starts its task after this delay, because most whole replies arrive sooner.
_START_DELAY_SECONDS = 0.05
_NEVER = float("inf")


class ExchangeMonitor:
    """Cancels the task that entered it if the client disconnects or a timeout expires."""

    def __init__(self, receive: Receive, heartbeat_interval: float) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._work: asyncio.Task[object] | None = None
        self._start: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        # The error for which the work was cancelled.
        self._reason: Exception | None = None
        # The time until which the backend must send data, and the text of the error otherwise.
        self._deadline = _NEVER
        self._missed = ("", 0.0)
        self._response_start = 0.0
        self._idle = 0.0
        self._end = _NEVER
        # Whether a chunk is being sent: while a client reads slowly, the backend is not late.
        self.writing = False
        self._expired_while_writing = False
        # Counted from the last write: pings of the backend, for example, are not forwarded.
        self._heartbeat_interval = heartbeat_interval or _NEVER
        self._silence_limit = self._heartbeat_interval
        self._heartbeat: Callable[[], Awaitable[None]] | None = None
        self._last_write = self._loop.time()
        # The timer of the task while it waits.
        self._timer: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        self._work = asyncio.current_task()
        self._start = self._loop.call_later(_START_DELAY_SECONDS, self._start_task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        if self._start is not None:
            self._start.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._reason is not None and kind is asyncio.CancelledError and self._work is not None:
            self._work.uncancel()
            raise self._reason from None

    # Called by the work

    @property
    def reason(self) -> Exception | None:
        """The error for which the work was cancelled."""
        return self._reason

    def expect_response(self, timeouts: TimeoutConfig) -> None:
        """Start the timeouts of a request; the transport has the one for connecting."""
        now = self._loop.time()
        self._response_start, self._idle = timeouts.response_start, timeouts.idle
        limit = timeouts.connect + timeouts.response_start
        self._deadline = now + limit if timeouts.response_start else _NEVER
        self._missed = ("did not reply within", timeouts.response_start)
        if timeouts.total and self._end == _NEVER:
            self._end = now + timeouts.total
        self._reschedule()

    def connected(self) -> None:
        """Restart the timeout for the response, because the request is sent only now."""
        if self._response_start:
            self._deadline = self._loop.time() + self._response_start
            self._reschedule()

    def pause_deadline(self) -> None:
        """Suspend the timeout for the backend's next data."""
        self._deadline = _NEVER

    def expect_more(self) -> None:
        """Start the timeout between two chunks of the response."""
        self._missed = ("sent nothing for", self._idle)
        self.note_backend_activity()
        self._reschedule()

    def note_backend_activity(self) -> None:
        """Restart the timeout for the next chunk."""
        self._deadline = self._loop.time() + self._idle if self._idle else _NEVER

    def set_heartbeat(
        self, heartbeat: Callable[[], Awaitable[None]], *, at_most: float = _NEVER
    ) -> None:
        """Call `heartbeat` after the configured interval, or `at_most`, without other writes."""
        self._heartbeat = heartbeat
        self._silence_limit = min(self._heartbeat_interval, at_most)
        self._last_write = self._loop.time()
        self._reschedule()

    def end_client_write(self, *, counts: bool = True) -> None:
        """Note that a chunk was sent; `counts` is False if a heartbeat is needed nevertheless."""
        self.writing = False
        if counts:
            self._last_write = self._loop.time()
        if self._expired_while_writing:
            self._expired_while_writing = False
            self.note_backend_activity()
            self._reschedule()

    # The task

    def _start_task(self) -> None:
        self._task = self._loop.create_task(self._watch())

    def _reschedule(self) -> None:
        """Restart the timer, because the next timeout or heartbeat may be due sooner."""
        if self._timer is not None:
            self._timer.reschedule(self._next_due())

    async def _watch(self) -> None:
        try:
            while self._reason is None:
                try:
                    async with asyncio.timeout_at(self._next_due()) as self._timer:
                        message = await self._receive()
                except TimeoutError:
                    self._timer = None
                    await self._check()
                else:
                    self._timer = None
                    if message["type"] == "http.disconnect":
                        self._stop(ClientDisconnectedError())
        except Exception:  # noqa: BLE001 - work without a monitor would have no timeouts
            LOG.exception("exchange monitor failed")
            self._stop(InternalError(None, "internal error; see the gateway's log"))

    def _next_due(self) -> float | None:
        """Return the time of the next timeout or heartbeat, or None."""
        if self.writing:
            self._expired_while_writing = True
            return None if self._end == _NEVER else self._end
        heartbeat = _NEVER if self._heartbeat is None else self._last_write + self._silence_limit
        due = min(self._deadline, self._end, heartbeat)
        return None if due == _NEVER else due

    async def _check(self) -> None:
        now = self._loop.time()
        if now >= self._end:
            self._stop(BackendTimeoutError(None, "the backend did not complete its reply in time"))
        elif self.writing:
            return
        elif now >= self._deadline:
            missed, seconds = self._missed
            self._stop(BackendTimeoutError(None, f"the backend {missed} {seconds:g} seconds"))
        elif self._heartbeat is not None and now >= self._last_write + self._silence_limit:
            self._last_write = now
            await self._heartbeat()

    def _stop(self, reason: Exception) -> None:
        self._reason = reason
        if self._work is not None:
            self._work.cancel()
