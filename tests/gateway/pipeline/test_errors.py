"""Errors of a backend reach every client with their status and message."""

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import (
    Pause,
    Step,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway import old_sdk_client
from tests.gateway.backend_replies import Call, Turn, error_events, reply_script, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECT_PAIRS, DIALECTS, EVERY_PAIR
from tests.gateway.plain_requests import request_body
from tests.gateway.sdk_clients import MODES, make_client
from tests.judges.samples import encoded

CLASSES: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    **dict.fromkeys((500, 502, 503), openai.InternalServerError),
}
FIELDS = {"type": "some_error", "param": "temperature", "code": "not_now"}
BODY = encoded({"error": {"message": "No, not «now».", **FIELDS}})
FORWARDED_HEADERS = {
    "Retry-After": "7",
    "X-Request-Id": "req_backend",
    "X-RateLimit-Remaining-Requests": "0",
}
REMOVED_HEADERS = {
    "Set-Cookie": "a=b",
    "Server": "secret-sauce/1.0",
    "Keep-Alive": "timeout=5",
    "X-Internal-Host": "10.0.0.1",
}
TURN = Turn("Let me see what there is.", (Call("get_weather", '{"city":"Zürich am See"}'),))


@pytest.mark.parametrize("mode", ["unary", "raw"])
@pytest.mark.parametrize("status", CLASSES)
@EVERY_PAIR
def test_error_is_kept(client: str, dialect: str, status: int, mode: str, harness: Harness) -> None:
    headers = FORWARDED_HEADERS | REMOVED_HEADERS
    model = harness.enqueue(dialect, json_reply(BODY, status=status, headers=headers))
    error = harness.error(client, model, mode)
    assert isinstance(error, CLASSES[status])
    assert (error.status_code, error.code, error.param) == (status, "not_now", "temperature")
    assert error.type == "some_error"
    assert "No, not «now»." in error.message
    received = error.response.headers
    assert received["content-type"] == "application/json"
    assert {name: received[name] for name in FORWARDED_HEADERS} == FORWARDED_HEADERS
    assert not REMOVED_HEADERS.keys() & {name.title() for name in received}
    # A refused request is not repeated unless the configuration says so.
    assert len(harness.backend.received(model)) == 1


@pytest.mark.parametrize("mode", ["unary", "raw"])
@EVERY_PAIR
def test_client_retries_after_the_time_of_the_backend(
    client: str, dialect: str, mode: str, harness: Harness
) -> None:
    headers = {"Retry-After-Ms": "30"}
    model = harness.enqueue(dialect, json_reply(BODY, status=429, headers=headers))
    harness.backend.respond_with(model, lambda it: reply_script(dialect, TURN, it.json()))
    retrying = harness.sdk.with_options(max_retries=1)
    assert make_client(client, retrying, model, mode).send_question().turn == TURN
    assert len(harness.backend.received(model)) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "body",
    [b"<html><h1>Bad gateway</h1></html>", b"", b'{"error":"overloaded"}', b'{"detail":"x"}'],
)
def test_old_client_always_gets_an_object(body: bytes, dialect: str, harness: Harness) -> None:
    model = harness.enqueue(dialect, *[json_reply(body, status=502)] * 2)
    request, port = request_body("legacy", model), harness.gateway.port
    with pytest.raises(old_sdk_client.OldSdkError) as caught:
        old_sdk_client.create(port, request)
    assert caught.value.status == 502
    assert caught.value.error["message"]
    with pytest.raises(old_sdk_client.OldSdkError):
        next(old_sdk_client.stream(port, request | {"stream": True}))


# Streams that end early

# This many events from the beginning leave the text open, or the call.
IN_TEXT = {"chat": 4, "legacy": 4, "responses": 5}
IN_CALL = {"chat": 8, "legacy": 8, "responses": -4}
STREAMING = [(*pair, mode) for pair in DIALECT_PAIRS for mode in MODES[pair[0]] if mode != "unary"]


@pytest.mark.parametrize("events", [IN_TEXT, IN_CALL], ids=["in text", "in a call"])
@pytest.mark.parametrize("end", ["closed", "ended", "error"])
@pytest.mark.parametrize(("client", "dialect", "mode"), STREAMING)
def test_truncated_stream_is_an_error(
    client: str, dialect: str, mode: str, end: str, events: dict[str, int], harness: Harness
) -> None:
    start: list[Step] = [*stream_events(dialect, TURN)[: events[dialect]], Pause(0.02)]
    errors = error_events(dialect, "out of memory") if end == "error" else []
    reply = truncated_reply if end == "closed" else stream_reply
    model = harness.enqueue(dialect, reply(*start, *errors))
    with pytest.raises((openai.APIError, old_sdk_client.OldSdkError)) as caught:
        harness.ask(client, model, mode)
    assert not isinstance(caught.value, openai.APIConnectionError), "the error event is missing"
    if errors:
        assert "out of memory" in str(caught.value)
    assert len(harness.backend.received(model)) == 1


@pytest.mark.parametrize("kind", ["", "streaming-"])
@EVERY_PAIR
def test_truncated_reply_fails(client: str, dialect: str, kind: str, harness: Harness) -> None:
    start = stream_events(dialect, TURN)[: IN_CALL[dialect]]
    model = harness.enqueue(f"{kind}{dialect}", truncated_reply(*start))
    error = harness.error(client, model, "unary")
    assert isinstance(error, openai.InternalServerError)
    assert error.status_code == 502
