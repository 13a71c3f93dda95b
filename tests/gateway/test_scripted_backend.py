"""The scripted backend sends its scripts unchanged, without a gateway in front of it."""

import socket
from http.client import IncompleteRead

import pytest

from gateway.pytest_plugin.scripted_backend import (
    ConnectionEnd,
    Gate,
    Pause,
    ScriptedBackend,
    json_reply,
    stream_reply,
    truncated_reply,
)
from tests.gateway import raw_http
from tests.gateway.conftest import NewModel
from tests.gateway.waiting import TIMEOUT_SECONDS


def post(backend: ScriptedBackend, model: str) -> raw_http.RawResponse:
    return raw_http.post(backend.port, "/v1/anything", {"model": model})


def test_bytes_are_sent_unchanged(backend: ScriptedBackend, new_model: NewModel) -> None:
    model = new_model("harness")
    backend.enqueue(
        model,
        json_reply(b"\xff{", status=418, headers={"X-A": "b"}),
        stream_reply(b"a", Pause(0.01), b"bc"),
    )
    whole, streamed = post(backend, model), post(backend, model)
    assert (whole.status, whole.headers["x-a"], whole.body) == (418, "b", b"\xff{")
    assert (streamed.status, streamed.body) == (200, b"abc")
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert [request.json() for request in backend.received(model)] == [{"model": model}] * 2


def test_connections_break_off(backend: ScriptedBackend, new_model: NewModel) -> None:
    model = new_model("harness")
    backend.enqueue(
        model,
        truncated_reply(b"abc"),
        truncated_reply(b"abc", end=ConnectionEnd.RESET),
        (ConnectionEnd.RESET,),
    )
    for errors in ((IncompleteRead,), (IncompleteRead, ConnectionResetError), ConnectionResetError):
        with pytest.raises(errors):
            post(backend, model)


def test_gates_and_closed_connections(backend: ScriptedBackend, new_model: NewModel) -> None:
    model, gate = new_model("harness"), Gate()
    backend.enqueue(model, stream_reply(b"a", gate, b"b"), stream_reply(b"a", Gate()))
    with raw_http.StreamedResponse(backend.port, "/v1/anything", {"model": model}) as streamed:
        assert streamed.read_some() == b"a"
        assert not backend.wait_for_request(model).script_done.is_set()
        gate.open()
        assert streamed.read_all() == b"b"
    assert backend.wait_for_request(model).script_done.wait(TIMEOUT_SECONDS)
    with socket.create_connection(("127.0.0.1", backend.port)) as plug:
        plug.sendall(raw_http.request_bytes("/v1/anything", {"model": model}))
        second = backend.wait_for_request(model, 2)
        assert not second.closed.is_set()
    assert second.closed.wait(TIMEOUT_SECONDS)
    assert not second.script_done.is_set()
