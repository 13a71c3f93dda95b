"""Invalid messages, heartbeats and disconnects on a WebSocket."""

import json
import logging
from pathlib import Path

import pytest

from gateway.pytest_plugin.scripted_backend import Gate, ScriptedBackend, stream_reply
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.background.requests import TEXT, halved
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.end_to_end.test_load import MEBIBYTE, flood, wait_until_blocked
from tests.gateway.gateway_config import backend_tables
from tests.gateway.gateway_process import Gateway, memory
from tests.gateway.raw_http import send
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.gateway.websocket_client import (
    WebSocketClient,
    validate_error,
    validate_event,
    validate_turn,
)
from tests.judges.reading import object_in

# Invalid messages

NO_TYPES = ("{}", '{"type": 7}', '{"type": "response.cancel"}', '{"type": "session.update"}')
# Fields that make a request invalid, and the code of the error.
INVALID_FIELDS: list[tuple[str, object, str]] = [
    ("model", 7, "invalid_value"),
    ("model", "nobody-has-it", "model_not_found"),
    ("input", 7, "invalid_value"),
    ("stream", False, "unsupported_value"),
    ("background", True, "unsupported_value"),
    ("stream_options", {}, "unsupported_value"),
    ("previous_response_id", 7, "invalid_value"),
    ("generate", "no", "invalid_value"),
]
REQUEST = {"type": "response.create", "model": "chat-0", "input": "x"}
INVALID_MESSAGES = [
    *((text, "invalid_value", None) for text in ("", "{", "null", "[1]", '"response.create"')),
    *((text, "invalid_value", "type") for text in NO_TYPES),
    ('{"type": "response.steer"}', "invalid_value", "previous_response_id"),
    ('{"type": "response.create", "input": "x"}', "invalid_value", "model"),
    *((json.dumps({**REQUEST, name: it}), code, name) for name, it, code in INVALID_FIELDS),
]


def test_invalid_message_leaves_the_connection_open(
    harness: Harness, socket: WebSocketClient
) -> None:
    valid = {"model": harness.script_always("chat", Turn("Hi.")), "input": "x", "store": False}
    for message, code, param in INVALID_MESSAGES:
        socket.connection.send(message)
        error = validate_error(socket.receive())
        assert (error["code"], error["param"]) == (code, param), message
        assert error["type"] == "invalid_request_error"
        assert socket.create_response(**valid).output_text == "Hi."
    socket.connection.send(b'{"type": "response.create"}')
    assert "text" in str(validate_error(socket.receive())["message"])
    assert socket.create_response(**valid).output_text == "Hi."


def test_invalid_utf8_closes_the_connection(socket: WebSocketClient) -> None:
    # RFC 6455 requires it.
    socket.connection.send(b'{"type": "\xff"}', text=True)
    assert socket.receive_close() == 1007


def test_refused_messages_are_logged(gateway: Gateway) -> None:
    with WebSocketClient(gateway, path="/responses") as socket:
        socket.send({"type": "response.create", "stream_id": "not this"})
        validate_error(socket.receive())
        socket.send([])
        validate_error(socket.receive())
    words = ('"error_code":"invalid_stream_id"', '"path":"/responses"', '"status":400')
    wait_until(lambda: any(all(word in line for word in words) for line in gateway.lines))


def test_too_large_message_is_refused(heartbeat_gateway: Gateway, harness: Harness) -> None:
    shared = {"model": harness.script_always("chat", Turn("Hi.")), "store": False}
    with WebSocketClient(heartbeat_gateway) as socket:
        error = socket.create_error(**shared, input="x" * 120_000)
        assert (error["code"], error["status"]) == ("request_too_large", 413)
        assert socket.create_response(**shared, input="x" * 90_000).output_text == "Hi."
        # A larger message is not read to its end.
        socket.create(**shared, input="x" * 250_000)
        assert socket.receive_close() == 1009


def test_too_large_history_is_not_cached(heartbeat_gateway: Gateway, harness: Harness) -> None:
    shared = {"model": harness.script_always("chat", Turn("Hi.")), "store": False}
    with WebSocketClient(heartbeat_gateway) as socket:
        first = socket.create_response(**shared, input="x" * 60_000)
        second = socket.create_response(**shared, input="y" * 60_000, previous_response_id=first.id)
        error = socket.create_error(**shared, input="z", previous_response_id=second.id)
        assert error["code"] == "previous_response_not_found"


# Heartbeats, slow clients and disconnects


def test_heartbeats_are_events(dialect: str, heartbeat_gateway: Gateway, harness: Harness) -> None:
    gate = Gate()
    reply = stream_events(dialect, Turn("One two three."))
    script = stream_reply(*reply[:2], b": a comment\n\n", gate, *reply[2:])
    model = harness.enqueue(dialect, script)
    with WebSocketClient(heartbeat_gateway) as socket:
        socket.create(model=model, input="x")
        # One at the beginning, and another while the backend is silent.
        events = socket.receive_until("response.in_progress")
        events += socket.receive_until("response.in_progress")
        gate.open()
        events += socket.receive_turn()
    for event in events:
        validate_event(event)
    assert events[-1]["type"] == "response.completed"


def test_idle_connection_is_pinged(
    heartbeat_gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "websockets.client")
    with WebSocketClient(heartbeat_gateway):
        # The client answers pings by itself.
        wait_until(lambda: any("< PING" in message for message in caplog.messages))


def count_exchanges(gateway: Gateway) -> float:
    metrics = send(gateway, "GET", "/metrics").body.decode().splitlines()
    name = "dragoman_requests_total{"
    return sum(float(line.split()[-1]) for line in metrics if line.startswith(name))


def test_each_turn_is_counted(backend: ScriptedBackend, tmp_path: Path) -> None:
    with run_harness(backend, backend_tables(backend.address), tmp_path) as harness:
        model = harness.script("chat", "Hi.", "Ho.")
        with WebSocketClient(harness.gateway) as socket:
            socket.create_response(model=model, input="x")
            socket.create_response(model=model, input="x")
            socket.create_response(model=model, input="x", generate=False)
            socket.create_error(model=model, input="x", previous_response_id="resp_none")
            # Once this is refused, all before it are counted.
            socket.send([])
            socket.receive()
        assert count_exchanges(harness.gateway) >= 4
    lines = [json.loads(line) for line in harness.gateway.lines if '"event":"request"' in line]
    assert [line["status"] for line in lines] == [200, 200, 200, 400, 400]
    assert {line["path"] for line in lines} == {"/v1/responses"}


@pytest.mark.parametrize("how", ["close", "abort"])
def test_disconnect_ends_the_backend_requests(dialect: str, how: str, harness: Harness) -> None:
    silent = harness.enqueue(dialect, (Gate(),))
    begun = harness.enqueue(dialect, halved(dialect, Gate()))
    waiting = harness.new_model(dialect)
    socket = WebSocketClient(harness.gateway)
    socket.create(model=silent, input="x", store=False, stream_id="silent")
    socket.create(model=begun, input="x", store=False, stream_id="begun")
    socket.create(model=waiting, input="x", store=False, stream_id="begun")
    requests = [harness.backend.wait_for_request(model) for model in (silent, begun)]
    assert socket.receive()["type"] == "response.created"
    assert not any(request.closed.is_set() for request in requests)
    if how == "close":
        socket.connection.close()
    else:
        socket.abort()
    assert all(request.closed.wait(TIMEOUT_SECONDS) for request in requests)
    assert harness.backend.received(waiting) == []


def test_slow_client_slows_the_backend(dialect: str, harness: Harness) -> None:
    model = harness.enqueue(dialect, flood(dialect))
    before = memory(harness.gateway)
    with WebSocketClient(harness.gateway, buffer=1) as socket:
        socket.create(model=model, input="x", store=False)
        request = harness.backend.wait_for_request(model)
        written_bytes = wait_until_blocked(request)
        # The buffers of the sockets, and a little more, but not the whole.
        assert written_bytes < 32 * MEBIBYTE
        assert memory(harness.gateway) - before < 32 * MEBIBYTE
        # The backend continues when the client reads.
        while request.bytes_written < written_bytes + MEBIBYTE:
            socket.receive()
        assert not request.script_done.is_set()
        # A normal close would read all the rest.
        socket.abort()
    assert request.closed.wait(TIMEOUT_SECONDS)


def test_invalid_message_does_not_disturb_a_running_turn(
    harness: Harness, socket: WebSocketClient
) -> None:
    gate = Gate()
    socket.create(model=harness.enqueue("chat", halved("chat", gate)), input="x", store=False)
    events = [socket.receive()]
    socket.connection.send("no JSON")
    events += socket.receive_until("error")
    error = events.pop()
    gate.open()
    assert object_in(error, "error")["code"] == "invalid_value"
    assert validate_turn([*events, *socket.receive_turn()]).output_text == TEXT
