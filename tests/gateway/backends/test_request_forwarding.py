"""Requests through the gateway: paths, encodings, sizes, headers and errors."""

import http.client

import pytest

from gateway.pytest_plugin.scripted_backend import LAST_CHUNK, chunk, json_reply, stream_reply
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, error_events, reply_body
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS, EVERY_PAIR
from tests.gateway.http.test_request_body import COMPRESSORS
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.waiting import TIMEOUT_SECONDS
from tests.judges import sdk as judge
from tests.judges.reading import JsonObject

TURN = Turn("Here.")
# max_body_bytes of the fixture `heartbeat_gateway`.
LIMIT = 100_000

every_client = pytest.mark.parametrize("client", DIALECTS)


# Paths


@pytest.mark.parametrize("prefix", ["", "/v1"])
@every_client
def test_paths_with_and_without_prefix(client: str, prefix: str, harness: Harness) -> None:
    body = request_body(client, harness.script("chat", TURN))
    assert harness.post(body, f"{prefix}{ENDPOINT_PATHS[client]}").status == 200


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
def test_invalid_body_is_a_bad_request(body: bytes, client: str, harness: Harness) -> None:
    response = harness.post(body, request_path(client))
    assert response.status == 400
    judge.judge_error(response.body)
    assert response.headers["content-type"] == "application/json"


# Encodings: Codex compresses its requests with zstd
# (https://github.com/farion1231/cc-switch/issues/3817).


def compressed(encoding: str, body: JsonObject) -> bytes:
    data = raw_http.encode_body(body)
    return data if encoding == "identity" else COMPRESSORS[encoding](data)


every_encoding = pytest.mark.parametrize("encoding", [*COMPRESSORS, "identity"])


@every_encoding
@every_client
def test_compressed_request(client: str, encoding: str, harness: Harness) -> None:
    model = harness.script("chat", TURN)
    body = compressed(encoding, request_body(client, model, streamed=True))
    headers = {"Content-Encoding": encoding}
    assert harness.post(body, request_path(client), headers).status == 200
    request = harness.backend.wait_for_request(model)
    assert "content-encoding" not in request.headers
    assert int(request.headers["content-length"]) == len(request.body)


@every_encoding
def test_too_large_request_is_rejected_compressed_or_not(
    encoding: str, heartbeats: Harness
) -> None:
    body = compressed(encoding, request_body("chat", "chat-large") | {"user": "x" * LIMIT})
    headers = {"Content-Encoding": encoding}
    response = heartbeats.post(body, "/v1/chat/completions", headers)
    assert (response.status, response.error["code"]) == (413, "request_too_large")
    assert not heartbeats.backend.received("chat-large")


@pytest.mark.parametrize("encoding", COMPRESSORS)
def test_corrupt_compression_is_a_bad_request(encoding: str, harness: Harness) -> None:
    body = compressed(encoding, {"model": "chat-x", "input": "hi" * 100})
    headers = {"Content-Encoding": encoding}
    cut = harness.post(body[:-9], headers=headers)
    assert cut.status == 400
    judge.judge_error(cut.body)
    mixed = harness.post(b"{}" + body, headers=headers)
    assert mixed.status == 400
    assert encoding in str(mixed.error["message"])


def test_chunked_request(harness: Harness) -> None:
    body = raw_http.encode_body(request_body("responses", harness.script("chat", TURN)))
    head = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    head += b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    with raw_http.connect(harness.gateway.port) as connection:
        connection.sendall(head)
        assert connection.recv(4096).startswith(b"HTTP/1.1 100")
        for start in range(0, len(body), 10):
            connection.sendall(chunk(body[start : start + 10]))
        connection.sendall(LAST_CHUNK)
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    assert response.startswith(b"HTTP/1.1 200")


@EVERY_PAIR
def test_large_request_within_the_limit(client: str, dialect: str, harness: Harness) -> None:
    model, text = harness.script(dialect, TURN), "größer " * 500_000
    field = "input" if client == "responses" else "messages"
    body = request_body(client, model, streamed=True)
    body[field] = [{"role": "user", "content": text}]
    assert harness.post(body, request_path(client)).status == 200
    assert text in str(harness.sent_json(model))


def test_client_connection_survives_errors(harness: Harness) -> None:
    model = harness.script_always("chat", TURN)
    harness.backend.enqueue(model, json_reply(b"{}", status=500), json_reply(b"nonsense"))
    requests = [request_body("chat", model, streamed=streamed) for streamed in 2 * (False, True)]
    connection = http.client.HTTPConnection(
        "127.0.0.1", harness.gateway.port, timeout=TIMEOUT_SECONDS
    )
    statuses: list[int] = []
    ports: set[int] = set()
    for body in (b"{", *map(raw_http.encode_body, requests)):
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


@EVERY_PAIR
def test_only_known_headers_are_forwarded(client: str, dialect: str, harness: Harness) -> None:
    hidden = {"Set-Cookie": "a=b", "Server": "x", "X-Powered-By": "x", "Via": "1.1 x"}
    passed = {"X-Request-Id": "req_7", "OpenAI-Processing-Ms": "3", "X-RateLimit-Limit-Tokens": "9"}
    reply = json_reply(reply_body(dialect, TURN), headers=hidden | passed)
    model = harness.enqueue(dialect, reply)
    forwarded = {"OpenAI-Organization": "org_1", "User-Agent": "tester/1"}
    response = harness.request(client, model, UNWANTED | forwarded)
    sent = harness.backend.wait_for_request(model).headers
    assert not {name.lower() for name in UNWANTED} - {"accept-encoding"} & sent.keys()
    assert sent["accept-encoding"] == "identity"
    assert sent["openai-organization"] == "org_1"
    assert sent["authorization"] == "Bearer sk-test"
    assert sent["host"] == f"127.0.0.1:{harness.backend.port}"
    assert {name: response.headers[name.lower()] for name in passed} == passed
    assert not {name.lower() for name in hidden} & response.headers.keys()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_losses_are_reported_in_a_header(dialect: str, harness: Harness) -> None:
    tools = [{"type": "file_search", "vector_store_ids": ["v"]}]
    for streamed in (False, True):
        model = harness.script(dialect, TURN)
        response = harness.request("responses", model, streamed=streamed, tools=tools)
        assert response.status == 200
        if dialect == "responses":
            assert "dragoman-loss" not in response.headers
        else:
            assert 'dropped;path="tools[0]"' in response.headers["dragoman-loss"]


# Context overflow: backends report it by message, as an error or within a stream

OVERFLOW = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."


@pytest.mark.parametrize("mode", ["unary", "raw"])
@EVERY_PAIR
def test_context_overflow_has_its_error_code(
    client: str, dialect: str, mode: str, harness: Harness
) -> None:
    error: JsonObject = {"error": {"message": OVERFLOW, "type": "invalid_request_error"}}
    model = harness.enqueue(
        dialect,
        json_reply(raw_http.encode_body(error), status=400),
        stream_reply(*error_events(dialect, OVERFLOW)),
    )
    whole = harness.error(client, model, mode)
    assert whole.status_code == 400
    if client != dialect:
        assert whole.code == "context_length_exceeded"
    streamed = harness.error(client, model, mode)
    assert (streamed.status_code, streamed.code) == (400, "context_length_exceeded")
