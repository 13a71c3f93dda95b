"""The fixture `dragoman_backend`: a backend on a real socket whose replies the test gives."""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Unpack

import msgspec

import adapters
from gateway.pytest_plugin.bodies import (
    JsonBody,
    JsonObject,
    StreamBody,
    encode_body,
    encode_stream,
)
from gateway.pytest_plugin.delivery import Delivery, body_script, stream_script
from gateway.pytest_plugin.scripted_backend import (
    ANY_MODEL,
    ConnectionEnd,
    Gate,
    ReceivedRequest,
    Script,
    ScriptedBackend,
    json_reply,
)
from gateway.pytest_plugin.written_replies import Call, stream_events, write_reply
from gateway.recording.format import read_recording

Arguments = Mapping[str, object] | str

_EVENT_END = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
_HINT = "no reply is left for this request: call dragoman_backend.reply() before it is sent"


class Backend:
    """A backend that sends the given replies in their order, to requests of any path and dialect.

    A request without a reply gets an error with the status 400.
    """

    def __init__(self, server: ScriptedBackend) -> None:
        self._server = server
        self._numbers = count(1)
        server.respond_with(ANY_MODEL, _refuse)
        server.respond_with("GET /v1/models", _list_models)

    @property
    def url(self) -> str:
        """The base URL for a client or for the configuration of a gateway."""
        return f"{self._server.address}/v1"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The posted requests so far."""
        return self._server.received(ANY_MODEL)

    @property
    def last_request(self) -> ReceivedRequest:
        """The last request."""
        if not self.requests:
            raise AssertionError("the backend has received no request")
        return self.requests[-1]

    def reply(
        self,
        text: str | None = None,
        *,
        calls: Iterable[tuple[str, Arguments]] = (),
        duplicate_ids: bool = False,
        **delivery: Unpack[Delivery],
    ) -> None:
        """Reply with a text, function calls or both, in the dialect of the request.

        A call is the name of a function and its arguments, as an object or as text. The reply is
        streamed if the request asks for it. With `duplicate_ids`, all calls have the same id.
        """
        made = [Call(name, arguments, f"call_{next(self._numbers)}") for name, arguments in calls]

        def script(request: ReceivedRequest) -> Script:
            return _write_script(request, text, made, delivery, duplicate_ids=duplicate_ids)

        self._server.enqueue(ANY_MODEL, script)

    def reply_json(
        self,
        body: JsonBody,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **delivery: Unpack[Delivery],
    ) -> None:
        """Reply with a body as it is."""
        self._server.enqueue(
            ANY_MODEL, body_script(encode_body(body), status, headers or {}, delivery)
        )

    def reply_stream(self, stream: StreamBody, **delivery: Unpack[Delivery]) -> None:
        """Reply with a stream as it is: its text, or the JSON of its events."""
        events = _split_events(encode_stream(stream))
        self._server.enqueue(ANY_MODEL, stream_script(events, delivery))

    def reply_recorded(self, folder: str | Path, **delivery: Unpack[Delivery]) -> None:
        """Reply as the backend of a recording did, to one request for each recorded call."""
        recording = read_recording(folder)
        for number, call in enumerate(recording.exchange.calls):
            body = recording.backend_reply(number)
            if call.status is None:
                self.disconnect()
                continue
            data = b"" if body is None else body.data
            events = _split_events(data)
            # A body that broke off breaks off again.
            sent: Delivery = {"cut_after": len(events), **delivery} if call.error else delivery
            if body is not None and body.streamed:
                script = stream_script(events, sent)
            else:
                script = body_script(data, call.status, call.reply_headers, sent)
            self._server.enqueue(ANY_MODEL, script)

    def fail(
        self,
        status: int,
        message: str = "the backend failed",
        *,
        retry_after: float | None = None,
        code: str | None = None,
    ) -> None:
        """Reply with an HTTP error."""
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
        limited = status == HTTPStatus.TOO_MANY_REQUESTS
        kind = "rate_limit_exceeded" if limited else "server_error"
        error = {"message": message, "type": kind, "param": None, "code": code}
        self.reply_json({"error": error}, status=status, headers=headers)

    def stay_silent(self) -> None:
        """Accept a request and send nothing until the end of the test."""
        self._server.enqueue(ANY_MODEL, (Gate(),))

    def disconnect(self) -> None:
        """Reset the connection instead of replying."""
        self._server.enqueue(ANY_MODEL, (ConnectionEnd.RESET,))


@contextmanager
def run_backend() -> Generator[Backend]:
    """Run a backend without replies."""
    with ScriptedBackend(by_model=False) as server:
        yield Backend(server)


def _write_script(
    request: ReceivedRequest,
    text: str | None,
    calls: Sequence[Call],
    delivery: Delivery,
    *,
    duplicate_ids: bool,
) -> Script:
    """Return a reply in the dialect of a request, streamed if it asks for that."""
    body = request.json()
    dialect, model = _find_dialect(request), str(body.get("model"))
    streamed = body.get("stream") is True
    if streamed:
        usage = body.get("stream_options") == {"include_usage": True}
        parts = stream_events(dialect, model, text, calls, with_usage=usage)
    else:
        parts = [write_reply(dialect, model, text, calls)]
    if duplicate_ids:
        parts = [_with_equal_ids(part, calls) for part in parts]
    return stream_script(parts, delivery) if streamed else body_script(parts[0], 200, {}, delivery)


def _with_equal_ids(part: bytes, calls: Sequence[Call]) -> bytes:
    for call in calls[1:]:
        part = part.replace(f'"{call.id}"'.encode(), f'"{calls[0].id}"'.encode())
    return part


def _find_dialect(request: ReceivedRequest) -> str:
    """Return the dialect of a request, by its path and its body."""
    for path, dialects in adapters.dialects_by_path().items():
        if request.target.partition("?")[0].rstrip("/").endswith(path):
            body = adapters.parse_body(request.body)
            return next(one.name for one in dialects if one.matches(body))
    raise AssertionError(f"reply_json() is needed for a request to {request.target}")


def _split_events(stream: bytes) -> list[bytes]:
    return [event for event in _EVENT_END.split(stream) if event]


def _refuse(request: ReceivedRequest) -> Script:
    error: JsonObject = {"message": f"{_HINT} ({request.method} {request.target})"}
    error |= {"type": "invalid_request_error", "param": None, "code": "no_reply"}
    # Clients and gateways do not send a request again after this status.
    return json_reply(msgspec.json.encode({"error": error}), status=400)


def _list_models(_request: ReceivedRequest) -> Script:
    model = {"id": "test-model", "object": "model", "created": 0, "owned_by": "dragoman"}
    return json_reply(msgspec.json.encode({"object": "list", "data": [model]}))
