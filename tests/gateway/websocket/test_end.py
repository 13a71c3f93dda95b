"""How connections end: the service stops, or they are too old."""

from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import backend_tables
from tests.gateway.gateway_process import assert_no_errors_logged, run_gateway
from tests.gateway.scripted_backend import (
    Gate,
    ScriptedBackend,
    Step,
    chunk,
    stream_head,
    stream_reply,
)
from tests.gateway.server.test_shutdown import wait_until_refused
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.gateway.websocket_client import WebSocketClient, validate_error, validate_turn

TURN = Turn("One two three four five six.")
SAID = stream_events("chat", TURN)


def close_code(socket: WebSocketClient) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        socket.receive()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_shutdown_waits_for_running_turns_and_closes_idle_connections(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(model, stream_reply(*SAID[:3], gate, *SAID[3:]))
    with run_gateway(
        "[server]\nshutdown_timeout = 60\n" + backend_tables(backend.address), tmp_path
    ) as gateway:
        with WebSocketClient(gateway) as idle, WebSocketClient(gateway) as busy:
            busy.create(model=model, input="x", store=False)
            busy.create(model=model, input="waits", store=False)
            backend.wait_for_request(model)
            events = [busy.receive()]
            gateway.terminate()
            assert close_code(idle) == 1012
            wait_until_refused(gateway)
            # What has not begun does not begin any more.
            while events[-1]["type"] != "error":
                events.append(busy.receive())
            assert validate_error(events.pop())["code"] == "stopping"
            error = busy.create_turn(model=model, input="late", store=False)[-1]
            assert validate_error(error)["code"] == "stopping"
            gate.open()
            assert validate_turn([*events, *busy.receive_turn()]).output_text == TURN.text
            assert close_code(busy) == 1012
        assert gateway.wait() == 0
    assert len(backend.received(model)) == 1
    assert_no_errors_logged(gateway)


def test_shutdown_ends_turns_that_take_too_long(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    said: list[Step] = [chunk(frame) for frame in SAID[:3]]
    backend.enqueue(model, (stream_head(), *said, Gate()))
    with run_gateway(
        "[server]\nshutdown_timeout = 1\n" + backend_tables(backend.address), tmp_path
    ) as gateway:
        with WebSocketClient(gateway) as socket:
            socket.create(model=model, input="x", store=False)
            request = backend.wait_for_request(model)
            events = [socket.receive()]
            gateway.terminate()
            events += socket.receive_turn()
            assert "stopping" in str(events[-1]["error"])
            assert validate_turn([*events, *socket.receive_turn()]).status == "failed"
            assert close_code(socket) == 1012
        gateway.wait()
    assert request.closed.wait(TIMEOUT_SECONDS)
    assert_no_errors_logged(gateway)


def test_old_connection_is_closed_after_its_running_turn(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(model, stream_reply(*SAID[:3], gate, *SAID[3:]))
    # Long enough for the busy one to have begun.
    lifetime = "[server]\nwebsocket_max_lifetime = 8\n"
    with (
        run_gateway(lifetime + backend_tables(backend.address), tmp_path) as gateway,
        WebSocketClient(gateway) as idle,
        WebSocketClient(gateway) as busy,
    ):
        busy.create(model=model, input="x", store=False)
        busy.create(model=model, input="waits", store=False)
        error = validate_error(idle.receive())
        assert (error["code"], error["status"]) == ("websocket_connection_limit_reached", 400)
        assert close_code(idle) == 1001
        events = busy.receive_turn()
        code = validate_error(events.pop())["code"]
        assert code == "websocket_connection_limit_reached"
        gate.open()
        assert validate_turn([*events, *busy.receive_turn()]).output_text == TURN.text
        code = validate_error(busy.receive())["code"]
        assert code == "websocket_connection_limit_reached"
        assert close_code(busy) == 1001
    assert len(backend.received(model)) == 1
    assert_no_errors_logged(gateway)
