"""Cases from a recording: the request of the client, and each reply of a backend."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Raw

from gateway.pytest_plugin.cases import (
    MISSING,
    Case,
    CaseError,
    ErrorCase,
    ReplyCase,
    RequestCase,
    StreamCase,
)
from gateway.recording.format import BackendCall, Body, Recording, RecordingError, read_recording

_FIRST_ERROR_STATUS = 400


def read_recorded_cases(folder: Path) -> list[Case]:
    """Read the cases of a recording, named "request", "reply", "reply-2" and so on.

    Bodies that are missing, were left out or are not readable at all are no cases. Raises a
    `CaseError`.
    """
    try:
        recording = read_recording(folder)
        return [*_read_request(recording), *_read_replies(recording)]
    except (RecordingError, ValueError) as error:
        raise CaseError(str(error)) from None


def _read_request(recording: Recording) -> Iterator[Case]:
    body, calls = recording.client_request, recording.exchange.calls
    if body is not None and body.suffix == ".json":
        call = calls[0] if calls else BackendCall()
        yield RequestCase(
            dialect=recording.exchange.client.dialect,
            name="request",
            body=Raw(body.data),
            profile=call.profile,
            own_capabilities=call.capabilities,
        )


def _read_replies(recording: Recording) -> Iterator[Case]:
    for number, call in enumerate(recording.exchange.calls):
        body = recording.backend_reply(number)
        if body is not None and not body.omitted_bytes:
            name = f"reply-{number + 1}" if number else "reply"
            yield _read_reply(name, call, body, recording.backend_request(number))


def _read_reply(name: str, call: BackendCall, body: Body, request: Body | None) -> Case:
    if call.status is not None and call.status >= _FIRST_ERROR_STATUS:
        text = body.data.decode(errors="replace")
        return ErrorCase(dialect=call.dialect, name=name, status=call.status, body_text=text)
    known = request is not None and request.suffix == ".json"
    sent = Raw(request.data) if request is not None and known else MISSING
    if body.streamed:
        return StreamCase(
            dialect=call.dialect,
            name=name,
            body=body.data,
            request=sent,
            profile=call.profile,
            own_capabilities=call.capabilities,
        )
    return ReplyCase(
        dialect=call.dialect,
        name=name,
        body=Raw(body.data),
        request=sent,
        profile=call.profile,
        own_capabilities=call.capabilities,
    )
