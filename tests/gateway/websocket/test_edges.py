"""What goes wrong on a socket, and what goes on all the same."""

import json
import logging
import threading
from pathlib import Path
from socket import SHUT_RDWR

import pytest
from websockets.exceptions import ConnectionClosed

from tests.gateway.calling import call
from tests.gateway.conftest import DIALECTS, Fresh, Scene, tables
from tests.gateway.end_to_end.test_load import MEBIBYTE, flood, settled
from tests.gateway.keeping import until
from tests.gateway.process import Gateway, running
from tests.gateway.scripted import PATIENCE, Gate, ScriptedBackend, begun, chunk, stream
from tests.gateway.sockets import Events, Socket, judged, judged_error, judged_event
from tests.gateway.speech import Turn, frames, script
from tests.gateway.websocket.test_websocket import says
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


def test_a_message_that_is_none_is_told_so_and_the_socket_goes_on(scene: Scene) -> None:
    model = says(scene, "chat", *[Turn("Hi.")] * (len(SPOILED) + 1))
    with Socket(scene.gateway) as socket:
        for message, (code, param) in SPOILED.items():
            socket.plug.send(message)
            error = judged_error(socket.hear())
            assert (error["code"], error["param"]) == (code, param), message
            assert error["type"] == "invalid_request_error"
            assert socket.answered(model=model, input="x", store=False).output_text == "Hi."
        socket.plug.send(b'{"type": "response.create"}')
        assert "text" in str(judged_error(socket.hear())["message"])
        assert socket.answered(model=model, input="x", store=False).output_text == "Hi."


def test_what_is_no_text_ends_the_socket(gateway: Gateway) -> None:
    with Socket(gateway) as socket:
        # RFC 6455 leaves no choice.
        socket.plug.send(b'{"type": "\xff"}', text=True)
        with pytest.raises(ConnectionClosed) as closed:
            socket.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1007


def test_what_is_refused_is_logged(scene: Scene) -> None:
    with Socket(scene.gateway, path="/responses") as socket:
        socket.say({"type": "response.create", "stream_id": "not this"})
        judged_error(socket.hear())
        socket.say([])
        judged_error(socket.hear())
    words = ('"error_code":"invalid_stream_id"', '"path":"/responses"', '"status":400')
    until(lambda: any(all(word in line for word in words) for line in scene.gateway.lines))


def test_a_message_that_is_too_large(lively: Gateway, backend: ScriptedBackend) -> None:
    model = "chat-too-large"
    backend.play_always(model, lambda it: script("chat", Turn("Hi."), it.json()))
    with Socket(lively) as socket:
        socket.create(model=model, input="x" * 120_000)
        error = judged_error(socket.hear())
        assert (error["code"], error["status"]) == ("request_too_large", 413)
        assert socket.answered(model=model, input="x" * 90_000, store=False).output_text == "Hi."
        # Nobody reads all of what is larger still only to say no.
        socket.create(model=model, input="x" * 250_000)
        with pytest.raises(ConnectionClosed) as closed:
            socket.hear()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_a_history_that_is_too_large_is_not_remembered(
    lively: Gateway, backend: ScriptedBackend
) -> None:
    model = "chat-long-history"
    backend.play_always(model, lambda it: script("chat", Turn("Hi."), it.json()))
    with Socket(lively) as socket:
        shared: JsonObject = {"model": model, "store": False}
        first = socket.answered(**shared, input="x" * 60_000)
        second = socket.answered(**shared, input="y" * 60_000, previous_response_id=first.id)
        error = socket.refused(**shared, input="z", previous_response_id=second.id)
        assert error["code"] == "previous_response_not_found"


# Silence, slowness, leaving


@pytest.mark.parametrize("dialect", DIALECTS)
def test_silence_is_filled_with_events(
    dialect: str, lively: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model, gate = fresh(dialect), Gate()
    said = frames(dialect, Turn("One two three."))
    backend.play(model, stream(*said[:2], b": a comment\n\n", gate, *said[2:]))
    events: Events = []
    with Socket(lively) as socket:
        socket.create(model=model, input="x")
        # One at the beginning, and another in the silence.
        while [event["type"] for event in events].count("response.in_progress") < 2:
            events.append(socket.hear())
        gate.open()
        events += socket.hear_turn()
    for event in events:
        judged_event(event)
    assert events[-1]["type"] == "response.completed"


class Listener(logging.Handler):
    """Hears when a ping has come, which the client answers by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pinged = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "< PING" in record.getMessage():
            self.pinged.set()


def test_an_idle_socket_is_pinged(lively: Gateway) -> None:
    listener, logger = Listener(), logging.getLogger("websockets.client")
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        with Socket(lively):
            assert listener.pinged.wait(PATIENCE)
    finally:
        logger.removeHandler(listener)
        logger.setLevel(logging.NOTSET)


def exchanges(gateway: Gateway) -> float:
    """Give the number of all exchanges that were counted."""
    metrics = call(gateway, "GET", "/metrics").body.decode().splitlines()
    name = "dragoman_requests_total{"
    return sum(float(line.split()[-1]) for line in metrics if line.startswith(name))


def test_each_turn_is_counted(scene: Scene, tmp_path: Path) -> None:
    model = says(scene, "chat", Turn("Hi."), Turn("Ho."))
    with running(tables(scene.backend.address), tmp_path) as gateway:
        with Socket(gateway) as socket:
            socket.answered(model=model, input="x")
            socket.answered(model=model, input="x")
            socket.answered(model=model, input="x", generate=False)
            socket.refused(model=model, input="x", previous_response_id="resp_none")
            # This one's answer tells that all before it are counted.
            socket.say([])
            socket.hear()
        assert exchanges(gateway) >= 4
    lines = [json.loads(line) for line in gateway.lines if '"event":"request"' in line]
    assert [line["status"] for line in lines] == [200, 200, 200, 400, 400]
    assert {line["path"] for line in lines} == {"/v1/responses"}


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_leaves_ends_the_work(dialect: str, how: str, scene: Scene) -> None:
    backend = scene.backend
    models = [scene.fresh(dialect) for _ in range(3)]
    said = [chunk(frame) for frame in frames(dialect, Turn("One two three."))[:4]]
    backend.play(models[0], (Gate(),))
    backend.play(models[1], (begun(), *said, Gate()))
    socket = Socket(scene.gateway)
    socket.create(model=models[0], input="x", store=False, stream_id="silent")
    socket.create(model=models[1], input="x", store=False, stream_id="begun")
    # This one waits, and is never asked.
    socket.create(model=models[2], input="x", store=False, stream_id="begun")
    running_work = [backend.wait(model) for model in models[:2]]
    assert socket.hear()["type"] == "response.created"
    assert not any(request.closed.is_set() for request in running_work)
    if how == "close":
        socket.plug.close()
    else:
        # Closing it would not do: who reads from it in another thread holds it open.
        socket.plug.socket.shutdown(SHUT_RDWR)
    assert all(request.closed.wait(PATIENCE) for request in running_work)
    assert backend.received(models[2]) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_slow_client_holds_the_backend_back(dialect: str, scene: Scene) -> None:
    model = scene.fresh(dialect)
    scene.backend.play(model, flood(dialect))
    before = scene.gateway.memory()
    with Socket(scene.gateway, buffer=1) as socket:
        socket.create(model=model, input="x", store=False)
        request = scene.backend.wait(model)
        held = settled(request)
        # What the sockets of the system hold, and a little more, but not the whole.
        assert held < 32 * MEBIBYTE
        assert scene.gateway.memory() - before < 32 * MEBIBYTE
        # Whatever is taken makes room for more.
        while request.written < held + MEBIBYTE:
            socket.hear()
        assert not request.played.is_set()
        # To close in peace would mean to take all the rest.
        socket.plug.socket.shutdown(SHUT_RDWR)
    assert request.closed.wait(PATIENCE)


def test_errors_of_one_turn_do_not_concern_another(scene: Scene) -> None:
    gate, model = Gate(), scene.fresh("chat")
    said = frames("chat", Turn("One two three."))
    scene.backend.play(model, stream(*said[:3], gate, *said[3:]))
    with Socket(scene.gateway) as socket:
        socket.create(model=model, input="x", store=False)
        events = [socket.hear()]
        socket.plug.send("no JSON")
        while events[-1]["type"] != "error":
            events.append(socket.hear())
        error = events.pop()
        gate.open()
        assert object_in(error, "error")["code"] == "invalid_value"
        assert judged([*events, *socket.hear_turn()]).output_text == "One two three."
