"""The work at one response: the same as for any request, with the store in the client's place."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from enum import Enum
from typing import Final

import msgspec
from litestar.types.asgi_types import HTTPDisconnectEvent
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import DragomanError, parse_body
from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.responses import RESPONSES
from adapters.responses.request_reader import input_items
from adapters.responses.stream_repair import failure_events
from adapters.wire.error_body import to_error
from adapters.wire.json_object import read_body
from gateway.background.events import ERROR, EventRecorder, event, frame, numbered, peek_event
from gateway.context import AppContext
from gateway.crypto import SealingKeys
from gateway.errors import ClientDisconnectedError, DecryptionError
from gateway.http.auth import Principal
from gateway.http.create_request import ParsedRequest
from gateway.http.headers import backend_headers
from gateway.observability.logging import LOG
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.handler import handle_create, report_errors
from gateway.pipeline.request import Request
from gateway.store import Event, Item, Response, Store, StoreUnavailableError
from gateway.store.records import CommitOutcomeUnknownError, DatabaseUnavailableError
from gateway.turns.service import TurnService, redacted_tools
from gateway.turns.turn import Turn

# What is kept of a request until it is answered: enough to answer it on another node.


class QueuedRequest(Struct, frozen=True, omit_defaults=True):
    """One request, as the store keeps it with its response."""

    # For the backend.
    body: Raw
    stamp: dict[str, object]
    # What the client says that it continues, and how many items of the body come from there.
    previous: str | None = None
    before: int = 0
    # What the backend may see of the client's headers.
    headers: dict[str, str] = {}
    # The body as it is, sealed, where it holds what is to be kept nowhere; then there is no other.
    sealed: str | None = None
    # The client's own Authorization, where that goes to the backend: sealed, never as it is.
    authorization: str | None = None


# Where nothing else is known of a response, it can still be ended.
NOTHING_KEPT: Final = QueuedRequest(Raw(b"{}"), {})
# Stands where a body stood that is sealed.
_SEALED: Final = Raw(b"{}")

_KEPT: Final = msgspec.json.Decoder(QueuedRequest)
_ENCODER: Final = msgspec.json.Encoder()
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


def queue_request(
    turn: Turn, principal: Principal, headers: dict[str, str], sealer: SealingKeys
) -> QueuedRequest:
    """Collect what it takes to serve a request later."""
    job_sealer = sealer.job_sealer(turn.owner, turn.response_id)
    authorization = None
    if principal.authorization is not None:
        authorization = job_sealer.seal(principal.authorization.encode("latin-1"))
    # Every event is recorded, whether or not the client streams.
    body = turn.request.body.encode(stream=True)
    return QueuedRequest(
        body=Raw(body),
        stamp=turn.overrides | {"created_at": turn.created},
        previous=turn.previous,
        before=len(turn.history),
        headers=_shown(headers),
        sealed=job_sealer.seal(body) if redacted_tools(turn.request.body) is not None else None,
        authorization=authorization,
    )


def _shown(headers: dict[str, str]) -> dict[str, str]:
    """Pick what a backend may see; nothing else of a client's headers is written down."""
    return {name.decode(): value.decode("latin-1") for name, value in backend_headers(headers)}


def write_kept(kept: QueuedRequest) -> Raw:
    """Write it down."""
    return Raw(_ENCODER.encode(kept if kept.sealed is None else replace(kept, body=_SEALED)))


def read_kept(request: Raw) -> QueuedRequest | None:
    """Read it again; None if another version of the gateway wrote it in its own way."""
    try:
        return _KEPT.decode(request)
    except DECODE_ERRORS:
        return None


def opened(kept: QueuedRequest, response: Response, sealer: SealingKeys) -> QueuedRequest:
    """Give it with the body as it was; raise `Unopened` if that was sealed with a key of others."""
    if kept.sealed is None:
        return kept
    body = sealer.job_sealer(response.owner, response.id).open(kept.sealed)
    if body is None:
        raise DecryptionError(None, "this request was sealed with a key not known here")
    return replace(kept, body=Raw(body))


def turn_of(queued: QueuedRequest, response: Response) -> Turn:
    """Return the turn of a queued request; the items that came with it are stored already."""
    body = parse_body(bytes(queued.body))
    items = tuple(
        replace(item, path=_client_path(number, queued.before))
        for number, item in enumerate(input_items(body))
    )
    return Turn(
        owner=response.owner,
        request=ParsedRequest(replace(body, items=items, raw=None), RESPONSES, response.model),
        store=True,
        background=True,
        stream=True,
        response_id=response.id,
        created=response.created,
        previous=queued.previous,
        parent=response.parent,
        conversation=response.conversation,
        input=(),
        history=(),
        overrides=queued.stamp,
    )


def _client_path(number: int, before: int) -> str:
    return f"history[{number}]" if number < before else f"input[{number - before}]"


def authorization_of(kept: QueuedRequest, response: Response, sealer: SealingKeys) -> str | None:
    """Open what authorises the work; raise `Unopened` if it was sealed with a key of others."""
    if kept.authorization is None:
        return None
    opened = sealer.job_sealer(response.owner, response.id).open(kept.authorization)
    if opened is None:
        raise DecryptionError(
            None, "what authorises this request was sealed with a key not known here"
        )
    return opened.decode("latin-1")


# How a response ends: what is kept of it, and the last events of its stream.


_CANCELLED: Final = Error("The response was cancelled.", "server_error", "server_error")


class JobOutcome(Struct, frozen=True):
    """What is committed together."""

    response: Response
    output: tuple[Item, ...]
    events: tuple[Event, ...]


class Job(Struct, frozen=True):
    """One response that is being made, and what was asked for."""

    response: Response
    kept: QueuedRequest


def finished(
    ledger: TurnService, job: Job, response: Raw, last: list[bytes], number: int
) -> JobOutcome:
    """End it as its stream does: with this response, in the last of these events."""
    timed = _in_time(response, job.response.created)
    if timed is not response:
        last = [*last[:-1], read_body(last[-1]).encode_with(response=timed)]
    return _ending(ledger, job, timed, last, number)


async def failed(desk: AppContext, job: Job, error: Error, number: int) -> JobOutcome:
    """End it in the middle: what there is of it is told and kept."""
    bodies = await _last_events(desk.store, job, error, number)
    return _ending(desk.turns, job, _response_of(bodies), bodies, number)


async def cancelled(store: Store, job: Job, number: int) -> JobOutcome:
    """End it because somebody wants that: nothing of it is kept, as at OpenAI.

    Its stream has to end all the same, and legally: see `TERMINAL`. An event `error` would make the
    SDK raise where the client has just what it wanted, so there is none. What was cancelled never
    enters a conversation.
    """
    bodies = await _last_events(store, job, _CANCELLED, number)
    quiet = [body for body in bodies if not _is_error(body)]
    body = read_body(bytes(job.response.body)).encode_with(status="cancelled")
    response = replace(job.response, status="cancelled", body=Raw(body), conversation=None)
    return JobOutcome(response, (), tuple(numbered(quiet, number)))


def _ending(
    ledger: TurnService, job: Job, response: Raw, last: list[bytes], number: int
) -> JobOutcome:
    turn = ledger.stored_turn(turn_of(job.kept, job.response), _OBJECT.decode(response))
    return JobOutcome(turn.response, turn.output, tuple(numbered(last, number)))


async def _last_events(store: Store, job: Job, error: Error, number: int) -> list[bytes]:
    """Make the events that end a stream as a failure, from those that are kept of it."""
    told = await _told(store, job.response, number)
    return failure_events(told, error, bytes(job.response.body))


async def _told(store: Store, response: Response, number: int) -> bytes:
    """Give the stream up to an event."""
    frames: list[bytes] = []
    async with aclosing(store.jobs.follow_events(response.owner, response.id)) as events:
        async for event in events:
            frames.append(frame(event.body))
            if event.number >= number - 1:
                break
    return b"".join(frames)


def _response_of(bodies: list[bytes]) -> Raw:
    seen = peek_event(bodies[-1])
    if seen is None:
        raise AssertionError("what we wrote ourselves can be read")
    return seen.response


def _is_error(body: bytes) -> bool:
    seen = peek_event(body)
    return seen is not None and seen.type == ERROR


class _Times(Struct):
    completed_at: float | None = None


_TIMES: Final = msgspec.json.Decoder(_Times)


def _in_time(response: Raw, created: int) -> Raw:
    """Keep the end from standing before the beginning, which is ours: another clock may be late."""
    try:
        completed = _TIMES.decode(response).completed_at
    except DECODE_ERRORS:
        return response
    if completed is None or completed >= created:
        return response
    return Raw(read_body(bytes(response)).encode_with(completed_at=created))


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
        self._recorder = EventRecorder(
            dict(job.kept.headers), self._receive, self._append, lambda: self.stop(Reason.LOST)
        )
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
        if not await self._write_with_retry(
            lambda: jobs.mark_in_progress(self.name, self._node, body, begun)
        ):
            self.stop(Reason.LOST)
            return False
        self._recorder.next = number + 1
        return True

    async def _serve(self) -> None:
        desk, sink = self._desk, self._recorder
        queued, response = self._job.kept, self._job.response
        record = sink.record = ExchangeRecord(_PATH)
        try:
            authorization = authorization_of(queued, response, desk.sealing_keys)
            principal = desk.authenticator.reauthenticate(response.owner, authorization)
            turn = turn_of(opened(queued, response, desk.sealing_keys), response)
            request = Request(RESPONSES.path, principal, turn.request.body, turn)
            await report_errors(sink, handle_create(desk, request, sink))
        except DragomanError as problem:
            self._problem = to_error(problem)
            record.note_error(problem.code)
        except ClientDisconnectedError:
            record.note_error(None if self._reason is None else self._reason.name.lower())
        finally:
            desk.record_exchange(record)

    async def _receive(self) -> HTTPDisconnectEvent:
        """Wait, as for a client that leaves, until the work is to end."""
        await self._stopped.wait()
        return {"type": "http.disconnect"}

    async def _append(self, events: list[Event]) -> bool:
        jobs = self._desk.store.jobs
        return await self._write_with_retry(
            lambda: jobs.append_events(self.name, self._node, events)
        )

    # The end

    async def _ending(self) -> JobOutcome:
        desk, job, recorder = self._desk, self._job, self._recorder
        if recorder.response is not None and recorder.is_whole:
            # Who wants to stop what is whole already comes too late.
            return finished(desk.turns, job, recorder.response, recorder.last, recorder.next)
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
            LOG.warning("response not stored, another node owns it", response_id=self.name)

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
                LOG.warning("database unavailable, retrying", response_id=self.name)
            except StoreUnavailableError:
                LOG.warning("storing a response failed, retrying", response_id=self.name)
                if clock() > end:
                    break
            await asyncio.sleep(_PAUSE)
        return False
