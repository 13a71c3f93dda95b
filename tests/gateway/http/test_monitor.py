"""Disconnects of clients, timeouts of backends, and requests that are repeated."""

import socket
import struct
import time
from itertools import product

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import (
    JSON,
    ConnectionEnd,
    Gate,
    Pause,
    Script,
    Step,
    chunk,
    json_reply,
    reply_head,
    stream_head,
    stream_reply,
)
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, reply_script, stream_events
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.waiting import TIMEOUT_SECONDS

TURN = Turn("One two three four five six.")
EVENTS = stream_events("chat", TURN)

every_client = pytest.mark.parametrize("client", DIALECTS)
both_modes = pytest.mark.parametrize("mode", ["unary", "raw"])


def assert_closed(harness: Harness, model: str) -> None:
    """Raise unless the gateway closes the connection of the last request."""
    assert harness.backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS)


# Disconnects


def stages(dialect: str) -> dict[str, tuple[bool, Script]]:
    """Return what a backend does until it waits, and whether the client wants a stream."""
    events: list[Step] = [chunk(event) for event in stream_events(dialect, TURN)[:5]]
    long = {**JSON, "Content-Length": "999"}
    half = reply_body(dialect, TURN)[:40]
    return {
        "before the first byte, whole": (False, (Gate(),)),
        "before the first byte, streamed": (True, (Gate(),)),
        "after the head": (True, (stream_head(), Gate())),
        "in a stream": (True, (stream_head(), *events, Gate())),
        "in a whole reply": (False, (reply_head(200, long) + half, Gate())),
        "in a stream that becomes a whole reply": (False, (stream_head(), *events, Gate())),
        "in an error": (True, (reply_head(500, long) + b"{", Gate())),
    }


def open_request(
    harness: Harness, client: str, model: str, *, streamed: bool, missing: int = 0
) -> socket.socket:
    """Send a request, without its last bytes, and return its connection."""
    body = request_body(client, model, streamed=streamed)
    request = raw_http.request_bytes(request_path(client), body)
    connection = raw_http.connect(harness.gateway.port)
    connection.sendall(request[: len(request) - missing])
    return connection


@pytest.mark.parametrize("stage", stages("chat"))
@pytest.mark.parametrize(
    ("client", "dialect", "how"),
    [*product(DIALECTS, DIALECTS, ["close"]), ("responses", "chat", "reset")],
)
def test_disconnect_closes_the_connection_to_the_backend(
    client: str, dialect: str, how: str, stage: str, harness: Harness
) -> None:
    streamed, script = stages(dialect)[stage]
    model = harness.enqueue(dialect, script)
    connection = open_request(harness, client, model, streamed=streamed)
    request = harness.backend.wait_for_request(model)
    if stage == "in a stream":
        assert b"text/event-stream" in connection.recv(65536)
    assert not request.closed.is_set()
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert request.closed.wait(TIMEOUT_SECONDS)
    assert not request.script_done.is_set()


def test_disconnect_does_not_affect_other_clients(harness: Harness) -> None:
    gate = Gate()
    model = harness.enqueue(
        "chat",
        stream_reply(*EVENTS[:4], gate, *EVENTS[4:]),
        (Gate(),),
        json_reply(reply_body("chat", TURN)),
    )
    with harness.stream("chat", model) as staying:
        connection = open_request(harness, "chat", model, streamed=True)
        request = harness.backend.wait_for_request(model, 2)
        connection.close()
        assert request.closed.wait(TIMEOUT_SECONDS)
        gate.open()
        assert staying.read_all().endswith(b"data: [DONE]\n\n")
    assert harness.request("chat", model).status == 200


def test_disconnect_within_a_request(harness: Harness) -> None:
    open_request(harness, "responses", "chat-x", streamed=False, missing=10).close()
    assert raw_http.get(harness.gateway.port, "/health").status == 200
    assert "Traceback" not in harness.gateway.log


# Slow backends

NO_FIRST_BYTE: Script = (Gate(),)
NO_BODY: Script = (stream_head(), Gate())
HALF_REPLY: Script = (reply_head(200, {**JSON, "Content-Length": "9"}), b"{", Gate())


@pytest.mark.parametrize(
    ("backend_name", "script", "client", "mode"),
    [
        pytest.param("late-chat", NO_FIRST_BYTE, "chat", "unary", id="no first byte, whole"),
        pytest.param("late-chat", NO_FIRST_BYTE, "responses", "raw", id="no first byte, streamed"),
        pytest.param("late-chat", NO_FIRST_BYTE, "legacy", "raw", id="no first byte, legacy"),
        pytest.param("silent-chat", NO_BODY, "responses", "raw", id="no body"),
        pytest.param("silent-chat", NO_BODY, "chat", "raw", id="no body, same dialect"),
        pytest.param("silent-chat", HALF_REPLY, "responses", "unary", id="half a whole reply"),
    ],
)
def test_slow_backend_is_a_timeout(
    backend_name: str, script: Script, client: str, mode: str, harness: Harness
) -> None:
    model = harness.enqueue(backend_name, script)
    error = harness.error(client, model, mode)
    assert (error.status_code, error.code) == (504, "backend_timeout")
    assert_closed(harness, model)


def silent_after(events: list[bytes]) -> Script:
    """Send events at once, and nothing more."""
    return (stream_head() + chunk(b"".join(events)), Gate())


@every_client
def test_stream_that_falls_silent_ends_with_an_error(client: str, harness: Harness) -> None:
    model = harness.enqueue("silent-chat", silent_after(EVENTS[:4]))
    with pytest.raises(openai.APIError, match=r"0\.5 seconds"):
        harness.ask(client, model)
    assert_closed(harness, model)


@pytest.mark.parametrize("end", [-1, -2], ids=["after the usage", "after the finish"])
@both_modes
@every_client
def test_finished_reply_is_whole_without_the_end_of_its_stream(
    client: str, mode: str, end: int, harness: Harness
) -> None:
    backend_name = "silent-chat" if mode == "raw" else "hanging-chat"
    model = harness.enqueue(backend_name, silent_after(EVENTS[:end]))
    assert harness.ask(client, model, mode) == TURN
    assert_closed(harness, model)


@both_modes
def test_reply_that_exceeds_the_total_timeout(mode: str, harness: Harness) -> None:
    comments: list[Step] = [part for _ in range(200) for part in (b": drop\n\n", Pause(0.05))]
    model = harness.enqueue("endless-chat", stream_reply(*EVENTS[:4], *comments))
    with pytest.raises(openai.APIError, match="in time"):
        harness.ask("responses", model, mode)
    assert_closed(harness, model)


def test_slow_reply_within_the_limits_is_whole(harness: Harness) -> None:
    # In total it takes longer than the idle timeout.
    steps = (step for event in EVENTS for step in (event, Pause(0.8)))
    model = harness.enqueue("steady-chat", stream_reply(*steps))
    assert harness.ask("responses", model) == TURN


# Repeated requests

BUSY = json_reply(b'{"error":{"message":"busy"}}', status=503)


def enqueue_failures(harness: Harness, *failures: Script) -> str:
    """Return a new model that replies after these failures."""
    model = harness.enqueue("again-chat", *failures)
    harness.backend.respond_with(model, lambda it: reply_script("chat", TURN, it.json()))
    return model


@both_modes
@every_client
def test_request_is_repeated_before_the_first_byte(
    client: str, mode: str, harness: Harness
) -> None:
    model = enqueue_failures(harness, BUSY, (ConnectionEnd.CLOSE,))
    assert harness.ask(client, model, mode) == TURN
    received = harness.backend.received(model)
    assert (len({request.body for request in received}), len(received)) == (1, 3)


def test_request_is_repeated_no_more_often_than_allowed(harness: Harness) -> None:
    model = enqueue_failures(harness, *[BUSY] * 3)
    assert harness.error("responses", model).status_code == 503
    assert len(harness.backend.received(model)) == 3


def test_request_is_never_repeated_after_the_first_byte(harness: Harness) -> None:
    broken: Script = (stream_head(), chunk(EVENTS[1]), Pause(0.02), ConnectionEnd.RESET)
    model = enqueue_failures(harness, broken)
    with pytest.raises(openai.APIError):
        harness.ask("responses", model)
    assert len(harness.backend.received(model)) == 1


def too_many_requests(retry_after: str) -> Script:
    return json_reply(b"{}", status=429, headers={"Retry-After": retry_after})


def test_retry_after_is_waited_for(harness: Harness) -> None:
    model = enqueue_failures(harness, too_many_requests("1"))
    begin = time.monotonic()
    assert harness.ask("responses", model, "unary") == TURN
    # The clocks of two processes need not agree on the last millisecond.
    assert time.monotonic() - begin > 0.9


def test_long_retry_after_is_left_to_the_client(harness: Harness) -> None:
    model = enqueue_failures(harness, too_many_requests("60"))
    error = harness.error("responses", model, "unary")
    assert (error.status_code, error.response.headers["retry-after"]) == (429, "60")
    assert len(harness.backend.received(model)) == 1
