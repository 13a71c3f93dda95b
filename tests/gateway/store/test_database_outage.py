"""A database that is unavailable for a while, and a node that is suspended for too long."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, script_turns, stream_events
from tests.gateway.background.requests import (
    AUTHORIZED,
    QUICK,
    asleep,
    configured,
    create,
    events_path,
    halved,
    judge_stream,
    kinds_of,
    nodes,
    replay,
    wait_for,
)
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged, run_gateway
from tests.gateway.postgres import server
from tests.gateway.raw_http import send
from tests.gateway.rows import execute
from tests.gateway.scripted_backend import Gate, ScriptedBackend, json_reply, stream_reply
from tests.gateway.sdk_clients import sdk_client
from tests.gateway.stores import ON_BOTH_DATABASES, new_url
from tests.gateway.waiting import wait_until
from tests.judges.reading import JsonObject, text_in
from tests.judges.sample_streams import responses_events, responses_stream

# In a stream of each dialect once it has started.
STARTED = b"output_text.delta"


# A connection that is being accepted has no database yet.
_DISCONNECT = """
    SELECT CASE WHEN datname = '{name}' THEN pg_terminate_backend(pid) END FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND (datname = '{name}' OR datname IS NULL)
"""


@contextmanager
def unavailable(url: str) -> Generator[None]:
    """Refuse connections to a database, and close the existing ones."""
    name = url.partition("?")[0].rpartition("/")[2]
    allow = f"ALTER DATABASE {name} ALLOW_CONNECTIONS"
    execute(server().get_uri(), f"{allow} false")
    try:
        wait_until(lambda: not execute(server().get_uri(), _DISCONNECT.format(name=name)))
        yield
    finally:
        execute(server().get_uri(), f"{allow} true")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_url("postgresql", tmp_path_factory.mktemp("unused"))


@pytest.fixture(scope="module")
def node(
    url: str, backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("outage")
    with run_gateway(configured(backend, url), folder) as gateway:
        yield gateway
    assert "a fault" not in gateway.log, gateway.log


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_that_need_the_database_fail_until_it_is_back(
    dialect: str, node: Gateway, url: str, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model(dialect), Gate()
    with sdk_client(node) as client:
        script_turns(backend, dialect, model, *[Turn("Fine.")] * 4)
        first = client.responses.create(model=model, input="Hello.")
        backend.enqueue(model, halved(dialect, gate))
        body: dict[str, Any] = {"model": model, "input": "Count.", "stream": True}
        with raw_http.StreamedResponse(node.port, "/v1/responses", body, AUTHORIZED) as streamed:
            received = streamed.read_until(STARTED)
            with unavailable(url):
                gate.open()
                received += streamed.read_all()
                assert kinds_of(received)[-2:] == ["error", "response.failed"]
                assert b'"code":"state_unavailable"' in received
                for request in (
                    lambda: client.responses.create(model=model, input="Hello."),
                    lambda: client.responses.create(model=model, input="Hello.", background=True),
                    lambda: client.responses.retrieve(first.id),
                    lambda: client.responses.delete(first.id),
                    client.conversations.create,
                    client.chat.completions.list,
                ):
                    with pytest.raises(openai.InternalServerError) as error:
                        request()
                    assert error.value.status_code == 503
                    assert error.value.code == "state_unavailable"
                # A request that stores nothing does not need the database.
                assert client.responses.create(model=model, input="Hello.", store=False).output_text
        second = client.responses.create(model=model, input="So?", previous_response_id=first.id)
        assert client.responses.retrieve(second.id).output_text == "Fine."


REASONING_AND_CALL: list[JsonObject] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA"},
    {
        "type": "function_call",
        "id": "fc_1",
        "status": "completed",
        "call_id": "call_1",
        "name": "tide",
        "arguments": "{}",
    },
]


def chat_request(model: str) -> JsonObject:
    return {
        "model": model,
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "function", "function": {"name": "tide", "parameters": {}}}],
    }


def test_chat_reply_fails_if_its_reasoning_cannot_be_saved(
    node: Gateway, url: str, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("responses")
    reply = {"id": "resp_1", "object": "response", "status": "completed"}
    backend.enqueue(model, json_reply(json.dumps({**reply, "output": REASONING_AND_CALL}).encode()))
    body = json.dumps(chat_request(model)).encode()
    with unavailable(url):
        received = send(node, "POST", "/v1/chat/completions", body, AUTHORIZED)
    assert (received.status, received.error["code"]) == (503, "state_unavailable")
    lines = [json.loads(line) for line in node.log.splitlines() if model in line]
    assert [(one["status"], one["outcome"]) for one in lines if one["event"] == "request"] == [
        (503, "error")
    ]


def test_chat_stream_fails_if_its_reasoning_cannot_be_saved(
    node: Gateway, url: str, backend: ScriptedBackend, new_model: NewModel
) -> None:
    # The backend may refuse the next turn without its reasoning.
    model, gate = new_model("responses"), Gate()
    events = [responses_stream([event], end=b"") for event in responses_events(REASONING_AND_CALL)]
    backend.enqueue(model, stream_reply(*events[:-2], gate, *events[-2:]))
    body = chat_request(model) | {"stream": True}
    with raw_http.StreamedResponse(node.port, "/v1/chat/completions", body, AUTHORIZED) as streamed:
        received = streamed.read_until(b"tide")
        with unavailable(url):
            gate.open()
            received += streamed.read_all()
    assert b'"code":"state_unavailable"' in received
    assert received.endswith(b"data: [DONE]\n\n")
    wait_until(
        lambda: '"status":200,"outcome":"error","error_code":"state_unavailable"' in node.log
    )


def test_background_job_waits_for_the_database(
    node: Gateway, url: str, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(model, halved("chat", gate))
    name = text_in(create(node, model), "id")
    with raw_http.StreamedResponse(node.port, events_path(name), None, AUTHORIZED) as streamed:
        streamed.read_until(STARTED)
        with unavailable(url):
            gate.open()
            assert b'"code":"state_unavailable"' in streamed.read_all()
    assert text_in(judge_stream(replay(node, name)), "status") in ("completed", "failed")


def test_background_jobs_survive_an_outage_longer_than_their_lease(
    backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    url = new_url("postgresql", tmp_path)
    # The other node would take jobs over only after this test.
    long, short = (
        QUICK.replace("lease_duration = 60", f"lease_duration = {lease}") for lease in (600, 3)
    )
    finishing, waiting = new_model("chat"), new_model("chat")
    gates = {model: Gate() for model in (finishing, waiting)}
    with (
        run_gateway(configured(backend, url, long), new_folder(tmp_path, "other")) as other,
        run_gateway(configured(backend, url, short), new_folder(tmp_path, "one")) as one,
    ):
        response_ids: dict[str, str] = {}
        for model, gate in gates.items():
            backend.enqueue(model, halved("chat", gate))
            response_ids[model] = text_in(create(one, model), "id")
            with raw_http.StreamedResponse(
                one.port, events_path(response_ids[model]), None, AUTHORIZED
            ) as streamed:
                streamed.read_until(STARTED)
        with unavailable(url):
            gates[finishing].open()
            wait_until(lambda: "database unavailable" in other.log)
            # Half a second passes between attempts, so this is longer than the lease.
            wait_until(lambda: one.log.count("database unavailable, retrying") > 8)
        gates[waiting].open()
        for name in response_ids.values():
            wait_for(other, name, "completed")
    assert "taken over" not in one.log + other.log


def new_folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@ON_BOTH_DATABASES
def test_node_suspended_beyond_its_lease_writes_nothing_more(
    kind: str, backend: ScriptedBackend, new_model: NewModel, tmp_path: Path
) -> None:
    model, gate = new_model("chat"), Gate()
    backend.enqueue(model, halved("chat", gate))
    url = new_url(kind, tmp_path)
    with nodes(url, backend, tmp_path, QUICK, QUICK) as (one, other):
        name = text_in(create(one, model), "id")
        with raw_http.StreamedResponse(other.port, events_path(name), None, AUTHORIZED) as streamed:
            streamed.read_until(STARTED)
            with asleep(one, url):
                streamed.read_all()
                failed = wait_for(other, name, "failed")
                events = replay(other, name)
                gate.open()
        # It continues with the rest of the reply, and then with other requests.
        later = new_model("chat")
        backend.enqueue(later, stream_reply(*stream_events("chat", Turn("Awake."))))
        wait_for(one, text_in(create(one, later), "id"), "completed")
        assert replay(one, name) == events
        assert wait_for(one, name, "failed") == failed
        assert_no_errors_logged(one)
