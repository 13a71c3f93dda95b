"""A database that is away for a while, and a node that sleeps for too long."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway import wire
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
from tests.gateway.calling import post
from tests.gateway.conftest import DIALECTS, Fresh, assert_no_fault
from tests.gateway.keeping import client_of, says, until
from tests.gateway.postgres import server
from tests.gateway.process import Gateway, running
from tests.gateway.rows import execute
from tests.gateway.scripted import Gate, ScriptedBackend, answer, stream
from tests.gateway.speech import Turn, frames
from tests.gateway.stores import ON_BOTH_DATABASES, new_url
from tests.judges.reading import JsonObject, text_in
from tests.judges.sample_streams import responses_events, responses_stream

# So much of a stream of each dialect says that it has begun.
BEGUN = b"output_text.delta"


@contextmanager
def away(url: str) -> Generator[None]:
    """Let nobody connect to a database, and cut off who is."""
    name = url.partition("?")[0].rpartition("/")[2]
    _refuse(name, connections=False)
    try:
        _cut(name)
        yield
    finally:
        _refuse(name, connections=True)


def _refuse(name: str, *, connections: bool) -> None:
    execute(server().get_uri(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS {connections}")


# Who is still being let in is connected to no database yet.
_CUT = """
    SELECT CASE WHEN datname = '{name}' THEN pg_terminate_backend(pid) END FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND (datname = '{name}' OR datname IS NULL)
"""


def _cut(name: str) -> None:
    """Cut off all who are connected, and wait until they are."""
    until(lambda: not execute(server().get_uri(), _CUT.format(name=name)))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_url("postgresql", tmp_path_factory.mktemp("unused"))


@pytest.fixture(scope="module")
def node(
    url: str, backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("away")
    with running(configured(backend, url), folder) as gateway:
        yield gateway
    assert "a fault" not in gateway.log, gateway.log


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_cannot_be_kept_ends_as_failed_and_all_is_well_again(
    dialect: str, node: Gateway, url: str, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model, gate = fresh(dialect), Gate()
    with client_of(node) as client:
        says(backend, dialect, model, *[Turn("Fine.")] * 4)
        first = client.responses.create(model=model, input="Hello.")
        backend.play(model, halved(dialect, gate))
        asked: dict[str, Any] = {"model": model, "input": "Count.", "stream": True}
        with wire.Streamed(node.port, "/v1/responses", asked, AUTHORIZED) as streamed:
            seen = streamed.read_until(BEGUN)
            with away(url):
                gate.open()
                seen += streamed.read_all()
                assert kinds_of(seen)[-2:] == ["error", "response.failed"]
                assert b'"code":"state_unavailable"' in seen
                for ask in (
                    lambda: client.responses.create(model=model, input="Hello."),
                    lambda: client.responses.create(model=model, input="Hello.", background=True),
                    lambda: client.responses.retrieve(first.id),
                    lambda: client.responses.delete(first.id),
                    client.conversations.create,
                    client.chat.completions.list,
                ):
                    with pytest.raises(openai.InternalServerError) as refused:
                        ask()
                    assert refused.value.status_code == 503
                    assert refused.value.code == "state_unavailable"
                # Who asks nothing of the memory does not notice.
                assert client.responses.create(model=model, input="Hello.", store=False).output_text
        again = client.responses.create(model=model, input="So?", previous_response_id=first.id)
        assert client.responses.retrieve(again.id).output_text == "Fine."


SEALED: list[JsonObject] = [
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


def going(model: str) -> JsonObject:
    return {
        "model": model,
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"type": "function", "function": {"name": "tide", "parameters": {}}}],
    }


def test_a_whole_answer_of_which_nobody_can_keep_what_a_chat_client_cannot_carry(
    node: Gateway, url: str, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("responses")
    said = {"id": "resp_1", "object": "response", "status": "completed", "output": SEALED}
    backend.play(model, answer(json.dumps(said).encode()))
    with away(url):
        told = post(node, "/v1/chat/completions", json.dumps(going(model)).encode(), AUTHORIZED)
    assert (told.status, told.error["code"]) == (503, "state_unavailable")
    lines = [json.loads(line) for line in node.log.splitlines() if model in line]
    assert [(one["status"], one["outcome"]) for one in lines if one["event"] == "request"] == [
        (503, "error")
    ]


def test_what_a_chat_client_cannot_carry_and_nobody_can_keep(
    node: Gateway, url: str, backend: ScriptedBackend, fresh: Fresh
) -> None:
    # What a backend has sealed for a later turn is kept by us: that turn may fail without it.
    model, gate = fresh("responses"), Gate()
    said = [responses_stream([event], end=b"") for event in responses_events(SEALED)]
    backend.play(model, stream(*said[:-2], gate, *said[-2:]))
    asked = going(model) | {"stream": True}
    with wire.Streamed(node.port, "/v1/chat/completions", asked, AUTHORIZED) as streamed:
        seen = streamed.read_until(b"tide")
        with away(url):
            gate.open()
            seen += streamed.read_all()
    assert b'"code":"state_unavailable"' in seen
    assert seen.endswith(b"data: [DONE]\n\n")
    until(lambda: '"status":200,"outcome":"error","error_code":"state_unavailable"' in node.log)


def test_what_runs_in_the_background_waits_for_the_database(
    node: Gateway, url: str, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model, gate = fresh("chat"), Gate()
    backend.play(model, halved("chat", gate))
    name = text_in(create(node, model), "id")
    with wire.Streamed(node.port, events_path(name), None, AUTHORIZED) as streamed:
        streamed.read_until(BEGUN)
        with away(url):
            gate.open()
            assert b'"code":"state_unavailable"' in streamed.read_all()
    assert text_in(judge_stream(replay(node, name)), "status") in ("completed", "failed")


def test_what_runs_in_the_background_outlasts_a_database_that_is_away_for_long(
    backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    url = new_url("postgresql", tmp_path)
    # What the other has to wait before it takes anything over is longer than any test.
    patient, short = (
        QUICK.replace("lease_duration = 60", f"lease_duration = {lease}") for lease in (600, 3)
    )
    ended, waits = fresh("chat"), fresh("chat")
    gates = {model: Gate() for model in (ended, waits)}
    with (
        running(configured(backend, url, patient), _folder(tmp_path, "other")) as other,
        running(configured(backend, url, short), _folder(tmp_path, "one")) as one,
    ):
        names: dict[str, str] = {}
        for model, gate in gates.items():
            backend.play(model, halved("chat", gate))
            names[model] = text_in(create(one, model), "id")
            with wire.Streamed(one.port, events_path(names[model]), None, AUTHORIZED) as streamed:
                streamed.read_until(BEGUN)
        with away(url):
            gates[ended].open()
            until(lambda: "database unavailable" in other.log)
            # Half a second lies between two tries: this is longer than the lease.
            until(lambda: one.log.count("a response waits for the database") > 8)
        gates[waits].open()
        for name in names.values():
            wait_for(other, name, "completed")
    assert "taken over" not in one.log + other.log


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@ON_BOTH_DATABASES
def test_a_node_that_slept_beyond_its_lease_writes_nothing_more(
    kind: str, backend: ScriptedBackend, fresh: Fresh, tmp_path: Path
) -> None:
    model, gate = fresh("chat"), Gate()
    backend.play(model, halved("chat", gate))
    url = new_url(kind, tmp_path)
    with nodes(url, backend, tmp_path, QUICK, QUICK) as (one, other):
        name = text_in(create(one, model), "id")
        with wire.Streamed(other.port, events_path(name), None, AUTHORIZED) as streamed:
            streamed.read_until(BEGUN)
            with asleep(one, url):
                streamed.read_all()
                ended = wait_for(other, name, "failed")
                told = replay(other, name)
                gate.open()
        # It wakes up with the rest of the answer in its hands, and does other things again.
        later = fresh("chat")
        backend.play(later, stream(*frames("chat", Turn("Awake."))))
        wait_for(one, text_in(create(one, later), "id"), "completed")
        assert replay(one, name) == told
        assert wait_for(one, name, "failed") == ended
        assert_no_fault(one)
