"""Told to stop, the gateway lets running answers end, but not for ever."""

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
SAID = frames("chat", TURN)


def open_stream(gateway: Gateway, client: str, model: str) -> wire.Streamed:
    return wire.Streamed(gateway.port, f"/v1{PATHS[client]}", asked(client, model, streamed=True))


def wait_until_refused(gateway: Gateway) -> None:
    """Wait until nobody new is let in."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            wire.get(gateway.port, "/health")
        except ConnectionError:
            return
    pytest.fail("it still listens")


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGINT])
def test_running_answers_end(
    word: signal.Signals, backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    streamed, unary, gate = fresh("chat"), fresh("chat"), Gate()
    backend.play(streamed, stream(*SAID[:3], gate, *SAID[3:]))
    backend.play(unary, (gate, *answer(whole("chat", TURN))))
    answers: list[wire.Answer] = []
    with running(
        "[server]\nshutdown_timeout = 60\n" + tables(backend.address), tmp_path
    ) as gateway:
        body = asked("responses", unary, streamed=False)
        asking = threading.Thread(
            target=lambda: answers.append(wire.post(gateway.port, "/v1/responses", body))
        )
        with open_stream(gateway, "responses", streamed) as answered:
            asking.start()
            backend.wait(unary)
            gateway.process.send_signal(word)
            wait_until_refused(gateway)
            gate.open()
            assert judge.judge_responses_stream(answered.read_all()).output_text == TURN.text
        asking.join(PATIENCE)
        assert gateway.wait() == 0
    assert judge.judge_responses_reply(answers[0].body).output_text == TURN.text
    assert "Traceback" not in gateway.log


def test_idle_it_stops_at_once(backend: ScriptedBackend, tmp_path: Path) -> None:
    # Longer than is waited here for its end.
    config = "[server]\nshutdown_timeout = 3600\n" + tables(backend.address)
    with running(config, tmp_path) as gateway:
        assert wire.get(gateway.port, "/health").status == 200
        gateway.terminate()
        assert gateway.wait() == 0


def test_answers_that_take_too_long_are_ended(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model = fresh("chat")
    said: list[Step] = [chunk(frame) for frame in SAID[:3]]
    backend.play_always(model, lambda _: (begun(), *said, Gate()))
    config = "[server]\nshutdown_timeout = 1\n" + tables(backend.address)
    with running(config, tmp_path) as gateway:
        opened = [open_stream(gateway, client, model) for client in DIALECTS]
        gateway.terminate()
        ended = [answered.read_all() for answered in opened]
        for answered in opened:
            answered.close()
        gateway.wait()
    # They are told so in their dialect's way: none of them looks whole.
    for client, body in zip(DIALECTS, ended, strict=True):
        assert b'"error"' in body, client
        assert b"stopping" in body
    assert all(request.closed.wait(PATIENCE) for request in backend.received(model))


def test_a_client_that_does_not_read_is_not_waited_for(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model = fresh("chat")
    # More than all buffers on the way hold.
    much = b"".join(SAID[1:3]) * 3_000
    backend.play(model, stream(*SAID[:2], *([much] * 60)))
    config = "[server]\nshutdown_timeout = 1\n" + tables(backend.address)
    with running(config, tmp_path) as gateway, open_stream(gateway, "chat", model):
        gateway.terminate()
        assert gateway.wait() == 0
    assert "Traceback" not in gateway.log
    assert backend.wait(model).closed.wait(PATIENCE)
