"""Errors that clients get if a backend is down, or its reply is invalid or truncated."""

import contextlib
import socket
from collections.abc import Generator, Iterator

import openai
import pytest

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, reply_script, stream_events
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS, backend_table
from tests.gateway.gateway_process import Gateway, run_gateway
from tests.gateway.http.test_disconnect import asked as request_body
from tests.gateway.scripted_backend import (
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
from tests.gateway.sdk_clients import make_client, request_error, sdk_client

TURN = Turn("One two three four five six.")
MODES = ("unary", "raw")

every_client = pytest.mark.parametrize("client", DIALECTS)
both_modes = pytest.mark.parametrize("mode", MODES)


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
    "half a body": (
        reply_head(200, {**JSON, "Content-Length": "999"}) + b'{"id":',
        ConnectionEnd.CLOSE,
    ),
    "half a body, reset": (
        reply_head(200, {**JSON, "Content-Length": "999"}) + b'{"id":',
        Pause(0.02),
        ConnectionEnd.RESET,
    ),
    "a broken chunk": (stream_head(JSON) + b"zzz\r\nhello", ConnectionEnd.CLOSE),
    "a stream of nothing, reset": (stream_head(), Pause(0.02), ConnectionEnd.RESET),
    "compressed nonsense": json_reply(b"not gzip", headers={"Content-Encoding": "gzip"}),
}


@both_modes
@every_client
@pytest.mark.parametrize("name", INVALID_REPLIES)
def test_invalid_reply_is_a_bad_gateway_error(
    name: str,
    client: str,
    mode: str,
    sdk: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model("chat")
    backend.enqueue(model, INVALID_REPLIES[name], INVALID_REPLIES[name])
    error = request_error(client, mode, sdk, model)
    assert error.status_code == 502
    # The message says that the backend is at fault, and not the client.
    assert "the backend" in error.message
    # A request that the backend may have processed is not repeated; but a connection from the pool
    # that turns out to be closed is replaced.
    assert len(backend.received(model)) <= 1 + name.endswith("at once")


@every_client
def test_gateway_works_after_invalid_replies(
    client: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.respond_with(model, lambda it: reply_script("chat", TURN, it.json()))
    assert make_client(client, sdk, model, "helper").send_question().turn == TURN


INVALID_STREAM_DATA: dict[str, tuple[Step, ...]] = {
    "a broken chunk": (b"zzz\r\n",),
    "reset": (Pause(0.02), ConnectionEnd.RESET),
    "noise": (chunk(b"data: \xff\xfe\x00{\n\n"), b"0\r\n\r\n"),
    "half an event": (chunk(b'data: {"id":"chatcmpl-1","cho'), b"0\r\n\r\n"),
}


@every_client
@pytest.mark.parametrize("name", INVALID_STREAM_DATA)
def test_invalid_data_in_a_stream_ends_it_with_an_error(
    name: str, client: str, sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    begin = (chunk(event) for event in stream_events("chat", TURN)[:4])
    backend.enqueue(model, (stream_head(), *begin, Pause(0.02), *INVALID_STREAM_DATA[name]))
    with pytest.raises(openai.APIError) as caught:
        make_client(client, sdk, model, "raw").send_question()
    assert not isinstance(caught.value, openai.APIConnectionError), "the error event is missing"


# Down


@pytest.fixture(scope="module")
def down(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run a gateway with backends that are down, with and without a second backend."""
    with contextlib.ExitStack() as stack:
        closed = stack.enter_context(socket.socket())
        # Bound but not listening: the port refuses connections, and no other process can take it.
        closed.bind(("127.0.0.1", 0))
        full = stack.enter_context(full_socket())
        quick = "retries = { max_retries = 1, initial_backoff = 0.01 }\n"
        unresponsive = "timeouts = { connect = 0.3 }\nretries = { max_retries = 0 }\n"
        tables = [
            backend_table(address(closed), "down", "chat", quick),
            backend_table(address(full), "unresponsive", "chat", unresponsive),
            backend_table(address(closed), "first", "responses", quick),
            backend_table(backend.address, "second", "chat").replace("second-*", "first-*"),
        ]
        folder = tmp_path_factory.mktemp("down")
        yield stack.enter_context(run_gateway("".join(tables), folder))


@pytest.fixture(scope="module")
def down_sdk(down: Gateway) -> Iterator[openai.OpenAI]:
    with sdk_client(down) as client:
        yield client


def address(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def full_socket() -> Generator[socket.socket]:
    """Listen with a full queue, so that new connections are not established."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(listener.getsockname())
        yield listener


@both_modes
@every_client
def test_backend_that_is_down(client: str, mode: str, down_sdk: openai.OpenAI) -> None:
    error = request_error(client, mode, down_sdk, "down-1")
    assert (error.status_code, error.code) == (502, "backend_unreachable")


@both_modes
def test_backend_that_does_not_accept_connections(mode: str, down_sdk: openai.OpenAI) -> None:
    error = request_error("responses", mode, down_sdk, "unresponsive-1")
    assert (error.status_code, error.code) == (502, "backend_unreachable")


@both_modes
@every_client
def test_next_backend_serves_if_the_first_is_down(
    client: str, mode: str, down_sdk: openai.OpenAI, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("first")
    backend.respond_with(model, lambda it: reply_script("chat", TURN, it.json()))
    assert make_client(client, down_sdk, model, mode).send_question().turn == TURN


def test_unknown_model(down: Gateway) -> None:
    for client in DIALECTS:
        body = request_body(client, "nobody-has-it", streamed=True)
        error = raw_http.post(down.port, f"/v1{ENDPOINT_PATHS[client]}", body)
        assert error.status == 404
        assert error.error["code"] == "model_not_found"


# Connections


def test_connections_are_reused(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.respond_with(model, lambda it: reply_script("chat", TURN, it.json()))
    before = backend.connection_count
    for number in range(20):
        body = {"model": model, "input": "hi", "stream": number % 2 == 0}
        assert raw_http.post(gateway.port, "/v1/responses", body).status == 200
    assert backend.connection_count - before <= 2


def test_closed_connection_is_not_reused(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    body = {"model": model, "input": "hi"}
    for _ in range(10):
        backend.enqueue(model, (*json_reply(reply_body("chat", TURN)), ConnectionEnd.CLOSE))
        assert raw_http.post(gateway.port, "/v1/responses", body).status == 200
