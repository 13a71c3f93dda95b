"""Create one background response: serve its request and save the reply."""

from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.responses import RESPONSES
from adapters.responses.stream_repair import failure_events
from adapters.wire.json_object import read_body
from gateway.background.events import (
    ERROR_EVENT,
    frame,
    read_head,
    renumber,
    response_event,
)
from gateway.background.queued_request import QueuedRequest, open_authorization, open_turn
from gateway.background.recorder import EventRecorder, StopReason
from gateway.context import AppContext
from gateway.errors import ClientDisconnectedError
from gateway.http.headers import loss_list
from gateway.observability.logging import LOG
from gateway.pipeline.handler import CreateRequest, handle_create, report_errors
from gateway.store import JobUpdate, Store

_CANCELLED: Final = Error("The response was cancelled.", "server_error", "server_error")
_INCOMPLETE: Final = "the backend's reply ended before it was complete"


class _Times(Struct):
    completed_at: float | None = None


_TIMES: Final = msgspec.json.Decoder(_Times)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])


async def run_job(app: AppContext, recorder: EventRecorder, request: QueuedRequest | None) -> None:
    """Serve the request of a job and save the response.

    When this returns, the response is committed, unless another node has taken the job over.
    """
    if recorder.stop_reason is None and request is not None and await _start(recorder):
        await _serve(app, recorder, request)
    await recorder.flush()
    if recorder.stop_reason is StopReason.LOST:
        return
    if not await recorder.update_job(await _final_update(app, recorder)):
        response_id = recorder.job.response.id
        LOG.warning("response not stored, another node owns it", response_id=response_id)


async def _start(recorder: EventRecorder) -> bool:
    """Mark a job as in progress, so that no other node starts it; return False if it is stopped."""
    response, number = recorder.job.response, recorder.next_event
    body = Raw(read_body(bytes(response.body)).encode_with(status="in_progress"))
    events = [response_event("response.in_progress", number, body)]
    if await recorder.update_job(JobUpdate(response.id, recorder.node, events, body=body)):
        recorder.next_event += 1
    return recorder.stop_reason is None


async def _serve(app: AppContext, recorder: EventRecorder, request: QueuedRequest) -> None:
    record = recorder.record
    try:
        await report_errors(app, recorder, _handle(app, recorder, request))
    except ClientDisconnectedError:
        reason = recorder.stop_reason
        record.note_error(None if reason is None else reason.name.lower())
    finally:
        app.record_exchange(record)


async def _handle(app: AppContext, recorder: EventRecorder, request: QueuedRequest) -> None:
    response, keys = recorder.job.response, app.sealing_keys
    authorization = open_authorization(request, response, keys)
    principal = app.authenticator.reauthenticate(response.owner, authorization)
    turn = open_turn(request, response, keys)
    await handle_create(
        app, CreateRequest(RESPONSES.path, principal, turn.request.body, turn), recorder
    )


async def _final_update(app: AppContext, recorder: EventRecorder) -> JobUpdate:
    """Return the last update of a job, with the finished response and its last events."""
    if recorder.response is not None and recorder.is_complete:
        # Save a complete response even if the job was stopped meanwhile.
        return _finished(app, recorder, recorder.response, recorder.last_events)
    if recorder.stop_reason is StopReason.CANCELLED:
        return await _cancelled(app.store, recorder)
    reason = recorder.stop_reason
    if reason is not None:
        error = Error(reason.value, "server_error", "server_error")
    else:
        error = recorder.error() or Error(_INCOMPLETE, "server_error", "server_error")
    events = await _failure_events(app.store, recorder, error)
    return _finished(app, recorder, read_head(events[-1]).response, events)


def _finished(
    app: AppContext, recorder: EventRecorder, reply: Raw, events: list[bytes]
) -> JobUpdate:
    """Return the update for a finished response; the last of its events contains the `reply`."""
    row = recorder.job.response
    corrected = _correct_completed_at(reply, row.created)
    if corrected is not reply:
        events = [*events[:-1], read_body(events[-1]).encode_with(response=corrected)]
    losses = loss_list(recorder.record.losses)
    response, output = app.turns.finish(row, _OBJECT.decode(corrected), losses)
    numbered = tuple(renumber(events, recorder.next_event))
    return JobUpdate(row.id, recorder.node, numbered, finished=response, output=output)


async def _cancelled(store: Store, recorder: EventRecorder) -> JobUpdate:
    """Return the update for a cancelled response, which has no output, as at OpenAI.

    The stream ends with `response.failed`, but without an `error` event, because the SDK raises an
    exception for it. The response is not appended to its conversation.
    """
    row = recorder.job.response
    events = await _failure_events(store, recorder, _CANCELLED)
    without_error = [body for body in events if read_head(body).type != ERROR_EVENT]
    body = Raw(read_body(bytes(row.body)).encode_with(status="cancelled"))
    response = replace(row, status="cancelled", body=body, conversation=None)
    numbered = tuple(renumber(without_error, recorder.next_event))
    return JobUpdate(row.id, recorder.node, numbered, finished=response)


async def _failure_events(store: Store, recorder: EventRecorder, error: Error) -> list[bytes]:
    """Return the events that end the stored stream of a job with an error."""
    row, last = recorder.job.response, recorder.next_event - 1
    frames: list[bytes] = []
    async with aclosing(store.jobs.follow_events(row.owner, row.id)) as events:
        async for event in events:
            frames.append(frame(event))
            if event.number >= last:
                break
    return failure_events(b"".join(frames), error, bytes(row.body))


def _correct_completed_at(response: Raw, created: int) -> Raw:
    """Return a response that is not completed before it was created, if clocks differ."""
    try:
        completed = _TIMES.decode(response).completed_at
    except DECODE_ERRORS:
        return response
    if completed is None or completed >= created:
        return response
    return Raw(read_body(bytes(response)).encode_with(completed_at=created))
