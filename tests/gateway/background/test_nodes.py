"""Background responses on several nodes that share a database, some of which die."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import reply_script
from tests.gateway.background.requests import (
    ALONE,
    AUTHORIZED,
    QUICK,
    TEXT,
    TURN,
    cancel,
    configured,
    create,
    events_of,
    events_path,
    halved,
    judge_stream,
    kinds_of,
    nodes,
    replay,
    run_out,
    show,
    wait_for,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged, run_gateway
from tests.gateway.postgres import disconnect_all, new_database
from tests.gateway.rows import execute
from tests.gateway.scripted_backend import Gate, ScriptedBackend
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.stores import DATABASES, ON_BOTH_DATABASES, new_url
from tests.gateway.waiting import TIMEOUT_SECONDS, wait_until
from tests.judges.reading import integer_in, object_in, objects_in, text_in

# Only what is given up can be taken over; and what runs may go on for as long as a test does.
PATIENT = ALONE.replace("shutdown_timeout = 0.2", "shutdown_timeout = 60")


@pytest.fixture(scope="module", params=DATABASES)
def pair(
    request: pytest.FixtureRequest,
    backend: ScriptedBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Gateway, ...]]:
    """Run two gateways on one database."""
    folder = tmp_path_factory.mktemp("pair")
    url = new_url(str(request.param), folder)
    with nodes(url, backend, folder, QUICK, QUICK) as started:
        yield started
    for gateway in started:
        assert_no_errors_logged(gateway)


def answers(backend: ScriptedBackend, model: str) -> None:
    """Have every request for a model answered at once."""
    backend.respond_with(model, lambda received: reply_script("chat", TURN, received.json()))


def test_response_is_cancelled_on_another_node(
    pair: tuple[Gateway, ...], backend: ScriptedBackend, new_model: NewModel
) -> None:
    one, other = pair
    model = new_model("chat")
    backend.enqueue(model, halved("chat", Gate()))
    name = text_in(create(one, model), "id")
    with raw_http.StreamedResponse(other.port, events_path(name), None, AUTHORIZED) as streamed:
        seen = streamed.read_until(b"output_text.delta")
        answered = cancel(other, name)
        assert (answered.status, answered.json()["status"]) == (200, "cancelled")
        judge_stream(seen + streamed.read_all())
    assert backend.received(model)[0].closed.wait(TIMEOUT_SECONDS)
    assert show(one, name) == answered.json() == cancel(one, name).json()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_are_streamed_on_another_node(
    dialect: str, pair: tuple[Gateway, ...], backend: ScriptedBackend, new_model: NewModel
) -> None:
    one, other = pair
    model, gate = new_model(dialect), Gate()
    backend.enqueue(model, halved(dialect, gate))
    body = {"model": model, "input": "Count.", "background": True, "stream": True}
    with raw_http.StreamedResponse(one.port, "/v1/responses", body, AUTHORIZED) as streamed:
        seen = streamed.read_until(b"output_text.delta")
    seen = seen[: seen.rindex(b"\n\n") + 2]
    begun = events_of(seen)
    name = text_in(object_in(begun[0], "response"), "id")
    path = events_path(name, len(begun) - 1)
    with raw_http.StreamedResponse(other.port, path, None, AUTHORIZED) as streamed:
        gate.open()
        whole = seen + streamed.read_all()
    assert text_in(judge_stream(whole), "status") == "completed"
    assert replay(one, name) == replay(other, name) == whole
    with sdk_client(other) as sdk:
        assert sdk.responses.retrieve(name).output_text == TEXT


def test_queued_response_is_cancelled(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    busy, model = new_model("chat"), new_model("chat")
    backend.enqueue(busy, halved("chat", Gate()))
    with nodes(new_url("sqlite", tmp_path), backend, tmp_path, ALONE) as (node,):
        create(node, busy)
        backend.wait_for_request(busy)
        name = text_in(create(node, model), "id")
        assert show(node, name)["status"] == "queued"
        assert cancel(node, name).json()["status"] == "cancelled"
        judge_stream(replay(node, name))
    assert backend.received(model) == []


@ON_BOTH_DATABASES
def test_running_response_of_a_dead_node_fails(
    kind: str, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    backend.enqueue(model, halved("chat", Gate()))
    url = new_url(kind, tmp_path)
    with nodes(url, backend, tmp_path, QUICK, QUICK) as (one, other):
        name = text_in(create(one, model), "id")
        with raw_http.StreamedResponse(other.port, events_path(name), None, AUTHORIZED) as streamed:
            seen = streamed.read_until(b"output_text.delta")
            one.process.kill()
            run_out(url)
            seen += streamed.read_all()
        assert kinds_of(seen)[-2:] == ["error", "response.failed"]
        said = judge_stream(seen)
        assert said == wait_for(other, name, "failed")
        assert said["error"] == {
            "code": "server_error",
            "message": "the node that created this response failed",
        }
        # What it had said is not lost.
        [message] = objects_in(said, "output")
        assert text_in(objects_in(message, "content")[0], "text") in TEXT
    assert len(backend.received(model)) == 1


def test_lease_of_a_dead_node_expires(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    backend.enqueue(model, halved("chat", Gate()))
    short = QUICK.replace("lease_duration = 60", "lease_duration = 5")
    url = new_url("sqlite", tmp_path)
    with nodes(url, backend, tmp_path, short, short) as (one, other):
        name = text_in(create(one, model), "id")
        # From here on it ends in the same way whenever that is.
        backend.wait_for_request(model)
        one.process.kill()
        said = judge_stream(replay(other, name))
        assert "the node that created this response failed" in text_in(
            object_in(said, "error"), "message"
        )
    assert len(backend.received(model)) == 1


@ON_BOTH_DATABASES
def test_queued_responses_of_a_dead_node_are_taken_over(
    kind: str, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    busy, model, wanted = new_model("chat"), new_model("chat"), new_model("chat")
    backend.enqueue(busy, halved("chat", Gate()))
    answers(backend, model)
    url = new_url(kind, tmp_path)
    with nodes(url, backend, tmp_path, ALONE, QUICK) as (one, other):
        begun = text_in(create(one, busy), "id")
        backend.wait_for_request(busy)
        waiting = [text_in(create(one, model), "id") for _ in range(8)]
        unwanted = text_in(create(one, wanted), "id")
        assert {text_in(show(one, name), "status") for name in waiting} == {"queued"}
        one.process.kill()
        with ThreadPoolExecutor(1) as pool:
            cancelling = pool.submit(cancel, other, unwanted)
            # Its end is asked for before anybody takes it over.
            wait_until(lambda: execute(url, "SELECT 1 FROM jobs WHERE cancelled = 1") != [])
            run_out(url)
            assert cancelling.result().json()["status"] == "cancelled"
        for name in waiting:
            assert text_in(judge_stream(replay(other, name)), "status") == "completed"
            with sdk_client(other) as sdk:
                assert sdk.responses.retrieve(name).output_text == TEXT
        assert wait_for(other, begun, "failed")
    # Each was asked for once, by the node that did it, and with the key of its client.
    received = backend.received(model)
    assert len(received) == len(waiting)
    assert {request.headers["authorization"] for request in received} == {
        AUTHORIZED["Authorization"]
    }
    assert backend.received(wanted) == []


@ON_BOTH_DATABASES
def test_stopping_node_releases_queued_responses(
    kind: str, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    busy, model, gate = new_model("chat"), new_model("chat"), Gate()
    backend.enqueue(busy, halved("chat", gate))
    answers(backend, model)
    with nodes(new_url(kind, tmp_path), backend, tmp_path, PATIENT, PATIENT) as (one, other):
        begun = text_in(create(one, busy), "id")
        backend.wait_for_request(busy)
        waiting = text_in(create(one, model), "id")
        one.terminate()
        assert text_in(judge_stream(replay(other, waiting)), "status") == "completed"
        assert show(other, begun)["status"] == "in_progress"
        gate.open()
        assert text_in(judge_stream(replay(other, begun)), "status") == "completed"
        assert one.wait() == 0
        assert "Traceback" not in one.log, one.log


def test_queued_responses_are_released_while_a_stream_is_open(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    busy, model, gate = new_model("chat"), new_model("chat"), Gate()
    backend.enqueue(busy, halved("chat", gate))
    answers(backend, model)
    with nodes(new_database(), backend, tmp_path, PATIENT, PATIENT) as (one, other):
        begun = text_in(create(one, busy), "id")
        with raw_http.StreamedResponse(one.port, events_path(begun), None, AUTHORIZED) as streamed:
            seen = streamed.read_until(b"output_text.delta")
            waiting = text_in(create(one, model), "id")
            one.terminate()
            assert text_in(judge_stream(replay(other, waiting)), "status") == "completed"
            gate.open()
            judge_stream(seen + streamed.read_all())
        assert one.wait() == 0
        assert "Traceback" not in one.log, one.log


def test_stream_on_a_stopping_node_ends_with_an_error(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(model, halved("chat", gate))
    with nodes(new_url("sqlite", tmp_path), backend, tmp_path, QUICK, QUICK) as (one, other):
        name = text_in(create(one, model), "id")
        with raw_http.StreamedResponse(other.port, events_path(name), None, AUTHORIZED) as streamed:
            seen = streamed.read_until(b"output_text.delta")
            other.terminate()
            rest = streamed.read_all()
        seen, last = (seen + rest).rsplit(b"event: error", 1)
        assert b'"code":"stopping"' in last
        # The work goes on, and so can whoever followed it.
        [*_, number] = [integer_in(event, "sequence_number") for event in events_of(seen)]
        gate.open()
        judge_stream(seen + replay(one, name, number))
        assert other.wait() == 0
        assert "Traceback" not in other.log, other.log


def test_response_survives_lost_database_connections(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(model, halved("chat", gate))
    url = new_database()
    with run_gateway(configured(backend, url), tmp_path) as node:
        name = text_in(create(node, model), "id")
        with raw_http.StreamedResponse(node.port, events_path(name), None, AUTHORIZED) as streamed:
            streamed.read_until(b"output_text.delta")
        asyncio.run(disconnect_all(url))
        gate.open()
        assert text_in(judge_stream(replay(node, name)), "status") == "completed"


def test_stopping_node_fails_running_responses(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model = new_model("chat")
    backend.enqueue(model, halved("chat", Gate()))
    with nodes(new_url("sqlite", tmp_path), backend, tmp_path, QUICK, QUICK) as (one, other):
        name = text_in(create(one, model), "id")
        backend.wait_for_request(model)
        one.terminate()
        said = judge_stream(replay(other, name))
        assert "shut down" in text_in(object_in(said, "error"), "message")
        assert one.wait() == 0
        assert "Traceback" not in one.log, one.log
    assert backend.received(model)[0].closed.wait(TIMEOUT_SECONDS)
