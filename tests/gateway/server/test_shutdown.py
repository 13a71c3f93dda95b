"""On shutdown, running replies may end within the timeout."""

import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_tables
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.http.test_disconnect import asked
from tests.gateway.scripted_backend import (
    Gate,
    ScriptedBackend,
    Step,
    chunk,
    json_reply,
    stream_head,
    stream_reply,
)
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges import sdk as judge

TURN = Turn("One two three four five six.")
FRAMES = stream_events("chat", TURN)


def open_stream(gateway: Gateway, client: str, model: str) -> raw_http.StreamedResponse:
    return raw_http.StreamedResponse(
        gateway.port, f"/v1{ENDPOINT_PATHS[client]}", asked(client, model, streamed=True)
    )


def wait_until_refused(gateway: Gateway) -> None:
    """Wait until new connections are refused.

    No request is sent, because the gateway would have to finish it before it stops.
    """
    wait_until(lambda: _is_refused(gateway.port))


def _is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS).close()
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize("shutdown_signal", [signal.SIGTERM, signal.SIGINT])
def test_running_replies_end(
    shutdown_signal: signal.Signals, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    streamed, unary, gate = new_model("chat"), new_model("chat"), Gate()
    backend.enqueue(streamed, stream_reply(*FRAMES[:3], gate, *FRAMES[3:]))
    backend.enqueue(unary, (gate, *json_reply(reply_body("chat", TURN))))
    replies: list[raw_http.RawResponse] = []
    with run_gateway(
        "[server]\nshutdown_timeout = 60\n" + backend_tables(backend.address), tmp_path
    ) as gateway:
        body = asked("responses", unary, streamed=False)
        thread = threading.Thread(
            target=lambda: replies.append(raw_http.post(gateway.port, "/v1/responses", body))
        )
        with open_stream(gateway, "responses", streamed) as reply:
            thread.start()
            backend.wait_for_request(unary)
            gateway.process.send_signal(shutdown_signal)
            wait_until_refused(gateway)
            gate.open()
            assert judge.judge_responses_stream(reply.read_all()).output_text == TURN.text
        thread.join(TIMEOUT_SECONDS)
        assert gateway.wait() == 0
    assert judge.judge_responses_reply(replies[0].body).output_text == TURN.text
    assert "Traceback" not in gateway.log


def test_idle_gateway_stops_at_once(backend: ScriptedBackend, tmp_path: Path) -> None:
    # Longer than the test waits.
    config = "[server]\nshutdown_timeout = 3600\n" + backend_tables(backend.address)
    with run_gateway(config, tmp_path) as gateway:
        assert raw_http.get(gateway.port, "/health").status == 200
        gateway.terminate()
        assert gateway.wait() == 0


def test_replies_end_with_an_error_after_the_timeout(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    start: list[Step] = [chunk(frame) for frame in FRAMES[:3]]
    backend.respond_with(model, lambda _: (stream_head(), *start, Gate()))
    config = "[server]\nshutdown_timeout = 1\n" + backend_tables(backend.address)
    with run_gateway(config, tmp_path) as gateway:
        replies = [open_stream(gateway, client, model) for client in DIALECTS]
        gateway.terminate()
        bodies = [reply.read_all() for reply in replies]
        for reply in replies:
            reply.close()
        gateway.wait()
    # No reply looks complete to its client.
    for client, body in zip(DIALECTS, bodies, strict=True):
        assert b'"error"' in body, client
        assert b"stopping" in body
    assert all(request.closed.wait(TIMEOUT_SECONDS) for request in backend.received(model))


def test_client_that_does_not_read_does_not_delay_the_shutdown(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    # More than all buffers between backend and client hold.
    chunk_of_frames = b"".join(FRAMES[1:3]) * 3_000
    backend.enqueue(model, stream_reply(*FRAMES[:2], *([chunk_of_frames] * 60)))
    config = "[server]\nshutdown_timeout = 1\n" + backend_tables(backend.address)
    with run_gateway(config, tmp_path) as gateway, open_stream(gateway, "chat", model):
        gateway.terminate()
        assert gateway.wait() == 0
    assert "Traceback" not in gateway.log
    assert backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS)
