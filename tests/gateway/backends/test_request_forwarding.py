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

from tests.gateway import wire
from tests.gateway.asked import PATHS
from tests.gateway.clients import make_client
from tests.gateway.conftest import DIALECTS, Fresh
from tests.gateway.http.test_disconnect import asked
from tests.gateway.process import Gateway
from tests.gateway.scripted import PATIENCE, ScriptedBackend, answer, stream
from tests.gateway.speech import Turn, error_frames, script, whole
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject

TURN = Turn("Here.")
# max_body_bytes of the fixture `lively`.
LIMIT = 100_000

every_client = pytest.mark.parametrize("client", DIALECTS)
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def serve(backend: ScriptedBackend, fresh: Fresh, dialect: str = "chat") -> str:
    """Set up a model that always replies; return its name."""
    model = fresh(dialect)
    backend.play_always(model, lambda it: script(dialect, TURN, it.json()))
    return model


# Paths


@pytest.mark.parametrize("prefix", ["", "/v1"])
@every_client
def test_paths_with_and_without_prefix(
    client: str, prefix: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    body = asked(client, serve(backend, fresh), streamed=False)
    assert wire.post(gateway.port, f"{prefix}{PATHS[client]}", body).status == 200


@every_client
def test_body_of_another_dialect_is_an_error_with_the_right_path(
    client: str, gateway: Gateway
) -> None:
    wrong = PATHS["chat" if client == "responses" else "responses"]
    error_response = wire.post(gateway.port, f"/v1{wrong}", asked(client, "chat-x", streamed=True))
    assert error_response.status == 400
    assert PATHS[client] in str(error_response.error()["message"])


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
    error_response = wire.post(gateway.port, f"/v1{PATHS[client]}", body)
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
    client: str, encoding: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = serve(backend, fresh)
    body = COMPRESSORS[encoding](wire.encoded(asked(client, model, streamed=True)))
    headers = {"Content-Encoding": encoding}
    assert wire.post(gateway.port, f"/v1{PATHS[client]}", body, headers).status == 200
    request = backend.wait(model)
    assert "content-encoding" not in request.headers
    assert int(request.headers["content-length"]) == len(request.body)


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_too_large_request_is_rejected_compressed_or_not(
    encoding: str, lively: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    body = asked("chat", model, streamed=False) | {"user": "x" * LIMIT}
    compressed = COMPRESSORS[encoding](wire.encoded(body))
    headers = {"Content-Encoding": encoding}
    error_response = wire.post(lively.port, "/v1/chat/completions", compressed, headers)
    assert (error_response.status, error_response.error()["code"]) == (413, "request_too_large")
    assert not backend.received(model)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_corrupt_compression_is_a_bad_request(encoding: str, gateway: Gateway) -> None:
    body = COMPRESSORS[encoding](wire.encoded({"model": "chat-x", "input": "hi" * 100}))
    headers = {"Content-Encoding": encoding}
    cut = wire.post(gateway.port, "/v1/responses", body[:-9], headers)
    assert cut.status == 400
    judge.judge_error(cut.body)
    mixed = wire.post(gateway.port, "/v1/responses", b"{}" + body, headers)
    assert mixed.status == 400
    assert encoding in str(mixed.error()["message"])


def test_unknown_encoding_is_an_error(gateway: Gateway) -> None:
    error_response = wire.post(gateway.port, "/v1/responses", b"{}", {"Content-Encoding": "lzma"})
    assert error_response.status == 415
    assert "lzma" in str(error_response.error()["message"])


def test_chunked_request(gateway: Gateway, backend: ScriptedBackend, fresh: Fresh) -> None:
    body = wire.encoded(asked("responses", serve(backend, fresh), streamed=False))
    head = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    head += b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as connection:
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
    client: str, dialect: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model, text = serve(backend, fresh, dialect), "größer " * 500_000
    body = asked(client, model, streamed=True)
    field = "input" if client == "responses" else "messages"
    body[field] = [{"role": "user", "content": text}]
    assert wire.post(gateway.port, f"/v1{PATHS[client]}", body).status == 200
    assert text in str(backend.wait(model).json())


def test_client_connection_survives_errors(
    gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = serve(backend, fresh)
    backend.play(model, answer(b"{}", status=500), answer(b"nonsense"))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)
    statuses: list[int] = []
    ports: set[int] = set()
    bodies = [
        b"{",
        *[wire.encoded(asked("chat", model, streamed=streamed)) for streamed in 2 * (False, True)],
    ]
    for body in bodies:
        connection.request("POST", "/v1/chat/completions", body, wire.AUTHORIZED)
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
    client: str, dialect: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    hidden = {"Set-Cookie": "a=b", "Server": "x", "X-Powered-By": "x", "Via": "1.1 x"}
    passed = {"X-Request-Id": "req_7", "OpenAI-Processing-Ms": "3", "X-RateLimit-Limit-Tokens": "9"}
    backend.play(model, answer(whole(dialect, TURN), headers=hidden | passed))
    body = asked(client, model, streamed=False)
    forwarded = {"OpenAI-Organization": "org_1", "User-Agent": "tester/1"}
    response = wire.post(gateway.port, f"/v1{PATHS[client]}", body, UNWANTED | forwarded)
    sent = backend.wait(model).headers
    assert not {name.lower() for name in UNWANTED} - {"accept-encoding"} & sent.keys()
    assert sent["accept-encoding"] == "identity"
    assert sent["openai-organization"] == "org_1"
    assert sent["authorization"] == "Bearer sk-test"
    assert sent["host"] == f"127.0.0.1:{backend.port}"
    assert {name: response.headers[name.lower()] for name in passed} == passed
    assert not {name.lower() for name in hidden} & response.headers.keys()


@every_dialect
def test_losses_are_reported_in_a_header(
    dialect: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    for streamed in (False, True):
        model = serve(backend, fresh, dialect)
        tools: list[JsonObject] = [{"type": "file_search", "vector_store_ids": ["v"]}]
        body = asked("responses", model, streamed=streamed) | {"tools": tools}
        response = wire.post(gateway.port, "/v1/responses", body)
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
    client: str, dialect: str, mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(dialect)
    error: JsonObject = {"error": {"message": OVERFLOW, "type": "invalid_request_error"}}
    backend.play(model, answer(wire.encoded(error), status=400))
    with pytest.raises(openai.BadRequestError) as caught:
        make_client(client, sdk, model, mode).ask()
    if client != dialect:
        assert caught.value.code == "context_length_exceeded"
    backend.play(model, stream(*error_frames(dialect, OVERFLOW)))
    with pytest.raises(openai.BadRequestError) as caught:
        make_client(client, sdk, model, mode).ask()
    assert caught.value.code == "context_length_exceeded"
