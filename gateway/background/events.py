"""The stored events of background responses, and their replay to clients."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import DragomanError
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.responses import wire
from adapters.responses.reply_writer import write_response_error
from adapters.wire.error_body import read_error_value, to_error
from adapters.wire.json_object import MISSING, is_present, read_body
from gateway.errors import ShuttingDownError
from gateway.http.headers import STREAM
from gateway.http.monitor import ExchangeMonitor
from gateway.http.sinks import ReplySink
from gateway.observability.logging import LOG
from gateway.store import RUNNING, Event, Response, Store, StoreUnavailableError

# A cancelled response ends with `response.failed`, as OpenAI's streams do: neither the SDK nor Open
# Responses knows a `response.cancelled`.
TERMINAL_EVENTS: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
INITIAL_EVENTS: Final = frozenset(("response.created", "response.queued", "response.in_progress"))
ERROR_EVENT: Final = "error"
_DELETED: Final = Error("The response was deleted.", "invalid_request_error", "response_not_found")
_STOPPING: Final = "the gateway is shutting down; request the stream again"


class EventHead(Struct):
    """The type of an event, with its response or error."""

    type: str = ""
    response: Raw = MISSING
    error: Raw = MISSING


class _Response(Struct):
    status: str = ""
    output: list[Raw] = []
    usage: Raw = MISSING


_HEAD: Final = msgspec.json.Decoder(EventHead)
_RESPONSE: Final = msgspec.json.Decoder(_Response)
_ENCODER: Final = msgspec.json.Encoder()


def read_head(body: bytes | Raw) -> EventHead:
    """Decode the head of an event; an invalid event has an empty type."""
    try:
        return _HEAD.decode(body)
    except DECODE_ERRORS:
        return EventHead()


def response_event(kind: str, number: int, response: bytes | Raw) -> Event:
    """Return an event that contains the response object."""
    fields = {"type": kind, "response": Raw(response), "sequence_number": number}
    return Event(number, Raw(_ENCODER.encode(fields)))


def renumber(bodies: Iterable[bytes], first: int) -> Iterator[Event]:
    """Yield events with consecutive numbers instead of their own."""
    for number, body in enumerate(bodies, first):
        yield Event(number, Raw(read_body(body).encode_with(sequence_number=number)))


def frame(event: Event) -> bytes:
    """Return the SSE frame of an event."""
    kind = read_head(event.body).type.encode()
    return b"event: %b\ndata: %b\n\n" % (kind, bytes(event.body))


def read_event_error(body: bytes) -> Error | None:
    """Read an error from an event, its `error` field or its response; None if there is none."""
    head = read_head(body)
    if head.type == ERROR_EVENT:
        return read_error_value(head.error if is_present(head.error) else Raw(body), None)
    error = read_head(head.response).error
    return read_error_value(error, None) if is_present(error) else None


def is_empty_failure(response: Raw) -> bool:
    """Whether a failed response has neither output nor usage."""
    try:
        outcome = _RESPONSE.decode(response)
    except DECODE_ERRORS:
        return False
    return outcome.status == "failed" and not outcome.output and not is_present(outcome.usage)


class EventReplay:
    """Sends the events of one response to one client."""

    def __init__(self, store: Store, response: Response, after: int, sink: ReplySink) -> None:
        self._store = store
        self._response = response
        self._sink = sink
        # The number of the last event that was sent, and whether it ended the stream.
        self._last = after
        self._ended = False

    async def run(self, heartbeat_interval: float) -> None:
        """Send the events up to the end; raise `ClientDisconnectedError` if the client disconnects.

        If the replay fails, send an error event with the number of the last event, so that a client
        that resumes after this number misses nothing.
        """
        await self._sink.start(HTTPStatus.OK, STREAM)
        try:
            async with ExchangeMonitor(self._sink.receive, heartbeat_interval) as monitor:
                monitor.set_heartbeat(lambda: self._send_heartbeat(monitor))
                await self._send_events(monitor)
            end = await self._end()
        except DragomanError as error:
            LOG.warning("event replay aborted", error=error.message)
            end = _error_frame(to_error(error), max(self._last, 0))
        except asyncio.CancelledError:
            # The grace period of the shutdown is over.
            stopping = to_error(ShuttingDownError(None, _STOPPING))
            end = _error_frame(stopping, max(self._last, 0))
        await self._sink.end(end)

    async def _send_events(self, monitor: ExchangeMonitor) -> None:
        owner, response_id = self._response.owner, self._response.id
        stored = self._store.jobs.follow_events(owner, response_id, self._last)
        async with aclosing(stored) as events:
            async for event in events:
                self._last = event.number
                self._ended = read_head(event.body).type in TERMINAL_EVENTS
                await self._write(monitor, frame(event))

    async def _write(self, monitor: ExchangeMonitor, data: bytes) -> None:
        monitor.writing = True
        await self._sink.write(data)
        monitor.end_client_write()

    async def _send_heartbeat(self, monitor: ExchangeMonitor) -> None:
        """Send an event with the current status, because Codex's idle timer ignores SSE comments.

        Repeat the number of the last event, so that a client that resumes after it misses nothing
        (https://github.com/Menci/Floway/issues/498).
        """
        try:
            turn = await self._store.responses.load(self._response.owner, self._response.id)
        except StoreUnavailableError:
            # The task that loads the events reports the failure.
            return
        if turn is None or self._ended or turn.response.status not in RUNNING:
            return
        kind, body = f"response.{turn.response.status}", bytes(turn.response.body)
        await self._write(monitor, frame(response_event(kind, max(self._last, 0), body)))

    async def _end(self) -> bytes:
        """Return the end of the stream, with a terminal event if the response was deleted."""
        response = self._response
        if self._ended or await self._store.responses.load(response.owner, response.id):
            return wire.DONE
        changes = {"status": "failed", "error": write_response_error(_DELETED)}
        failed = read_body(bytes(response.body)).encode_with(**changes)
        last = response_event("response.failed", self._last + 2, failed)
        return _error_frame(_DELETED, self._last + 1) + frame(last) + wire.DONE


def _error_frame(error: Error, number: int) -> bytes:
    return wire.frame(ERROR_EVENT, wire.error_fields(error), number)
