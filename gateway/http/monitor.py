"""Watches over one exchange: the client that may leave, the backend that may take too long.

The work runs in its own task and knows nothing of this. When there is a reason to end it, the watch
cancels it, and the reason comes out of the `async with` as an exception. One timer and one waiting
`receive` serve for everything: the client's leaving, the three timeouts, and the silence after
which a streaming client is told that we are still there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from litestar.types import Receive

from gateway.config.schema import TimeoutConfig
from gateway.errors import BackendTimeoutError, ClientDisconnectedError, InternalError
from gateway.observability.logging import LOG

# Most whole answers are there sooner than this; for them nobody is set to watch.
_MOMENT = 0.05
_NEVER = float("inf")


class ExchangeMonitor:
    """Ends the work of the task that enters it when there is a reason to."""

    def __init__(self, receive: Receive, keep_alive: float) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._work: asyncio.Task[object] | None = None
        self._begin: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        # Why the work was cancelled, if we did it.
        self._reason: Exception | None = None
        # When what is waited for must have come, and how to say that it has not.
        self._deadline = _NEVER
        self._overdue = ("", 0.0)
        self._first_byte = 0.0
        self._between = 0.0
        self._end = _NEVER
        # A piece is on its way to a client that takes its time: nobody waits for the backend.
        self._writing = False
        self._overlooked = False
        # What to do when the client has been told nothing for so long. A backend that says only
        # what is not passed on, such as pings, is silent to the client.
        self._keep_alive = keep_alive or _NEVER
        self._silence = self._keep_alive
        self._on_silence: Callable[[], Awaitable[None]] | None = None
        self._last_told = self._loop.time()
        # The timer of the watching, while it waits.
        self._timer: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        self._work = asyncio.current_task()
        self._begin = self._loop.call_later(_MOMENT, self._start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        if self._begin is not None:
            self._begin.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._reason is not None and kind is asyncio.CancelledError and self._work is not None:
            self._work.uncancel()
            raise self._reason from None

    # What the work tells

    def expect_first_byte(self, timeouts: TimeoutConfig) -> None:
        """Begin to wait for the answer of a backend; to connect has a limit of its own."""
        now = self._loop.time()
        first_byte = timeouts.response_start
        self._deadline = now + timeouts.connect + first_byte if first_byte else _NEVER
        self._overdue = ("did not answer within", first_byte)
        self._first_byte = first_byte
        self._between = timeouts.idle
        if timeouts.total and self._end == _NEVER:
            self._end = now + timeouts.total
        self._look_again()

    def connected(self) -> None:
        """Note that the request is now sent: what was not needed to connect is not added."""
        if self._first_byte:
            self._deadline = self._loop.time() + self._first_byte
            self._look_again()

    def pause_deadline(self) -> None:
        """Wait for no backend now: the next try comes after a pause."""
        self._deadline = _NEVER

    def expect_more(self) -> None:
        """Begin to wait for the pieces of an answer."""
        self._overdue = ("said nothing for", self._between)
        self.note_backend_activity()
        self._look_again()

    def note_backend_activity(self) -> None:
        """Note that a piece of the answer has come."""
        if self._between:
            self._deadline = self._loop.time() + self._between
        else:
            self._deadline = _NEVER

    def set_heartbeat(
        self, tell: Callable[[], Awaitable[None]], *, at_most: float = _NEVER
    ) -> None:
        """Have something done when the client was told nothing for so long, and again.

        By default that is when a client is to be told that we are still there.
        """
        self._on_silence = tell
        self._silence = min(self._keep_alive, at_most)
        self._last_told = self._loop.time()
        self._look_again()

    def begin_client_write(self) -> None:
        """Note that a piece is on its way to the client: until it is told, no backend is late."""
        self._writing = True

    def end_client_write(self, *, counts: bool = True) -> None:
        """Note that the client has it; whether it counts as a sign of life, the caller knows."""
        self._writing = False
        if counts:
            self._last_told = self._loop.time()
        if self._overlooked:
            # It took so long that the watch has looked meanwhile, and let the backend be.
            self._overlooked = False
            self.note_backend_activity()
            self._look_again()

    # The watching

    def _start(self) -> None:
        self._task = self._loop.create_task(self._watch())

    def _look_again(self) -> None:
        """Set the timer anew where something may be due sooner than it was; later needs nothing."""
        if self._timer is not None:
            self._timer.reschedule(self._next())

    async def _watch(self) -> None:
        """Watch until there is a reason to stop; without anybody watching, nothing goes on."""
        try:
            while self._reason is None:
                if await self._client_left():
                    self._stop(ClientDisconnectedError())
                else:
                    await self._check()
        except Exception:  # noqa: BLE001 - whatever it is, it must not go unseen
            LOG.exception("exchange monitor failed")
            self._stop(InternalError(None, "the gateway failed; its log says why"))

    async def _client_left(self) -> bool:
        """Wait for the client to leave; give up when something may be due."""
        try:
            async with asyncio.timeout_at(self._next()) as self._timer:
                message = await self._receive()
        except TimeoutError:
            return False
        finally:
            self._timer = None
        return message["type"] == "http.disconnect"

    def _next(self) -> float | None:
        """Tell when something may be due; None: never."""
        if self._writing:
            self._overlooked = True
            return None if self._end == _NEVER else self._end
        silent = _NEVER if self._on_silence is None else self._last_told + self._silence
        due = min(self._deadline, self._end, silent)
        return None if due == _NEVER else due

    async def _check(self) -> None:
        now = self._loop.time()
        if now >= self._end:
            self._stop(BackendTimeoutError(None, "the backend did not finish its answer in time"))
        elif self._writing:
            return
        elif now >= self._deadline:
            failing, seconds = self._overdue
            self._stop(BackendTimeoutError(None, f"the backend {failing} {seconds:g} seconds"))
        elif self._on_silence is not None and now >= self._last_told + self._silence:
            self._last_told = now
            await self._on_silence()

    def _stop(self, reason: Exception) -> None:
        self._reason = reason
        if self._work is not None:
            self._work.cancel()
