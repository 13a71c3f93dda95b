"""Takes the answer to a request that runs in the background, and keeps its events as they come."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Raw

from adapters.ir.types import Error
from adapters.sse import Decoder, Frame
from adapters.wire.error_body import read_error
from gateway import statuses
from gateway.background.events import (
    BEGINNING,
    ERROR,
    TERMINAL,
    error_in,
    is_bare,
    numbered,
    peek_event,
)
from gateway.http.sinks import Sink
from gateway.observability.logging import LOG
from gateway.store import Event

# While so many events wait to be kept, the backend waits too.
_MOST_WAITING: Final = 1000

# Keeps some events; False if they are no longer ours to keep.
Append = Callable[[list[Event]], Awaitable[bool]]


class EventRecorder(Sink):
    """Keeps all events but the last, which are kept together with the response."""

    def __init__(self, append: Append, lose: Callable[[], None]) -> None:
        super().__init__()
        self._append = append
        # Called when the events are no longer ours to keep.
        self._lose = lose
        self._decoder = Decoder()
        self._refusal: list[bytes] = []
        # What has come and is not kept yet.
        self._waiting: list[bytes] = []
        self._keeping: asyncio.Task[None] | None = None
        # The number of the next event.
        self.next = 0
        # What the answer ends with: an error may come before the last event.
        self.last: list[bytes] = []
        # The response that it ends with, if it does.
        self.response: Raw | None = None
        # Whether anything of the output was told.
        self._has_output = False

    async def take(self, piece: bytes, *, more: bool) -> None:
        """Take the events of a piece; wait while too many are not kept yet."""
        del more  # how a stream ends, its events tell
        if self.status != statuses.WHOLE:
            self._refusal.append(piece)
            return
        for frame in self._decoder.feed(piece):
            if frame.data.startswith(b"{") and self.response is None:
                self._take_event(frame)
        self._keep()
        while len(self._waiting) > _MOST_WAITING and self._keeping is not None:
            # Whoever stops waiting here does not stop the writing.
            await asyncio.wait((self._keeping,))

    def _take_event(self, frame: Frame) -> None:
        """Take an event; how the stream begins is told already, and by ourselves."""
        seen = peek_event(frame.data)
        if seen is None or seen.type in BEGINNING:
            return
        if seen.type == ERROR:
            self.last.append(frame.data)
        elif seen.type in TERMINAL and seen.response:
            self.last.append(frame.data)
            self.response = seen.response
        else:
            # What was thought the last word was not.
            self._waiting += [*self.last, frame.data]
            self.last.clear()
            self._has_output = True

    def _keep(self) -> None:
        if self._waiting and self._keeping is None:
            self._keeping = asyncio.create_task(self._keep_all())

    async def _keep_all(self) -> None:
        """Keep what waits, and what comes meanwhile."""
        try:
            while self._waiting:
                events = list(numbered(self._waiting, self.next))
                self._waiting.clear()
                if not await self._append(events):
                    self._lose()
                    return
                self.next += len(events)
        except Exception:  # noqa: BLE001 - whatever it is: a stream with holes must not look whole
            LOG.exception("events could not be kept")
            self._lose()
        finally:
            self._keeping = None

    async def settle(self) -> None:
        """Wait until everything is kept that is to be kept before the end."""
        self._keep()
        while self._keeping is not None:
            await asyncio.wait((self._keeping,))

    @property
    def is_whole(self) -> bool:
        """Tell whether the answer has an end that fits what was told before.

        Where a stream that is passed on was cut, who ends it does not know what is open in it. Here
        it is known.
        """
        return self.response is not None and not (self._has_output and is_bare(self.response))

    def error(self) -> Error | None:
        """Give why there is no whole answer, if anybody said so."""
        if self.status not in (0, statuses.WHOLE):
            return read_error(self.status, b"".join(self._refusal))
        return error_in(self.last[0]) if self.last else None
