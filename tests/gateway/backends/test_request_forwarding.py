"""Requests through the gateway: paths, encodings, sizes, headers and errors."""

import gzip
import http.client
import socket
import zlib
from collections.abc import Callable
from typing import cast

import brotli  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] # has no types
import openai
import pytest
import zstandard

from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, error_events, reply_body, reply_script
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import NewModel
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import Gateway
from tests.gateway.http.test_disconnect import asked
from tests.gateway.scripted_backend import ScriptedBackend, json_reply, stream_reply
from tests.gateway.sdk_clients import make_client
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject

TURN = Turn("Here.")
# max_body_bytes of the fixture `heartbeat_gateway`.
LIMIT = 100_000

every_client = pytest.mark.parametrize("client", DIALECTS)
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def serve(backend: ScriptedBackend, new_model: NewModel, dialect: str = "chat") -> str:
    """Set up a model that always replies; return its name."""
    model = new_model(dialect)
    backend.respond_with(model, lambda it: reply_script(dialect, TURN, it.json()))
    return model


# Paths


@pytest.mark.parametrize("prefix", ["", "/v1"])
@every_client
def test_paths_with_and_without_prefix(
    client: str, prefix: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    body = asked(client, serve(backend, new_model), streamed=False)
    assert raw_http.post(gateway.port, f"{prefix}{ENDPOINT_PATHS[client]}", body).status == 200


@every_client
def test_body_of_another_dialect_is_an_error_with_the_right_path(
    client: str, gateway: Gateway
) -> None:
    wrong = ENDPOINT_PATHS["chat" if client == "responses" else "responses"]
    error_response = raw_http.post(
        gateway.port, f"/v1{wrong}", asked(client, "chat-x", streamed=True)
    )
    assert error_response.status == 400
    assert ENDPOINT_PATHS[client] in str(error_response.error["message"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"hi"',
        b"\xff\xfe",
        b"model=chat-1",
        b'{"model":7,"messages":[]}',
        b'{"messages":[{"role":"user","content":"hi"}],"input":"hi"}',
    ],
)
@every_client
def test_invalid_body_is_a_bad_request(body: bytes, client: str, gateway: Gateway) -> None:
    error_response = raw_http.post(gateway.port, f"/v1{ENDPOINT_PATHS[client]}", body)
    assert error_response.status == 400
    judge.judge_error(error_response.body)
    assert error_response.headers["content-type"] == "application/json"


# Encodings: Codex compresses its requests with zstd
# (https://github.com/farion1231/cc-switch/issues/3817).

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": cast("Callable[[bytes], bytes]", brotli.compress),
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
}


@pytest.mark.parametrize("encoding", COMPRESSORS)
@every_client
def test_compressed_request(
    client: str, encoding: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = serve(backend, new_model)
    body = COMPRESSORS[encoding](raw_http.encode_body(asked(client, model, streamed=True)))
    headers = {"Content-Encoding": encoding}
    assert raw_http.post(gateway.port, f"/v1{ENDPOINT_PATHS[client]}", body, headers).status == 200
    request = backend.wait_for_request(model)
    assert "content-encoding" not in request.headers
    assert int(request.headers["content-length"]) == len(request.body)


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_too_large_request_is_rejected_compressed_or_not(
    encoding: str, heartbeat_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    body = asked("chat", model, streamed=False) | {"user": "x" * LIMIT}
    compressed = COMPRESSORS[encoding](raw_http.encode_body(body))
    headers = {"Content-Encoding": encoding}
    error_response = raw_http.post(
        heartbeat_gateway.port, "/v1/chat/completions", compressed, headers
    )
    assert (error_response.status, error_response.error["code"]) == (413, "request_too_large")
    assert not backend.received(model)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_corrupt_compression_is_a_bad_request(encoding: str, gateway: Gateway) -> None:
    body = COMPRESSORS[encoding](raw_http.encode_body({"model": "chat-x", "input": "hi" * 100}))
    headers = {"Content-Encoding": encoding}
    cut = raw_http.post(gateway.port, "/v1/responses", body[:-9], headers)
    assert cut.status == 400
    judge.judge_error(cut.body)
    mixed = raw_http.post(gateway.port, "/v1/responses", b"{}" + body, headers)
    assert mixed.status == 400
    assert encoding in str(mixed.error["message"])


def test_unknown_encoding_is_an_error(gateway: Gateway) -> None:
    error_response = raw_http.post(
        gateway.port, "/v1/responses", b"{}", {"Content-Encoding": "lzma"}
    )
    assert error_response.status == 415
    assert "lzma" in str(error_response.error["message"])


def test_chunked_request(gateway: Gateway, backend: ScriptedBackend, new_model: NewModel) -> None:
    body = raw_http.encode_body(asked("responses", serve(backend, new_model), streamed=False))
    head = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    head += b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    with socket.create_connection(
        ("127.0.0.1", gateway.port), timeout=TIMEOUT_SECONDS
    ) as connection:
        connection.sendall(head)
        assert connection.recv(4096).startswith(b"HTTP/1.1 100")
        for start in range(0, len(body), 10):
            chunk = body[start : start + 10]
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        connection.sendall(b"0\r\n\r\n")
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    assert response.startswith(b"HTTP/1.1 200")


@every_dialect
@every_client
def test_large_request_within_the_limit(
    client: str, dialect: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, text = serve(backend, new_model, dialect), "größer " * 500_000
    body = asked(client, model, streamed=True)
    field = "input" if client == "responses" else "messages"
    body[field] = [{"role": "user", "content": text}]
    assert raw_http.post(gateway.port, f"/v1{ENDPOINT_PATHS[client]}", body).status == 200
    assert text in str(backend.wait_for_request(model).json())


def test_client_connection_survives_errors(
    gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = serve(backend, new_model)
    backend.enqueue(model, json_reply(b"{}", status=500), json_reply(b"nonsense"))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=TIMEOUT_SECONDS)
    statuses: list[int] = []
    ports: set[int] = set()
    bodies = [
        b"{",
        *[
            raw_http.encode_body(asked("chat", model, streamed=streamed))
            for streamed in 2 * (False, True)
        ],
    ]
    for body in bodies:
        connection.request("POST", "/v1/chat/completions", body, raw_http.AUTHORIZED)
        ports.add(connection.sock.getsockname()[1])
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    connection.close()
    assert statuses == [400, 500, 502, 200, 200]
    assert len(ports) == 1


# Headers

UNWANTED = {
    "Cookie": "a=b",
    "Forwarded": "for=10.0.0.1",
    "X-Forwarded-For": "10.0.0.1",
    "X-Real-IP": "10.0.0.1",
    "TE": "trailers",
    "Proxy-Authorization": "Basic x",
    "Upgrade-Insecure-Requests": "1",
    "X-Anything": "else",
    "Accept-Encoding": "gzip, br",
}


@every_dialect
@every_client
def test_only_known_headers_are_forwarded(
    client: str, dialect: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model(dialect)
    hidden = {"Set-Cookie": "a=b", "Server": "x", "X-Powered-By": "x", "Via": "1.1 x"}
    passed = {"X-Request-Id": "req_7", "OpenAI-Processing-Ms": "3", "X-RateLimit-Limit-Tokens": "9"}
    backend.enqueue(model, json_reply(reply_body(dialect, TURN), headers=hidden | passed))
    body = asked(client, model, streamed=False)
    forwarded = {"OpenAI-Organization": "org_1", "User-Agent": "tester/1"}
    response = raw_http.post(
        gateway.port, f"/v1{ENDPOINT_PATHS[client]}", body, UNWANTED | forwarded
    )
    sent = backend.wait_for_request(model).headers
    assert not {name.lower() for name in UNWANTED} - {"accept-encoding"} & sent.keys()
    assert sent["accept-encoding"] == "identity"
    assert sent["openai-organization"] == "org_1"
    assert sent["authorization"] == "Bearer sk-test"
    assert sent["host"] == f"127.0.0.1:{backend.port}"
    assert {name: response.headers[name.lower()] for name in passed} == passed
    assert not {name.lower() for name in hidden} & response.headers.keys()


@every_dialect
def test_losses_are_reported_in_a_header(
    dialect: str, gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    for streamed in (False, True):
        model = serve(backend, new_model, dialect)
        tools: list[JsonObject] = [{"type": "file_search", "vector_store_ids": ["v"]}]
        body = asked("responses", model, streamed=streamed) | {"tools": tools}
        response = raw_http.post(gateway.port, "/v1/responses", body)
        assert response.status == 200
        if dialect == "responses":
            assert "dragoman-loss" not in response.headers
        else:
            assert 'dropped;path="tools[0]"' in response.headers["dragoman-loss"]


# Context overflow: backends report it by message, as an error or within a stream

OVERFLOW = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."


@pytest.mark.parametrize("mode", ["unary", "raw"])
@every_dialect
@every_client
def test_context_overflow_has_its_error_code(
    client: str,
    dialect: str,
    mode: str,
    sdk: openai.OpenAI,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model = new_model(dialect)
    error: JsonObject = {"error": {"message": OVERFLOW, "type": "invalid_request_error"}}
    backend.enqueue(model, json_reply(raw_http.encode_body(error), status=400))
    with pytest.raises(openai.BadRequestError) as caught:
        make_client(client, sdk, model, mode).send_question()
    if client != dialect:
        assert caught.value.code == "context_length_exceeded"
    backend.enqueue(model, stream_reply(*error_events(dialect, OVERFLOW)))
    with pytest.raises(openai.BadRequestError) as caught:
        make_client(client, sdk, model, mode).send_question()
    assert caught.value.code == "context_length_exceeded"
