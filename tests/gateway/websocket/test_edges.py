"""Invalid messages, heartbeats and disconnects on a WebSocket."""

import json
import logging
import threading
from pathlib import Path
from socket import SHUT_RDWR

import pytest
from websockets.exceptions import ConnectionClosed

from tests.gateway.backend_replies import Turn, reply_script, stream_events
from tests.gateway.conftest import Harness, NewModel
from tests.gateway.end_to_end.test_load import MEBIBYTE, flood, wait_until_blocked
from tests.gateway.gateway_config import DIALECTS, backend_tables
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.raw_http import send
from tests.gateway.scripted_backend import Gate, ScriptedBackend, chunk, stream_head, stream_reply
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.gateway.websocket.test_websocket import says
from tests.gateway.websocket_client import (
    Events,
    WebSocketClient,
    validate_error,
    validate_event,
    validate_turn,
)
from tests.judges.reading import JsonObject, object_in

# Messages that are none

SPOILED: dict[str, tuple[str, str | None]] = {
    "": ("invalid_value", None),
    "{": ("invalid_value", None),
    "null": ("invalid_value", None),
    "[1]": ("invalid_value", None),
    '"response.create"': ("invalid_value", None),
    "{}": ("invalid_value", "type"),
    '{"type": 7}': ("invalid_value", "type"),
    '{"type": "response.cancel"}': ("invalid_value", "type"),
    '{"type": "session.update"}': ("invalid_value", "type"),
    '{"type": "response.steer"}': ("invalid_value", "previous_response_id"),
    '{"type": "response.create", "model": 7, "input": "x"}': ("invalid_value", "model"),
    '{"type": "response.create", "input": "x"}': ("invalid_value", "model"),
    '{"type": "response.create", "model": "chat-0", "input": 7}': ("invalid_value", "input"),
    '{"type": "response.create", "model": "nobody-has-it", "input": "x"}': (
        "model_not_found",
        "model",
    ),
    '{"type": "response.create", "model": "chat-0", "input": "x", "stream": false}': (
        "unsupported_value",
        "stream",
    ),
    '{"type": "response.create", "model": "chat-0", "input": "x", "background": true}': (
        "unsupported_value",
        "background",
    ),
    '{"type": "response.create", "model": "chat-0", "input": "x", "stream_options": {}}': (
        "unsupported_value",
        "stream_options",
    ),
    '{"type": "response.create", "model": "chat-0", "previous_response_id": 7}': (
        "invalid_value",
        "previous_response_id",
    ),
    '{"type": "response.create", "model": "chat-0", "input": "x", "generate": "no"}': (
        "invalid_value",
        "generate",
    ),
}


def test_invalid_message_leaves_the_connection_open(harness: Harness) -> None:
    model = says(harness, "chat", *[Turn("Hi.")] * (len(SPOILED) + 1))
    with WebSocketClient(harness.gateway) as socket:
        for message, (code, param) in SPOILED.items():
            socket.connection.send(message)
            error = validate_error(socket.receive())
            assert (error["code"], error["param"]) == (code, param), message
            assert error["type"] == "invalid_request_error"
            assert socket.create_response(model=model, input="x", store=False).output_text == "Hi."
        socket.connection.send(b'{"type": "response.create"}')
        assert "text" in str(validate_error(socket.receive())["message"])
        assert socket.create_response(model=model, input="x", store=False).output_text == "Hi."


def test_invalid_utf8_closes_the_connection(gateway: Gateway) -> None:
    with WebSocketClient(gateway) as socket:
        # RFC 6455 leaves no choice.
        socket.connection.send(b'{"type": "\xff"}', text=True)
        with pytest.raises(ConnectionClosed) as closed:
            socket.receive()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1007


def test_refused_messages_are_logged(harness: Harness) -> None:
    with WebSocketClient(harness.gateway, path="/responses") as socket:
        socket.send({"type": "response.create", "stream_id": "not this"})
        validate_error(socket.receive())
        socket.send([])
        validate_error(socket.receive())
    words = ('"error_code":"invalid_stream_id"', '"path":"/responses"', '"status":400')
    wait_until(lambda: any(all(word in line for word in words) for line in harness.gateway.lines))


def test_too_large_message_is_refused(heartbeat_gateway: Gateway, backend: ScriptedBackend) -> None:
    model = "chat-too-large"
    backend.respond_with(model, lambda it: reply_script("chat", Turn("Hi."), it.json()))
    with WebSocketClient(heartbeat_gateway) as socket:
        socket.create(model=model, input="x" * 120_000)
        error = validate_error(socket.receive())
        assert (error["code"], error["status"]) == ("request_too_large", 413)
        assert (
            socket.create_response(model=model, input="x" * 90_000, store=False).output_text
            == "Hi."
        )
        # Nobody reads all of what is larger still only to say no.
        socket.create(model=model, input="x" * 250_000)
        with pytest.raises(ConnectionClosed) as closed:
            socket.receive()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_too_large_history_is_not_cached(
    heartbeat_gateway: Gateway, backend: ScriptedBackend
) -> None:
    model = "chat-long-history"
    backend.respond_with(model, lambda it: reply_script("chat", Turn("Hi."), it.json()))
    with WebSocketClient(heartbeat_gateway) as socket:
        shared: JsonObject = {"model": model, "store": False}
        first = socket.create_response(**shared, input="x" * 60_000)
        second = socket.create_response(**shared, input="y" * 60_000, previous_response_id=first.id)
        error = socket.create_error(**shared, input="z", previous_response_id=second.id)
        assert error["code"] == "previous_response_not_found"


# Silence, slowness, leaving


@pytest.mark.parametrize("dialect", DIALECTS)
def test_heartbeats_are_events(
    dialect: str, heartbeat_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model(dialect), Gate()
    said = stream_events(dialect, Turn("One two three."))
    backend.enqueue(model, stream_reply(*said[:2], b": a comment\n\n", gate, *said[2:]))
    events: Events = []
    with WebSocketClient(heartbeat_gateway) as socket:
        socket.create(model=model, input="x")
        # One at the beginning, and another in the silence.
        while [event["type"] for event in events].count("response.in_progress") < 2:
            events.append(socket.receive())
        gate.open()
        events += socket.receive_turn()
    for event in events:
        validate_event(event)
    assert events[-1]["type"] == "response.completed"


class Listener(logging.Handler):
    """Hears when a ping has come, which the client answers by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pinged = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "< PING" in record.getMessage():
            self.pinged.set()


def test_idle_connection_is_pinged(heartbeat_gateway: Gateway) -> None:
    listener, logger = Listener(), logging.getLogger("websockets.client")
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        with WebSocketClient(heartbeat_gateway):
            assert listener.pinged.wait(TIMEOUT_SECONDS)
    finally:
        logger.removeHandler(listener)
        logger.setLevel(logging.NOTSET)


def exchanges(gateway: Gateway) -> float:
    """Give the number of all exchanges that were counted."""
    metrics = send(gateway, "GET", "/metrics").body.decode().splitlines()
    name = "dragoman_requests_total{"
    return sum(float(line.split()[-1]) for line in metrics if line.startswith(name))


def test_each_turn_is_counted(harness: Harness, tmp_path: Path) -> None:
    model = says(harness, "chat", Turn("Hi."), Turn("Ho."))
    with run_gateway(backend_tables(harness.backend.address), tmp_path) as gateway:
        with WebSocketClient(gateway) as socket:
            socket.create_response(model=model, input="x")
            socket.create_response(model=model, input="x")
            socket.create_response(model=model, input="x", generate=False)
            socket.create_error(model=model, input="x", previous_response_id="resp_none")
            # This one's answer tells that all before it are counted.
            socket.send([])
            socket.receive()
        assert exchanges(gateway) >= 4
    lines = [json.loads(line) for line in gateway.lines if '"event":"request"' in line]
    assert [line["status"] for line in lines] == [200, 200, 200, 400, 400]
    assert {line["path"] for line in lines} == {"/v1/responses"}


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_disconnect_ends_the_backend_requests(dialect: str, how: str, harness: Harness) -> None:
    backend = harness.backend
    models = [harness.new_model(dialect) for _ in range(3)]
    said = [chunk(frame) for frame in stream_events(dialect, Turn("One two three."))[:4]]
    backend.enqueue(models[0], (Gate(),))
    backend.enqueue(models[1], (stream_head(), *said, Gate()))
    socket = WebSocketClient(harness.gateway)
    socket.create(model=models[0], input="x", store=False, stream_id="silent")
    socket.create(model=models[1], input="x", store=False, stream_id="begun")
    # This one waits, and is never asked.
    socket.create(model=models[2], input="x", store=False, stream_id="begun")
    running_work = [backend.wait_for_request(model) for model in models[:2]]
    assert socket.receive()["type"] == "response.created"
    assert not any(request.closed.is_set() for request in running_work)
    if how == "close":
        socket.connection.close()
    else:
        # Closing it would not do: who reads from it in another thread holds it open.
        socket.connection.socket.shutdown(SHUT_RDWR)
    assert all(request.closed.wait(TIMEOUT_SECONDS) for request in running_work)
    assert backend.received(models[2]) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_slow_client_slows_the_backend(dialect: str, harness: Harness) -> None:
    model = harness.new_model(dialect)
    harness.backend.enqueue(model, flood(dialect))
    before = harness.gateway.memory()
    with WebSocketClient(harness.gateway, buffer=1) as socket:
        socket.create(model=model, input="x", store=False)
        request = harness.backend.wait_for_request(model)
        held = wait_until_blocked(request)
        # What the sockets of the system hold, and a little more, but not the whole.
        assert held < 32 * MEBIBYTE
        assert harness.gateway.memory() - before < 32 * MEBIBYTE
        # Whatever is taken makes room for more.
        while request.bytes_written < held + MEBIBYTE:
            socket.receive()
        assert not request.script_done.is_set()
        # To close in peace would mean to take all the rest.
        socket.connection.socket.shutdown(SHUT_RDWR)
    assert request.closed.wait(TIMEOUT_SECONDS)


def test_invalid_message_does_not_disturb_a_running_turn(harness: Harness) -> None:
    gate, model = Gate(), harness.new_model("chat")
    said = stream_events("chat", Turn("One two three."))
    harness.backend.enqueue(model, stream_reply(*said[:3], gate, *said[3:]))
    with WebSocketClient(harness.gateway) as socket:
        socket.create(model=model, input="x", store=False)
        events = [socket.receive()]
        socket.connection.send("no JSON")
        while events[-1]["type"] != "error":
            events.append(socket.receive())
        error = events.pop()
        gate.open()
        assert object_in(error, "error")["code"] == "invalid_value"
        assert validate_turn([*events, *socket.receive_turn()]).output_text == "One two three."
