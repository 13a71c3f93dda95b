"""Background responses on several nodes that share a database, some of which die."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.pytest_plugin.scripted_backend import Gate, ScriptedBackend
from tests.gateway import raw_http
from tests.gateway.background.requests import (
    ALONE,
    DELTA,
    QUICK,
    TEXT,
    TURN,
    Node,
    events_of,
    halved,
    judge_stream,
    kinds_of,
    run_nodes,
)
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.rows import execute
from tests.gateway.stores import DATABASES, ON_BOTH_DATABASES
from tests.gateway.waiting import wait_until
from tests.judges.reading import integer_in, object_in, objects_in, text_in

# Only released jobs can be taken over, and running ones may take as long as a test does.
PATIENT = ALONE.replace("shutdown_timeout = 0.2", "shutdown_timeout = 60")
DEAD_NODE = "the node that created this response failed"


@pytest.fixture(scope="module", params=DATABASES)
def pair(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Node, ...]]:
    """Run two gateways on one database."""
    folder = tmp_path_factory.mktemp("pair")
    with run_nodes(backend, folder, QUICK, QUICK, kind=request.param) as nodes:
        yield nodes


def test_response_is_cancelled_on_another_node(pair: tuple[Node, ...]) -> None:
    one, other = pair
    name, model, _ = one.start()
    with other.follow(name) as streamed:
        seen = streamed.read_until(DELTA)
        cancelled = other.cancel(name)
        assert (cancelled.status, cancelled.json()["status"]) == (200, "cancelled")
        judge_stream(seen + streamed.read_all())
    one.assert_closed(model)
    assert one.show(name) == cancelled.json() == one.cancel(name).json()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_are_streamed_on_another_node(dialect: str, pair: tuple[Node, ...]) -> None:
    one, other = pair
    gate = Gate()
    model = one.enqueue(dialect, halved(dialect, gate))
    body = {"model": model, "input": "Count.", "background": True, "stream": True}
    with raw_http.StreamedResponse(one.gateway.port, "/v1/responses", body) as streamed:
        seen = streamed.read_until(DELTA)
    begun = events_of(seen)
    name = text_in(object_in(begun[0], "response"), "id")
    with other.follow(name, len(begun) - 1) as streamed:
        gate.open()
        whole = seen + streamed.read_all()
    assert judge_stream(whole)["status"] == "completed"
    assert one.replay(name) == other.replay(name) == whole
    assert other.sdk.responses.retrieve(name).output_text == TEXT


def test_queued_response_is_cancelled(backend: ScriptedBackend, tmp_path: Path) -> None:
    with run_nodes(backend, tmp_path, ALONE) as (node,):
        node.start()
        model = node.new_model("chat")
        name = node.create(model)
        assert node.show(name)["status"] == "queued"
        assert node.cancel(name).json()["status"] == "cancelled"
        node.last_response(name)
    assert backend.received(model) == []


@ON_BOTH_DATABASES
def test_running_response_of_a_dead_node_fails(
    kind: str, backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_nodes(backend, tmp_path, QUICK, QUICK, kind=kind) as (one, other):
        name, model, _ = one.start()
        with other.follow(name) as streamed:
            seen = streamed.read_until(DELTA)
            one.gateway.process.kill()
            one.expire_leases()
            seen += streamed.read_all()
        assert kinds_of(seen)[-2:] == ["error", "response.failed"]
        failed = judge_stream(seen)
        assert failed == other.wait_for(name, "failed")
        assert failed["error"] == {"code": "server_error", "message": DEAD_NODE}
        # The beginning of the reply is not lost.
        [message] = objects_in(failed, "output")
        assert text_in(objects_in(message, "content")[0], "text") in TEXT
    assert len(backend.received(model)) == 1


def test_lease_of_a_dead_node_expires(backend: ScriptedBackend, tmp_path: Path) -> None:
    short = QUICK.replace("lease_duration = 60", "lease_duration = 5")
    with run_nodes(backend, tmp_path, short, short) as (one, other):
        # Once the request is sent, it ends in the same way whenever the node dies.
        name, model, _ = one.start()
        one.gateway.process.kill()
        error = object_in(other.last_response(name), "error")
        assert DEAD_NODE in text_in(error, "message")
    assert len(backend.received(model)) == 1


@ON_BOTH_DATABASES
def test_queued_responses_of_a_dead_node_are_taken_over(
    kind: str, backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_nodes(backend, tmp_path, ALONE, QUICK, kind=kind) as (one, other):
        begun, _, _ = one.start()
        model, unwanted_model = one.script_always("chat", TURN), one.new_model("chat")
        waiting = [one.create(model) for _ in range(8)]
        unwanted = one.create(unwanted_model)
        assert {text_in(one.show(name), "status") for name in waiting} == {"queued"}
        one.gateway.process.kill()
        with ThreadPoolExecutor(1) as pool:
            cancelling = pool.submit(other.cancel, unwanted)
            # It is cancelled before another node takes it over.
            statement = "SELECT 1 FROM jobs WHERE cancelled = 1"
            wait_until(lambda: execute(one.database, statement) != [])
            one.expire_leases()
            assert cancelling.result().json()["status"] == "cancelled"
        for name in waiting:
            other.assert_completed(name)
            assert other.sdk.responses.retrieve(name).output_text == TEXT
        assert other.wait_for(begun, "failed")
    # Each was sent once, by the node that took it over, with the key of its client.
    keys = [request.headers["authorization"] for request in backend.received(model)]
    assert keys == ["Bearer sk-test"] * len(waiting)
    assert backend.received(unwanted_model) == []


@ON_BOTH_DATABASES
def test_stopping_node_releases_queued_responses(
    kind: str, backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_nodes(backend, tmp_path, PATIENT, PATIENT, kind=kind) as (one, other):
        begun, _, gate = one.start()
        waiting = one.create(one.script_always("chat", TURN))
        one.gateway.terminate()
        other.assert_completed(waiting)
        assert other.show(begun)["status"] == "in_progress"
        gate.open()
        other.assert_completed(begun)
        assert one.gateway.wait() == 0


def test_queued_responses_are_released_while_a_stream_is_open(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_nodes(backend, tmp_path, PATIENT, PATIENT, kind="postgresql") as (one, other):
        begun, _, gate = one.start()
        with one.follow(begun) as streamed:
            seen = streamed.read_until(DELTA)
            waiting = one.create(one.script_always("chat", TURN))
            one.gateway.terminate()
            other.assert_completed(waiting)
            gate.open()
            judge_stream(seen + streamed.read_all())
        assert one.gateway.wait() == 0


def test_stream_on_a_stopping_node_ends_with_an_error(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_nodes(backend, tmp_path, QUICK, QUICK) as (one, other):
        name, _, gate = one.start()
        with other.follow(name) as streamed:
            seen = streamed.read_until(DELTA)
            other.gateway.terminate()
            rest = streamed.read_all()
        seen, last = (seen + rest).rsplit(b"event: error", 1)
        assert b'"code":"stopping"' in last
        # The response continues, and so can a client that followed it.
        [*_, number] = [integer_in(event, "sequence_number") for event in events_of(seen)]
        gate.open()
        judge_stream(seen + one.replay(name, number))
        assert other.gateway.wait() == 0


def test_stopping_node_fails_running_responses(backend: ScriptedBackend, tmp_path: Path) -> None:
    with run_nodes(backend, tmp_path, QUICK, QUICK) as (one, other):
        name, model, _ = one.start()
        one.gateway.terminate()
        error = object_in(other.last_response(name), "error")
        assert "shut down" in text_in(error, "message")
        assert one.gateway.wait() == 0
    other.assert_closed(model)
