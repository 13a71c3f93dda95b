"""How requests come in and go out: addresses, encodings, sizes, headers, and what is wrong."""

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
LIMIT = 100_000  # of the gateway called lively

every_client = pytest.mark.parametrize("client", DIALECTS)
every_dialect = pytest.mark.parametrize("spoken", DIALECTS)


def serve(backend: ScriptedBackend, fresh: Fresh, spoken: str = "chat") -> str:
    """Have a model that always answers; give its name."""
    model = fresh(spoken)
    backend.play_always(model, lambda it: script(spoken, TURN, it.json()))
    return model


# Addresses


@pytest.mark.parametrize("prefix", ["", "/v1"])
@every_client
def test_every_path_with_and_without_its_prefix(
    client: str, prefix: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    body = asked(client, serve(backend, fresh), streamed=False)
    assert wire.post(gateway.port, f"{prefix}{PATHS[client]}", body).status == 200


@every_client
def test_body_at_the_wrong_address_says_where_it_belongs(client: str, gateway: Gateway) -> None:
    wrong = PATHS["chat" if client == "responses" else "responses"]
    refused = wire.post(gateway.port, f"/v1{wrong}", asked(client, "chat-x", streamed=True))
    assert refused.status == 400
    assert PATHS[client] in str(refused.error()["message"])


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
def test_what_is_no_request_is_a_bad_one(body: bytes, client: str, gateway: Gateway) -> None:
    refused = wire.post(gateway.port, f"/v1{PATHS[client]}", body)
    assert refused.status == 400
    judge.judge_error(refused.body)
    assert refused.headers["content-type"] == "application/json"


# Encodings, of which P154 tells

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
def test_large_request_is_refused_before_and_after_it_is_decompressed(
    encoding: str, lively: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("chat")
    body = asked("chat", model, streamed=False) | {"user": "x" * LIMIT}
    compressed = COMPRESSORS[encoding](wire.encoded(body))
    headers = {"Content-Encoding": encoding}
    refused = wire.post(lively.port, "/v1/chat/completions", compressed, headers)
    assert (refused.status, refused.error()["code"]) == (413, "request_too_large")
    assert not backend.received(model)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_broken_encoding_is_a_bad_request(encoding: str, gateway: Gateway) -> None:
    body = COMPRESSORS[encoding](wire.encoded({"model": "chat-x", "input": "hi" * 100}))
    headers = {"Content-Encoding": encoding}
    cut = wire.post(gateway.port, "/v1/responses", body[:-9], headers)
    assert cut.status == 400
    judge.judge_error(cut.body)
    mixed = wire.post(gateway.port, "/v1/responses", b"{}" + body, headers)
    assert mixed.status == 400
    assert encoding in str(mixed.error()["message"])


def test_unknown_encoding_is_named(gateway: Gateway) -> None:
    refused = wire.post(gateway.port, "/v1/responses", b"{}", {"Content-Encoding": "lzma"})
    assert refused.status == 415
    assert "lzma" in str(refused.error()["message"])


def test_request_in_chunks(gateway: Gateway, backend: ScriptedBackend, fresh: Fresh) -> None:
    body = wire.encoded(asked("responses", serve(backend, fresh), streamed=False))
    head = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    head += b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as plug:
        plug.sendall(head)
        assert plug.recv(4096).startswith(b"HTTP/1.1 100")
        for place in range(0, len(body), 10):
            piece = body[place : place + 10]
            plug.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        plug.sendall(b"0\r\n\r\n")
        heard = b"".join(iter(lambda: plug.recv(65536), b""))
    assert heard.startswith(b"HTTP/1.1 200")


@every_dialect
@every_client
def test_large_request_within_the_limit(
    client: str, spoken: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model, text = serve(backend, fresh, spoken), "größer " * 500_000
    body = asked(client, model, streamed=True)
    field = "input" if client == "responses" else "messages"
    body[field] = [{"role": "user", "content": text}]
    assert wire.post(gateway.port, f"/v1{PATHS[client]}", body).status == 200
    assert text in str(backend.wait(model).json())


def test_connection_of_a_client_is_kept_through_errors(
    gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = serve(backend, fresh)
    backend.play(model, answer(b"{}", status=500), answer(b"nonsense"))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)
    statuses: list[int] = []
    plugs: set[int] = set()
    bodies = [
        b"{",
        *[wire.encoded(asked("chat", model, streamed=streamed)) for streamed in 2 * (False, True)],
    ]
    for body in bodies:
        connection.request("POST", "/v1/chat/completions", body, wire.AUTHORIZED)
        plugs.add(connection.sock.getsockname()[1])
        answered = connection.getresponse()
        answered.read()
        statuses.append(answered.status)
    connection.close()
    assert statuses == [400, 500, 502, 200, 200]
    assert len(plugs) == 1


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
def test_only_known_headers_pass(
    client: str, spoken: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(spoken)
    hidden = {"Set-Cookie": "a=b", "Server": "x", "X-Powered-By": "x", "Via": "1.1 x"}
    told = {"X-Request-Id": "req_7", "OpenAI-Processing-Ms": "3", "X-RateLimit-Limit-Tokens": "9"}
    backend.play(model, answer(whole(spoken, TURN), headers=hidden | told))
    body = asked(client, model, streamed=False)
    wanted = {"OpenAI-Organization": "org_1", "User-Agent": "tester/1"}
    heard = wire.post(gateway.port, f"/v1{PATHS[client]}", body, UNWANTED | wanted)
    sent = backend.wait(model).headers
    assert not {name.lower() for name in UNWANTED} - {"accept-encoding"} & sent.keys()
    assert sent["accept-encoding"] == "identity"
    assert sent["openai-organization"] == "org_1"
    assert sent["authorization"] == "Bearer sk-test"
    assert sent["host"] == f"127.0.0.1:{backend.port}"
    assert {name: heard.headers[name.lower()] for name in told} == told
    assert not {name.lower() for name in hidden} & heard.headers.keys()


@every_dialect
def test_losses_are_told_in_a_header(
    spoken: str, gateway: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    for streamed in (False, True):
        model = serve(backend, fresh, spoken)
        tools: list[JsonObject] = [{"type": "file_search", "vector_store_ids": ["v"]}]
        body = asked("responses", model, streamed=streamed) | {"tools": tools}
        heard = wire.post(gateway.port, "/v1/responses", body)
        assert heard.status == 200
        if spoken == "responses":
            assert "dragoman-loss" not in heard.headers
        else:
            assert 'dropped;path="tools[0]"' in heard.headers["dragoman-loss"]


# What only the wire can show of context overflow (P161)

OVERFLOW = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."


@pytest.mark.parametrize("mode", ["unary", "raw"])
@every_dialect
@every_client
def test_context_overflow_has_its_code(
    client: str, spoken: str, mode: str, sdk: openai.OpenAI, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh(spoken)
    error: JsonObject = {"error": {"message": OVERFLOW, "type": "invalid_request_error"}}
    backend.play(model, answer(wire.encoded(error), status=400))
    with pytest.raises(openai.BadRequestError) as caught:
        make_client(client, sdk, model, mode).ask()
    if client != spoken:
        assert caught.value.code == "context_length_exceeded"
    backend.play(model, stream(*error_frames(spoken, OVERFLOW)))
    with pytest.raises(openai.BadRequestError) as caught:
        make_client(client, sdk, model, mode).ask()
    assert caught.value.code == "context_length_exceeded"
