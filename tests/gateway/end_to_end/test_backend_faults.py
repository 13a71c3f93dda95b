"""Errors that clients get if a backend is down, or its reply is invalid or truncated."""

from collections.abc import Iterator

import openai
import pytest

from gateway.pytest_plugin.scripted_backend import (
    JSON,
    ConnectionEnd,
    Pause,
    Script,
    ScriptedBackend,
    Step,
    chunk,
    json_reply,
    reply_head,
    stream_head,
)
from tests.gateway.addresses import full_address, refusing_address
from tests.gateway.backend_replies import Turn, reply_body, reply_script, stream_events
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, backend_table
from tests.gateway.waiting import wait_until

TURN = Turn("One two three four five six.")
HALF_BODY = reply_head(200, {**JSON, "Content-Length": "999"}) + b'{"id":'

every_client = pytest.mark.parametrize("client", DIALECTS)
both_modes = pytest.mark.parametrize("mode", ["unary", "raw"])


# Invalid replies

INVALID_REPLIES: dict[str, Script] = {
    "closed at once": (ConnectionEnd.CLOSE,),
    "reset at once": (ConnectionEnd.RESET,),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Ty", ConnectionEnd.CLOSE),
    "reset in the head": (b"HTTP/1.1 200 OK\r\nContent-Ty", Pause(0.02), ConnectionEnd.RESET),
    "not HTTP": (b"220 smtp.example.com ESMTP\r\n", Pause(0.02), ConnectionEnd.CLOSE),
    "bytes": (bytes(range(256)) * 40, ConnectionEnd.CLOSE),
    "an endless header": (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2_000_000, ConnectionEnd.CLOSE),
    "a redirect": (reply_head(307, {"Location": "http://127.0.0.1:9/", "Content-Length": "0"}),),
    "no content": (reply_head(204, {}),),
    "a page": json_reply(b"<html>Welcome!</html>", headers={"Content-Type": "text/html"}),
    "an empty body": json_reply(b""),
    "a list": json_reply(b"[]"),
    "half a body": (HALF_BODY, ConnectionEnd.CLOSE),
    "half a body, reset": (HALF_BODY, Pause(0.02), ConnectionEnd.RESET),
    "a broken chunk": (stream_head(JSON) + b"zzz\r\nhello", ConnectionEnd.CLOSE),
    "a stream of nothing, reset": (stream_head(), Pause(0.02), ConnectionEnd.RESET),
    "compressed nonsense": json_reply(b"not gzip", headers={"Content-Encoding": "gzip"}),
}


@both_modes
@every_client
@pytest.mark.parametrize("name", INVALID_REPLIES)
def test_invalid_reply_is_an_error(name: str, client: str, mode: str, harness: Harness) -> None:
    model = harness.enqueue("chat", INVALID_REPLIES[name], INVALID_REPLIES[name])
    error = harness.error(client, model, mode)
    assert error.status_code == 502
    # The message says that the backend is at fault, and not the client.
    assert "the backend" in error.message
    # A request that the backend may have processed is not repeated; but a connection from the pool
    # that turns out to be closed is replaced.
    assert len(harness.backend.received(model)) <= 1 + name.endswith("at once")


@every_client
def test_gateway_works_after_invalid_replies(client: str, harness: Harness) -> None:
    assert harness.ask(client, harness.script("chat", TURN), "helper") == TURN


INVALID_STREAM_DATA: dict[str, tuple[Step, ...]] = {
    "a broken chunk": (b"zzz\r\n",),
    "reset": (Pause(0.02), ConnectionEnd.RESET),
    "noise": (chunk(b"data: \xff\xfe\x00{\n\n"), b"0\r\n\r\n"),
    "half an event": (chunk(b'data: {"id":"chatcmpl-1","cho'), b"0\r\n\r\n"),
}


@every_client
@pytest.mark.parametrize("name", INVALID_STREAM_DATA)
def test_invalid_data_ends_a_stream_with_an_error(name: str, client: str, harness: Harness) -> None:
    start = (chunk(event) for event in stream_events("chat", TURN)[:4])
    script = (stream_head(), *start, Pause(0.02), *INVALID_STREAM_DATA[name])
    with pytest.raises(openai.APIError) as caught:
        harness.ask(client, harness.enqueue("chat", script))
    assert not isinstance(caught.value, openai.APIConnectionError), "the error event is missing"


# Down


@pytest.fixture(scope="module")
def down(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway with backends that are down, with and without a second backend."""
    quick = "retries = { max_retries = 1, initial_backoff = 0.01 }\n"
    unresponsive = "timeouts = { connect = 0.3 }\nretries = { max_retries = 0 }\n"
    with refusing_address() as refusing, full_address() as full:
        tables = [
            backend_table(refusing, "down", "chat", quick),
            backend_table(full, "unresponsive", "chat", unresponsive),
            backend_table(refusing, "first", "responses", quick),
            backend_table(backend.address, "second", "chat").replace("second-*", "first-*"),
        ]
        folder = tmp_path_factory.mktemp("down")
        with run_harness(backend, "".join(tables), folder) as harness:
            yield harness


@both_modes
@pytest.mark.parametrize(
    ("client", "model"),
    [*((client, "down-1") for client in DIALECTS), ("responses", "unresponsive-1")],
)
def test_backend_that_is_down(client: str, model: str, mode: str, down: Harness) -> None:
    error = down.error(client, model, mode)
    assert (error.status_code, error.code) == (502, "backend_unreachable")


@both_modes
@every_client
def test_next_backend_serves_if_the_first_is_down(client: str, mode: str, down: Harness) -> None:
    model = down.new_model("first")
    down.backend.respond_with(model, lambda it: reply_script("chat", TURN, it.json()))
    assert down.ask(client, model, mode) == TURN
    assert down.backend.wait_for_request(model).target == "/second/v1/chat/completions"
    event = '"event":"backend unreachable, trying the next one"'
    wait_until(lambda: event in down.gateway.log)
    lines = [line for line in down.gateway.log.splitlines() if event in line]
    assert all('"backend":"first"' in line for line in lines)


def test_unknown_model(down: Harness) -> None:
    for client in DIALECTS:
        response = down.request(client, "nobody-has-it", streamed=True)
        assert response.status == 404
        assert response.error["code"] == "model_not_found"


# Connections


def test_connections_are_reused(harness: Harness) -> None:
    model = harness.script_always("chat", TURN)
    before = harness.backend.connection_count
    for number in range(20):
        assert harness.request("responses", model, streamed=number % 2 == 0).status == 200
    assert harness.backend.connection_count - before <= 2


def test_closed_connection_is_not_reused(harness: Harness) -> None:
    script = (*json_reply(reply_body("chat", TURN)), ConnectionEnd.CLOSE)
    model = harness.enqueue("chat", *[script] * 10)
    for _ in range(10):
        assert harness.request("responses", model).status == 200
