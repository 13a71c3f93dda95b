"""A database that is unavailable for a while, and a node that is suspended for too long."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import Gate, ScriptedBackend, json_reply, stream_reply
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, stream_events
from tests.gateway.background.requests import DELTA, QUICK, Node, halved, kinds_of, run_nodes
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.postgres import database_name, server
from tests.gateway.rows import execute
from tests.gateway.stores import ON_BOTH_DATABASES
from tests.gateway.waiting import wait_until
from tests.judges.reading import JsonObject
from tests.judges.sample_streams import responses_events, responses_stream

# A connection that is being accepted has no database yet.
_DISCONNECT = """
    SELECT CASE WHEN datname = '{name}' THEN pg_terminate_backend(pid) END FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND (datname = '{name}' OR datname IS NULL)
"""


@contextmanager
def unavailable(url: str) -> Generator[None]:
    """Refuse connections to a database, and close the existing ones."""
    name = database_name(url)
    allow = f"ALTER DATABASE {name} ALLOW_CONNECTIONS"
    execute(server().get_uri(), f"{allow} false")
    try:
        wait_until(lambda: not execute(server().get_uri(), _DISCONNECT.format(name=name)))
        yield
    finally:
        execute(server().get_uri(), f"{allow} true")


@pytest.fixture(scope="module")
def node(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("outage")
    with run_nodes(backend, folder, QUICK, kind="postgresql", database_fails=True) as (started,):
        yield started


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_that_need_the_database_fail_until_it_is_back(dialect: str, node: Node) -> None:
    sdk, gate = node.sdk, Gate()
    completions: Any = sdk.chat.completions
    model = node.script(dialect, *["Fine."] * 6)
    hello: Any = {"model": model, "input": "Hello."}
    stored: Any = {"model": model, "messages": CHAT_REQUEST["messages"], "store": True}
    first = node.respond(**hello)
    node.backend.enqueue(model, halved(dialect, gate))
    body = {**hello, "stream": True}
    with raw_http.StreamedResponse(node.gateway.port, "/v1/responses", body) as streamed:
        received = streamed.read_until(DELTA)
        with unavailable(node.database):
            gate.open()
            received += streamed.read_all()
            assert kinds_of(received)[-2:] == ["error", "response.failed"]
            assert b'"code":"state_unavailable"' in received
            for request in (
                lambda: node.respond(**hello),
                lambda: node.respond(**hello, background=True),
                lambda: sdk.responses.retrieve(first.id),
                lambda: sdk.responses.delete(first.id),
                sdk.conversations.create,
                completions.list,
                lambda: completions.create(**stored),
            ):
                with pytest.raises(openai.InternalServerError) as error:
                    request()
                assert error.value.status_code == 503
                assert error.value.code == "state_unavailable"
            with pytest.raises(openai.APIError) as stream_error:
                list(completions.create(**stored, stream=True))
            assert stream_error.value.code == "state_unavailable"
            # A request that stores nothing does not need the database.
            assert node.respond(**hello, store=False).output_text
    second = node.respond(model=model, input="So?", previous_response_id=first.id)
    assert sdk.responses.retrieve(second.id).output_text == "Fine."


CALL = {"id": "fc_1", "status": "completed", "call_id": "call_1", "name": "tide", "arguments": "{}"}
REASONING_AND_CALL: list[JsonObject] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA"},
    {"type": "function_call", **CALL},
]
CHAT_REQUEST: JsonObject = {
    "messages": [{"role": "user", "content": "Go."}],
    "tools": [{"type": "function", "function": {"name": "tide", "parameters": {}}}],
}


def test_chat_reply_fails_if_its_reasoning_cannot_be_saved(node: Node) -> None:
    reply = {"id": "resp_1", "object": "response", "status": "completed"}
    script = json_reply(json.dumps({**reply, "output": REASONING_AND_CALL}).encode())
    model = node.enqueue("responses", script)
    with unavailable(node.database):
        received = node.post({"model": model, **CHAT_REQUEST}, "/v1/chat/completions")
    assert (received.status, received.error["code"]) == (503, "state_unavailable")
    lines = [json.loads(line) for line in node.gateway.lines if model in line]
    outcomes = [(it["status"], it["outcome"]) for it in lines if it["event"] == "request"]
    assert outcomes == [(503, "error")]


def test_chat_stream_fails_if_its_reasoning_cannot_be_saved(node: Node) -> None:
    # The backend may refuse the next turn without its reasoning.
    gate = Gate()
    events = [responses_stream([event], end=b"") for event in responses_events(REASONING_AND_CALL)]
    model = node.enqueue("responses", stream_reply(*events[:-2], gate, *events[-2:]))
    body = {"model": model, "stream": True, **CHAT_REQUEST}
    path = "/v1/chat/completions"
    with raw_http.StreamedResponse(node.gateway.port, path, body) as streamed:
        received = streamed.read_until(b"tide")
        with unavailable(node.database):
            gate.open()
            received += streamed.read_all()
    assert b'"code":"state_unavailable"' in received
    assert received.endswith(b"data: [DONE]\n\n")
    logged = '"status":200,"outcome":"error","error_code":"state_unavailable"'
    wait_until(lambda: logged in node.gateway.log)


def test_node_is_not_ready_without_its_database(node: Node) -> None:
    assert raw_http.send(node.gateway, "GET", "/ready").status == 200
    with unavailable(node.database):
        response = raw_http.send(node.gateway, "GET", "/ready")
        assert (response.status, response.json()["status"]) == (503, "not_ready")
        assert response.json()["reasons"] == ["the database is unavailable"]
        assert raw_http.send(node.gateway, "HEAD", "/ready").status == 503
        assert raw_http.send(node.gateway, "GET", "/health").status == 200
    assert raw_http.send(node.gateway, "GET", "/ready").status == 200


def test_background_job_waits_for_the_database(node: Node) -> None:
    name, _, gate = node.start()
    with node.follow(name) as streamed:
        streamed.read_until(DELTA)
        with unavailable(node.database):
            gate.open()
            assert b'"code":"state_unavailable"' in streamed.read_all()
    assert node.last_response(name)["status"] in ("completed", "failed")


def test_background_jobs_survive_an_outage_longer_than_their_lease(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    # The other node would take jobs over only after this test.
    short, long = (QUICK.replace("= 60", f"= {lease}") for lease in (3, 600))
    with run_nodes(backend, tmp_path, short, long, kind="postgresql", database_fails=True) as (
        one,
        other,
    ):
        (finishing, _, finish), (waiting, _, end_wait) = one.start(), one.start()
        for name in (finishing, waiting):
            with one.follow(name) as streamed:
                streamed.read_until(DELTA)
        with unavailable(one.database):
            finish.open()
            wait_until(lambda: "database unavailable" in other.gateway.log)
            # Half a second passes between attempts, so this is longer than the lease.
            retrying = "database unavailable, retrying"
            wait_until(lambda: one.gateway.log.count(retrying) > 8)
        end_wait.open()
        for name in (finishing, waiting):
            other.wait_for(name, "completed")
    assert "taken over" not in one.gateway.log + other.gateway.log


@ON_BOTH_DATABASES
def test_node_suspended_beyond_its_lease_writes_nothing_more(
    kind: str, backend: ScriptedBackend, tmp_path: Path
) -> None:
    with run_nodes(backend, tmp_path, QUICK, QUICK, kind=kind) as (one, other):
        name, _, gate = one.start()
        with other.follow(name) as streamed:
            streamed.read_until(DELTA)
            with one.suspended():
                streamed.read_all()
                failed = other.wait_for(name, "failed")
                events = other.replay(name)
                gate.open()
        # It continues with the rest of the reply, and then with other requests.
        later = one.enqueue("chat", stream_reply(*stream_events("chat", Turn("Awake."))))
        one.wait_for(one.create(later), "completed")
        assert one.replay(name) == events
        assert one.wait_for(name, "failed") == failed
