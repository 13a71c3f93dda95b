"""Sockets that come to their end: the service stops, or they are old."""

from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.gateway.conftest import Fresh, assert_no_fault, tables
from tests.gateway.process import running
from tests.gateway.scripted import PATIENCE, Gate, ScriptedBackend, Step, begun, chunk, stream
from tests.gateway.server.test_shutdown import wait_until_refused
from tests.gateway.sockets import Socket, judged, judged_error
from tests.gateway.speech import Turn, frames

TURN = Turn("One two three four five six.")
SAID = frames("chat", TURN)


def close_code(socket: Socket) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        socket.hear()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_running_answers_end_and_idle_sockets_are_closed(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model, gate = fresh("chat"), Gate()
    backend.play(model, stream(*SAID[:3], gate, *SAID[3:]))
    with running(
        "[server]\nshutdown_timeout = 60\n" + tables(backend.address), tmp_path
    ) as gateway:
        with Socket(gateway) as idle, Socket(gateway) as busy:
            busy.create(model=model, input="x", store=False)
            busy.create(model=model, input="waits", store=False)
            backend.wait(model)
            events = [busy.hear()]
            gateway.terminate()
            assert close_code(idle) == 1012
            wait_until_refused(gateway)
            # What has not begun does not begin any more.
            while events[-1]["type"] != "error":
                events.append(busy.hear())
            assert judged_error(events.pop())["code"] == "stopping"
            error = busy.turn(model=model, input="late", store=False)[-1]
            assert judged_error(error)["code"] == "stopping"
            gate.open()
            assert judged([*events, *busy.hear_turn()]).output_text == TURN.text
            assert close_code(busy) == 1012
        assert gateway.wait() == 0
    assert len(backend.received(model)) == 1
    assert_no_fault(gateway)


def test_answers_that_take_too_long_are_ended(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model = fresh("chat")
    said: list[Step] = [chunk(frame) for frame in SAID[:3]]
    backend.play(model, (begun(), *said, Gate()))
    with running("[server]\nshutdown_timeout = 1\n" + tables(backend.address), tmp_path) as gateway:
        with Socket(gateway) as socket:
            socket.create(model=model, input="x", store=False)
            request = backend.wait(model)
            events = [socket.hear()]
            gateway.terminate()
            events += socket.hear_turn()
            assert "stopping" in str(events[-1]["error"])
            assert judged([*events, *socket.hear_turn()]).status == "failed"
            assert close_code(socket) == 1012
        gateway.wait()
    assert request.closed.wait(PATIENCE)
    assert_no_fault(gateway)


def test_a_socket_that_is_old_is_closed_but_not_in_the_middle(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model, gate = fresh("chat"), Gate()
    backend.play(model, stream(*SAID[:3], gate, *SAID[3:]))
    # Long enough for the busy one to have begun.
    lifetime = "[server]\nwebsocket_max_lifetime = 8\n"
    with (
        running(lifetime + tables(backend.address), tmp_path) as gateway,
        Socket(gateway) as idle,
        Socket(gateway) as busy,
    ):
        busy.create(model=model, input="x", store=False)
        busy.create(model=model, input="waits", store=False)
        error = judged_error(idle.hear())
        assert (error["code"], error["status"]) == ("websocket_connection_limit_reached", 400)
        assert close_code(idle) == 1001
        events = busy.hear_turn()
        code = judged_error(events.pop())["code"]
        assert code == "websocket_connection_limit_reached"
        gate.open()
        assert judged([*events, *busy.hear_turn()]).output_text == TURN.text
        code = judged_error(busy.hear())["code"]
        assert code == "websocket_connection_limit_reached"
        assert close_code(busy) == 1001
    assert len(backend.received(model)) == 1
    assert_no_fault(gateway)
