"""On shutdown, running replies may end within the timeout."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gateway.pytest_plugin.scripted_backend import (
    Gate,
    ScriptedBackend,
    Step,
    chunk,
    json_reply,
    stream_head,
    stream_reply,
)
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, backend_tables
from tests.gateway.gateway_process import Gateway
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges import sdk as judge

TURN = Turn("One two three four five six.")
EVENTS = stream_events("chat", TURN)
Run = Callable[[int], AbstractContextManager[Harness]]


@pytest.fixture
def run(backend: ScriptedBackend, tmp_path: Path) -> Run:
    """Return a function that runs a gateway with a shutdown timeout in seconds."""
    tables = backend_tables(backend.address)

    def run_with_timeout(seconds: int) -> AbstractContextManager[Harness]:
        config = f"[server]\nshutdown_timeout = {seconds}\n{tables}"
        return run_harness(backend, config, tmp_path)

    return run_with_timeout


def wait_until_refused(gateway: Gateway) -> None:
    """Wait until new connections are refused.

    No request is sent, because the gateway would have to finish it before it stops.
    """

    def is_refused() -> bool:
        try:
            raw_http.connect(gateway.port).close()
        except ConnectionError:
            return True
        return False

    wait_until(is_refused)


@pytest.mark.parametrize("shutdown_signal", [signal.SIGTERM, signal.SIGINT])
def test_running_replies_end(shutdown_signal: signal.Signals, run: Run) -> None:
    gate = Gate()
    with run(60) as harness, ThreadPoolExecutor(1) as pool:
        streamed = harness.enqueue("chat", stream_reply(*EVENTS[:3], gate, *EVENTS[3:]))
        unary = harness.enqueue("chat", (gate, *json_reply(reply_body("chat", TURN))))
        with harness.stream("responses", streamed) as reply:
            whole = pool.submit(harness.request, "responses", unary)
            harness.backend.wait_for_request(unary)
            harness.gateway.process.send_signal(shutdown_signal)
            wait_until_refused(harness.gateway)
            gate.open()
            assert judge.judge_responses_stream(reply.read_all()).output_text == TURN.text
        body = whole.result(TIMEOUT_SECONDS).body
        assert judge.judge_responses_reply(body).output_text == TURN.text
        assert harness.gateway.wait() == 0


def test_idle_gateway_stops_at_once(run: Run) -> None:
    # The timeout is longer than the test waits.
    with run(3600) as harness:
        assert raw_http.get(harness.gateway.port, "/health").status == 200
        assert "backend chat: chat at http://127.0.0.1:" in harness.gateway.log
        harness.gateway.terminate()
        assert harness.gateway.wait() == 0


def test_replies_end_with_an_error_after_the_timeout(run: Run) -> None:
    start: list[Step] = [chunk(event) for event in EVENTS[:3]]
    with run(1) as harness:
        model = harness.enqueue("chat", *[(stream_head(), *start, Gate())] * len(DIALECTS))
        replies = [harness.stream(client, model) for client in DIALECTS]
        harness.gateway.terminate()
        bodies = [reply.read_all() for reply in replies]
        for reply in replies:
            reply.close()
        harness.gateway.wait()
    # No reply looks complete to its client.
    for client, body in zip(DIALECTS, bodies, strict=True):
        assert b'"error"' in body, client
        assert b"stopping" in body
    received = harness.backend.received(model)
    assert all(request.closed.wait(TIMEOUT_SECONDS) for request in received)


def test_client_that_does_not_read_does_not_delay_the_shutdown(run: Run) -> None:
    # More than all buffers between backend and client hold.
    many_events = b"".join(EVENTS[1:3]) * 3_000
    with run(1) as harness:
        model = harness.enqueue("chat", stream_reply(*EVENTS[:2], *([many_events] * 60)))
        with harness.stream("chat", model):
            harness.gateway.terminate()
            assert harness.gateway.wait() == 0
    assert harness.backend.wait_for_request(model).closed.wait(TIMEOUT_SECONDS)
