"""On shutdown, running replies may end within the timeout."""

import signal
import threading
import time
from pathlib import Path

import pytest

from tests.gateway import wire
from tests.gateway.asked import PATHS
from tests.gateway.conftest import DIALECTS, Fresh, tables
from tests.gateway.http.test_disconnect import asked
from tests.gateway.process import Gateway, running
from tests.gateway.scripted import (
    PATIENCE,
    Gate,
    ScriptedBackend,
    Step,
    answer,
    begun,
    chunk,
    stream,
)
from tests.gateway.speech import Turn, frames, whole
from tests.judges import sdk as judge

TURN = Turn("One two three four five six.")
FRAMES = frames("chat", TURN)


def open_stream(gateway: Gateway, client: str, model: str) -> wire.Streamed:
    return wire.Streamed(gateway.port, f"/v1{PATHS[client]}", asked(client, model, streamed=True))


def wait_until_refused(gateway: Gateway) -> None:
    """Wait until new connections are refused."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            wire.get(gateway.port, "/health")
        except ConnectionError:
            return
    pytest.fail("the gateway still listens")


@pytest.mark.parametrize("shutdown_signal", [signal.SIGTERM, signal.SIGINT])
def test_running_replies_end(
    shutdown_signal: signal.Signals, backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    streamed, unary, gate = fresh("chat"), fresh("chat"), Gate()
    backend.play(streamed, stream(*FRAMES[:3], gate, *FRAMES[3:]))
    backend.play(unary, (gate, *answer(whole("chat", TURN))))
    replies: list[wire.Answer] = []
    with running(
        "[server]\nshutdown_timeout = 60\n" + tables(backend.address), tmp_path
    ) as gateway:
        body = asked("responses", unary, streamed=False)
        thread = threading.Thread(
            target=lambda: replies.append(wire.post(gateway.port, "/v1/responses", body))
        )
        with open_stream(gateway, "responses", streamed) as reply:
            thread.start()
            backend.wait(unary)
            gateway.process.send_signal(shutdown_signal)
            wait_until_refused(gateway)
            gate.open()
            assert judge.judge_responses_stream(reply.read_all()).output_text == TURN.text
        thread.join(PATIENCE)
        assert gateway.wait() == 0
    assert judge.judge_responses_reply(replies[0].body).output_text == TURN.text
    assert "Traceback" not in gateway.log


def test_idle_gateway_stops_at_once(backend: ScriptedBackend, tmp_path: Path) -> None:
    # Longer than the test waits.
    config = "[server]\nshutdown_timeout = 3600\n" + tables(backend.address)
    with running(config, tmp_path) as gateway:
        assert wire.get(gateway.port, "/health").status == 200
        gateway.terminate()
        assert gateway.wait() == 0


def test_replies_end_with_an_error_after_the_timeout(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model = fresh("chat")
    start: list[Step] = [chunk(frame) for frame in FRAMES[:3]]
    backend.play_always(model, lambda _: (begun(), *start, Gate()))
    config = "[server]\nshutdown_timeout = 1\n" + tables(backend.address)
    with running(config, tmp_path) as gateway:
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
    assert all(request.closed.wait(PATIENCE) for request in backend.received(model))


def test_client_that_does_not_read_does_not_delay_the_shutdown(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model = fresh("chat")
    # More than all buffers between backend and client hold.
    chunk_of_frames = b"".join(FRAMES[1:3]) * 3_000
    backend.play(model, stream(*FRAMES[:2], *([chunk_of_frames] * 60)))
    config = "[server]\nshutdown_timeout = 1\n" + tables(backend.address)
    with running(config, tmp_path) as gateway, open_stream(gateway, "chat", model):
        gateway.terminate()
        assert gateway.wait() == 0
    assert "Traceback" not in gateway.log
    assert backend.wait(model).closed.wait(PATIENCE)
