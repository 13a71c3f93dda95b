"""The scripted backend and the clients understand each other without a gateway between them."""

import socket
from collections.abc import Iterator

import openai
import pytest

from tests.gateway import wire
from tests.gateway.clients import MODES, make_client
from tests.gateway.conftest import DIALECTS, Fresh
from tests.gateway.scenarios import SCENARIOS, Pair, hold
from tests.gateway.scripted import (
    PATIENCE,
    End,
    Gate,
    Pause,
    ScriptedBackend,
    answer,
    cut_stream,
    stream,
    stream_until_close,
)


@pytest.fixture(scope="module")
def direct(backend: ScriptedBackend) -> Iterator[openai.OpenAI]:
    url = f"{backend.address}/v1"
    with openai.OpenAI(base_url=url, api_key="sk-test", max_retries=0, timeout=PATIENCE) as client:
        yield client


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(
    ("dialect", "mode"), [(dialect, mode) for dialect in DIALECTS for mode in MODES[dialect]]
)
def test_clients_understand_what_is_played(
    dialect: str,
    mode: str,
    name: str,
    direct: openai.OpenAI,
    backend: ScriptedBackend,
    fresh: Fresh,
) -> None:
    pair = Pair(dialect, dialect, fresh(dialect), streamed=mode != "unary", mode=mode)
    client = make_client(dialect, direct, pair.model, mode)
    hold(SCENARIOS[name], client, pair, backend)


def ask(backend: ScriptedBackend, model: str) -> wire.Answer:
    return wire.post(backend.port, "/v1/anything", {"model": model})


def test_bytes_are_played_as_they_are(backend: ScriptedBackend, fresh: Fresh) -> None:
    model = fresh("harness")
    backend.play(model, answer(b"\xff{", status=418, headers={"X-A": "b"}), stream(b"a", b"bc"))
    whole, streamed = ask(backend, model), ask(backend, model)
    assert (whole.status, whole.headers["x-a"], whole.body) == (418, "b", b"\xff{")
    assert (streamed.status, streamed.body) == (200, b"abc")
    assert streamed.headers["content-type"].startswith("text/event-stream")
    backend.play(model, stream_until_close(b"a", Pause(0.01), b"bc"))
    assert ask(backend, model).body == b"abc"
    assert [request.json() for request in backend.received(model)] == [{"model": model}] * 3


def test_connections_break_off(backend: ScriptedBackend, fresh: Fresh) -> None:
    model = fresh("harness")
    backend.play(model, cut_stream(b"abc"), cut_stream(b"abc", end=End.RESET), (End.RESET,))
    with pytest.raises(wire.CutShort):
        ask(backend, model)
    with pytest.raises((wire.CutShort, ConnectionResetError)):
        ask(backend, model)
    with pytest.raises(ConnectionResetError):
        ask(backend, model)


def test_gates_hold_a_script_and_closes_are_seen(backend: ScriptedBackend, fresh: Fresh) -> None:
    model, gate = fresh("harness"), Gate()
    backend.play(model, stream(b"a", gate, b"b"), stream(b"a", Gate()))
    with wire.Streamed(backend.port, "/v1/anything", {"model": model}) as streamed:
        assert streamed.read_some() == b"a"
        assert not backend.wait(model).played.is_set()
        gate.open()
        assert streamed.read_all() == b"b"
    assert backend.wait(model).played.wait(PATIENCE)
    with socket.create_connection(("127.0.0.1", backend.port)) as plug:
        plug.sendall(wire.request_bytes("/v1/anything", {"model": model}))
        second = backend.wait(model, 2)
        assert not second.closed.is_set()
    assert second.closed.wait(PATIENCE)
    assert not second.played.is_set()
