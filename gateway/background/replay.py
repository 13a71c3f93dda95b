"""Tells the events of a response from the store: those that are there, and those to come."""

import asyncio
from contextlib import aclosing
from typing import Final

from adapters import DragomanError
from adapters.ir.types import Error
from adapters.responses import frames
from adapters.responses.response import write_failure
from adapters.wire.error_body import to_error
from adapters.wire.json_object import read_body
from gateway.background.events import ERROR, TERMINAL, event, frame, peek_event
from gateway.errors import ShuttingDownError
from gateway.http.client_connection import ClientConnection
from gateway.http.headers import STREAM
from gateway.http.monitor import ExchangeMonitor
from gateway.observability.logging import LOG
from gateway.store import RUNNING, Event, Response, Store, StoreUnavailableError

_DELETED: Final = Error("The response was deleted.", "invalid_request_error", "response_not_found")
_STOPPING: Final = ShuttingDownError(
    None, "the gateway is stopping; the response can be followed again"
)


class EventReplay:
    """One client that is told the events of one response."""

    def __init__(self, store: Store, client: ClientConnection, keep_alive: float) -> None:
        self._store = store
        self._client = client
        self._keep_alive = keep_alive
        # The number of the last event that was told, and whether the stream has ended with it.
        self._last = -1
        self._over = False

    async def tell(self, response: Response, after: int) -> None:
        """Tell the events after this number, until the end; raise `ClientGone` if nobody hears.

        Where that cannot be done, an error is told, which is no event of the response: it has the
        number of the last that was told, and whoever goes on from there misses nothing.
        """
        self._last = after
        await self._client.send_headers(200, STREAM)
        try:
            ending = await self._follow(response)
        except DragomanError as problem:
            LOG.warning("a stream could not be told to its end", why=problem.why)
            ending = _error(to_error(problem), max(self._last, 0))
        except asyncio.CancelledError:
            # The server stops and has waited long enough. Nothing follows that could be cancelled.
            ending = _error(to_error(_STOPPING), max(self._last, 0))
        await self._client.end(ending)

    async def _follow(self, response: Response) -> bytes:
        async with ExchangeMonitor(self._client.receive, self._keep_alive) as watch:
            watch.set_heartbeat(lambda: self._pulse(watch, response))
            jobs = self._store.jobs
            async with aclosing(jobs.follow(response.owner, response.id, self._last)) as events:
                async for one in events:
                    await self._tell(watch, one)
            return await self._ending(response)

    async def _tell(self, watch: ExchangeMonitor, one: Event) -> None:
        seen = peek_event(one.body)
        self._last = one.number
        self._over = seen is not None and seen.type in TERMINAL
        await self._write(watch, frame(one.body))

    async def _write(self, watch: ExchangeMonitor, data: bytes) -> None:
        watch.begin_client_write()
        await self._client.write(data)
        watch.end_client_write()

    async def _pulse(self, watch: ExchangeMonitor, response: Response) -> None:
        """Say again how it stands: not every client counts comments (P147).

        It has the number of the event before, so that whoever goes on from it misses nothing.
        """
        try:
            turn = await self._store.responses.get(response.owner, response.id)
        except StoreUnavailableError:
            # Whoever waits for the next event finds that, too.
            return
        if turn is None or self._over or turn.response.status not in RUNNING:
            return
        kind = f"response.{turn.response.status}"
        pulse = event(kind, max(self._last, 0), bytes(turn.response.body))
        await self._write(watch, frame(pulse.body))

    async def _ending(self, response: Response) -> bytes:
        """Give what ends the stream; one whose response was deleted has no end of its own."""
        if self._over or await self._store.responses.get(response.owner, response.id):
            return frames.DONE
        changes = {"status": "failed", "error": write_failure(_DELETED)}
        failed = read_body(bytes(response.body)).encode_with(**changes)
        last = event("response.failed", self._last + 2, failed)
        return _error(_DELETED, self._last + 1) + frame(last.body) + frames.DONE


def _error(error: Error, number: int) -> bytes:
    return frames.frame(ERROR, frames.error_fields(error), number)
