"""The events of a response as they are kept, and as they are told."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

import msgspec
from litestar.types import Receive
from msgspec import Raw, Struct

from adapters import DragomanError
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.responses import wire as frames
from adapters.responses.response import write_failure
from adapters.sse import Decoder, Frame
from adapters.wire.error_body import read_error, read_error_value, to_error
from adapters.wire.json_object import MISSING, is_present, read_body
from gateway.errors import ShuttingDownError
from gateway.http.headers import STREAM, Headers
from gateway.http.monitor import ExchangeMonitor
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.store import RUNNING, Event, Response, Store, StoreUnavailableError

# How a stream ends. There is none for a response that was cancelled: neither the SDK nor Open
# Responses knows a `response.cancelled`, and OpenAI ends such streams with `response.failed`.
TERMINAL: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
# How it begins.
BEGINNING: Final = frozenset(("response.created", "response.queued", "response.in_progress"))
ERROR: Final = "error"


class EventHead(Struct):
    """What is looked at of an event."""

    type: str = ""
    response: Raw = MISSING
    error: Raw = MISSING


_SEEN: Final = msgspec.json.Decoder(EventHead)
_ENCODER: Final = msgspec.json.Encoder()


def peek_event(body: bytes | Raw) -> EventHead | None:
    """Look at an event; None if it is none."""
    try:
        return _SEEN.decode(body)
    except DECODE_ERRORS:
        return None


def event(kind: str, number: int, response: bytes | Raw) -> Event:
    """Make an event that tells a response."""
    told = {"type": kind, "response": Raw(response), "sequence_number": number}
    return Event(number, Raw(_ENCODER.encode(told)))


def numbered(bodies: Iterable[bytes], number: int) -> Iterator[Event]:
    """Count events on from a number, whatever numbers they had."""
    for place, body in enumerate(bodies, number):
        yield Event(place, Raw(read_body(body).encode_with(sequence_number=place)))


def frame(body: Raw) -> bytes:
    """Tell an event."""
    seen = peek_event(body)
    kind = "" if seen is None else seen.type
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), bytes(body))


def error_in(body: bytes) -> Error | None:
    """Read what an event says of a failure: in the event, in an object of its own, or in both."""
    seen = peek_event(body)
    if seen is None:
        return None
    if seen.type == ERROR:
        return read_error_value(seen.error if is_present(seen.error) else Raw(body), None)
    told = peek_event(seen.response)
    return (
        None if told is None or not is_present(told.error) else read_error_value(told.error, None)
    )


class _Outcome(Struct):
    status: str = ""
    output: list[Raw] = []
    usage: Raw = MISSING


_OUTCOME: Final = msgspec.json.Decoder(_Outcome)


def is_bare(response: Raw) -> bool:
    """Tell whether a failed response says nothing of what there was of it."""
    try:
        outcome = _OUTCOME.decode(response)
    except DECODE_ERRORS:
        return False
    return outcome.status == "failed" and not outcome.output and not is_present(outcome.usage)


# Takes the answer to a request that runs in the background, and keeps its events as they come.


# While so many events wait to be kept, the backend waits too.
_MOST_WAITING: Final = 1000

# Keeps some events; False if they are no longer ours to keep.
Append = Callable[[list[Event]], Awaitable[bool]]


class EventRecorder(ReplySink):
    """Keeps all events but the last, which are kept together with the response."""

    def __init__(
        self,
        headers: dict[str, str],
        receive: Receive,
        append: Append,
        lose: Callable[[], None],
    ) -> None:
        super().__init__(headers, receive, ExchangeRecord(""))
        self.status = 0
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

    async def _send_head(self, status: int, headers: Headers) -> None:
        del headers
        self.status = status

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        """Record the events of a chunk; wait while too many are not stored yet."""
        del more
        if self.status != HTTPStatus.OK:
            self._refusal.append(data)
            return
        for frame in self._decoder.feed(data):
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
            LOG.exception("events not stored")
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
        if self.status not in (0, HTTPStatus.OK):
            return read_error(self.status, b"".join(self._refusal))
        return error_in(self.last[0]) if self.last else None


# Tells the events of a response from the store: those that are there, and those to come.


_DELETED: Final = Error("The response was deleted.", "invalid_request_error", "response_not_found")
_STOPPING: Final = ShuttingDownError(
    None, "the gateway is stopping; the response can be followed again"
)


class EventReplay:
    """One client that is told the events of one response."""

    def __init__(self, store: Store, client: ReplySink, keep_alive: float) -> None:
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
        await self._client.start(200, STREAM)
        try:
            ending = await self._follow(response)
        except DragomanError as problem:
            LOG.warning("event replay aborted", error=problem.message)
            ending = _error(to_error(problem), max(self._last, 0))
        except asyncio.CancelledError:
            # The server stops and has waited long enough. Nothing follows that could be cancelled.
            ending = _error(to_error(_STOPPING), max(self._last, 0))
        await self._client.end(ending)

    async def _follow(self, response: Response) -> bytes:
        async with ExchangeMonitor(self._client.receive, self._keep_alive) as watch:
            watch.set_heartbeat(lambda: self._pulse(watch, response))
            jobs = self._store.jobs
            async with aclosing(
                jobs.follow_events(response.owner, response.id, self._last)
            ) as events:
                async for one in events:
                    await self._tell(watch, one)
            return await self._ending(response)

    async def _tell(self, watch: ExchangeMonitor, one: Event) -> None:
        seen = peek_event(one.body)
        self._last = one.number
        self._over = seen is not None and seen.type in TERMINAL
        await self._write(watch, frame(one.body))

    async def _write(self, watch: ExchangeMonitor, data: bytes) -> None:
        watch.writing = True
        await self._client.write(data)
        watch.end_client_write()

    async def _pulse(self, watch: ExchangeMonitor, response: Response) -> None:
        """Say again how it stands: not every client counts comments (P147).

        It has the number of the event before, so that whoever goes on from it misses nothing.
        """
        try:
            turn = await self._store.responses.load(response.owner, response.id)
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
        if self._over or await self._store.responses.load(response.owner, response.id):
            return frames.DONE
        changes = {"status": "failed", "error": write_failure(_DELETED)}
        failed = read_body(bytes(response.body)).encode_with(**changes)
        last = event("response.failed", self._last + 2, failed)
        return _error(_DELETED, self._last + 1) + frame(last.body) + frames.DONE


def _error(error: Error, number: int) -> bytes:
    return frames.frame(ERROR, frames.error_fields(error), number)
