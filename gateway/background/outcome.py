"""How a response ends: what is kept of it, and the last events of its stream."""

from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.responses.stream_repair import failure_events
from adapters.wire.json_object import read_body
from gateway.background.events import ERROR, frame, numbered, peek_event
from gateway.background.queued_request import QueuedRequest, plan_of
from gateway.context import AppContext
from gateway.store import Event, Item, Response, Store
from gateway.turns.service import TurnService

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
    return _ending(desk.ledger, job, _response_of(bodies), bodies, number)


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
    turn = ledger.turn(plan_of(job.kept, job.response), response)
    return JobOutcome(turn.response, turn.output, tuple(numbered(last, number)))


async def _last_events(store: Store, job: Job, error: Error, number: int) -> list[bytes]:
    """Make the events that end a stream as a failure, from those that are kept of it."""
    told = await _told(store, job.response, number)
    return failure_events(told, error, bytes(job.response.body))


async def _told(store: Store, response: Response, number: int) -> bytes:
    """Give the stream up to an event."""
    frames: list[bytes] = []
    async with aclosing(store.jobs.follow(response.owner, response.id)) as events:
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
