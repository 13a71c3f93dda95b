"""Regressions with timeouts, retries, heartbeats, secrets and unusual clients and backends."""

import gzip
import http.client
import json
import socket
import time
from collections.abc import Iterator

import pytest

from adapters.sse import BYTE_ORDER_MARK
from tests.gateway import raw_http
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.backend_requests import ENDPOINT_PATHS
from tests.gateway.conftest import NewModel
from tests.gateway.end_to_end.test_load import wait_until_blocked
from tests.gateway.gateway_config import DIALECTS, backend_table
from tests.gateway.gateway_process import Gateway, assert_no_errors_logged, run_gateway
from tests.gateway.pipeline.test_streams import asked
from tests.gateway.raw_http import send
from tests.gateway.scripted_backend import (
    JSON,
    ConnectionEnd,
    Gate,
    RepeatUntil,
    ScriptedBackend,
    chunk,
    json_reply,
    reply_head,
    stream_head,
    stream_reply,
)
from tests.gateway.waiting import TIMEOUT_SECONDS

TURN = Turn("One two three.")
KEY = "gsk_our_own_key_at_the_backend"

every_client = pytest.mark.parametrize("client", DIALECTS)


@pytest.fixture(scope="module")
def edge_gateway(
    backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Run a gateway with short timeouts of several kinds."""
    # Bound but not listening: the port refuses connections, and no other process can take it.
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    down = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    tables = [
        "[server]\nheartbeat_interval = 0.3\n[logging]\nbodies = true\n",
        backend_table(
            "", "down", "chat", "[backends.retries]\nmax_retries = 1\ninitial_backoff = 7\n"
        )
        .replace('url = "/down/v1"', f'url = "{down}"')
        .replace("down-*", "then-*"),
        backend_table(
            backend.address,
            "then",
            "chat",
            "[backends.timeouts]\nconnect = 4\nresponse_start = 0.3\n",
        ),
        backend_table(backend.address, "hasty", "chat", "[backends.timeouts]\nidle = 0.5\n"),
        backend_table(backend.address, "brisk", "chat", "[backends.timeouts]\nidle = 5\n"),
        backend_table(
            backend.address,
            "again",
            "chat",
            "[backends.timeouts]\nconnect = 2\nresponse_start = 3\n"
            "[backends.retries]\nstatus_codes = [429]\n",
        ),
        backend_table(backend.address, "secret", "chat", 'api_key_env = "EDGE_KEY"\n'),
        backend_table(
            backend.address, "streaming", "chat", '[backends.capabilities]\nstreaming = "only"\n'
        ),
        backend_table(backend.address, "responses", "responses"),
        backend_table(backend.address, "chat", "chat"),
    ]
    folder = tmp_path_factory.mktemp("edge_gateway")
    with closed, run_gateway("\n".join(tables), folder, {"EDGE_KEY": KEY}) as gateway:
        yield gateway


def _body(client: str, model: str, *, streams: bool = False) -> bytes:
    return json.dumps({**asked(client, model), "stream": streams}).encode()


# Heartbeats

PING = b": ping\n\n"
IN_PROGRESS = (
    b'event: response.in_progress\ndata: {"type":"response.in_progress","sequence_number":1,'
    b'"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}\n\n'
)


@every_client
@pytest.mark.parametrize(("dialect", "ping"), [("chat", PING), ("responses", IN_PROGRESS)])
def test_pings_of_the_backend_do_not_suppress_heartbeats(
    client: str,
    dialect: str,
    ping: bytes,
    edge_gateway: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    model, gate = new_model(dialect), Gate()
    backend.enqueue(model, stream_reply(RepeatUntil(ping, gate), *stream_events(dialect, TURN)))
    path = f"/v1{ENDPOINT_PATHS[client]}"
    with raw_http.StreamedResponse(edge_gateway.port, path, asked(client, model)) as response:
        heartbeat = b"in_progress" if client == "responses" else b":"
        response.read_until(heartbeat)
        gate.open()
        ending = b"response.completed" if client == "responses" else b"data: [DONE]"
        assert ending in response.read_all()


def test_pings_within_a_reply_do_not_suppress_heartbeats(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("chat"), Gate()
    events = stream_events("chat", TURN)
    backend.enqueue(model, stream_reply(*events[:2], RepeatUntil(PING, gate), *events[2:]))
    with raw_http.StreamedResponse(
        edge_gateway.port, "/v1/responses", asked("responses", model)
    ) as response:
        # One at the start, and more while the backend pings.
        response.read_until(b"event: response.in_progress", 3)
        gate.open()
        assert b"response.completed" in response.read_all()


def test_time_of_a_slow_client_does_not_count_as_silence_of_the_backend(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("brisk")
    first, *_, end, usage, done = stream_events("chat", TURN)
    # Far more than the buffers of the sockets hold.
    word = stream_events("chat", Turn("word"))[1].replace(b"word", b"word " * 2000)
    backend.enqueue(model, stream_reply(first, *[word] * 2000, end, usage, done))
    with raw_http.StreamedResponse(
        edge_gateway.port, "/v1/chat/completions", asked("chat", model)
    ) as response:
        response.read_until(b"word")
        wait_until_blocked(backend.wait_for_request(model))
        # Longer than the idle timeout of the backend.
        time.sleep(6)
        assert response.read_all().endswith(b"data: [DONE]\n\n")


# Timeouts and retries

# The offset of the time zone is out of range.
INVALID_DATE = "Wed, 18 Nov 2026 03:57:38 +9999999999999999"


def test_next_backend_has_its_own_timeouts(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("then"), Gate()
    backend.enqueue(model, (gate, *json_reply(reply_body("chat", TURN))))
    response = send(edge_gateway, "POST", "/v1/chat/completions", _body("chat", model))
    gate.open()
    assert (response.status, response.error["code"]) == (504, "backend_timeout")


def test_retry_after_does_not_count_as_a_timeout(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again")
    # Longer than the timeouts of the backend together.
    rate_limit = json_reply(
        b'{"error":{"message":"slow down"}}', status=429, headers={"Retry-After": "6"}
    )
    backend.enqueue(model, rate_limit, json_reply(reply_body("chat", TURN)))
    assert send(edge_gateway, "POST", "/v1/chat/completions", _body("chat", model)).status == 200


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "soon", "Wed, 99 Foo 2026", INVALID_DATE])
def test_invalid_retry_after_is_ignored(
    value: str, edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again")
    rate_limit = json_reply(
        b'{"error":{"message":"no"}}', status=429, headers={"Retry-After": value}
    )
    backend.enqueue(model, rate_limit, json_reply(reply_body("chat", TURN)))
    assert send(edge_gateway, "POST", "/v1/chat/completions", _body("chat", model)).status == 200


def test_error_whose_body_does_not_arrive_keeps_its_status(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("hasty"), Gate()
    backend.enqueue(
        model, (reply_head(429, {**JSON, "Content-Length": "9", "Retry-After": "7"}), gate)
    )
    response = send(edge_gateway, "POST", "/v1/responses", _body("responses", model))
    gate.open()
    assert (response.status, response.headers["retry-after"]) == (429, "7")


@pytest.mark.parametrize("client", ["chat", "legacy"])
def test_truncated_error_keeps_its_status(
    client: str, edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    # The gateway reads errors of this backend, because it requests encrypted reasoning.
    model = new_model("responses")
    backend.enqueue(
        model,
        (reply_head(400, {**JSON, "Content-Length": "99"}) + b'{"error":', ConnectionEnd.CLOSE),
    )
    response = send(edge_gateway, "POST", "/v1/chat/completions", _body(client, model))
    assert (response.status, response.error["type"]) == (400, "invalid_request_error")
    assert_no_errors_logged(edge_gateway)


# Secrets


@pytest.mark.parametrize("streams", [False, True])
@every_client
def test_backend_key_is_redacted_in_all_replies(
    client: str,
    edge_gateway: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
    *,
    streams: bool,
) -> None:
    error = json.dumps(
        {"error": {"message": f"wrong key {KEY}", "code": KEY, "type": KEY}}
    ).encode()
    headers = {"x-request-id": KEY}
    events = stream_events("chat", TURN)
    scripts = {
        "whole": json_reply(error, headers=headers),
        "as an event": stream_reply(b"data: " + error + b"\n\n", headers=headers),
        "in the middle": stream_reply(*events[:3], b"data: " + error + b"\n\n", headers=headers),
        "refused": json_reply(error, status=401, headers=headers),
    }
    for script in scripts.values():
        model = new_model("secret")
        backend.enqueue(model, script)
        response = send(
            edge_gateway,
            "POST",
            f"/v1{ENDPOINT_PATHS[client]}",
            _body(client, model, streams=streams),
        )
        assert KEY.encode() not in response.body
        assert KEY not in str(response.headers)
    assert KEY not in edge_gateway.log
    assert KEY.encode() not in send(edge_gateway, "GET", "/v1/metrics").body


# Unusual replies


def test_whole_reply_does_not_wait_until_the_stream_is_closed(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("streaming"), Gate()
    backend.enqueue(model, (stream_head(), *map(chunk, stream_events("chat", TURN)), gate))
    response = send(edge_gateway, "POST", "/v1/responses", _body("responses", model))
    gate.open()
    assert b"three" in response.body


@pytest.mark.parametrize("status", [204, 302, 307, 600, 999])
@every_client
def test_status_that_is_neither_success_nor_error(
    client: str, status: int, edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(
        model, json_reply(b"", status=status, headers={"Location": "http://127.0.0.1:1/"})
    )
    response = send(edge_gateway, "POST", f"/v1{ENDPOINT_PATHS[client]}", _body(client, model))
    assert response.status == 502
    assert f"status {status}" in str(response.error["message"])


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("status", [201, 202, 203])
@every_client
def test_other_success_statuses(
    client: str,
    status: int,
    edge_gateway: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
    *,
    streams: bool,
) -> None:
    # Some frameworks reply to POST with 201 by default.
    model = new_model("chat")
    backend.enqueue(model, json_reply(reply_body("chat", TURN), status=status))
    response = send(
        edge_gateway, "POST", f"/v1{ENDPOINT_PATHS[client]}", _body(client, model, streams=streams)
    )
    assert response.status == 200
    assert b"three" in response.body


@pytest.mark.parametrize("streams", [False, True])
@every_client
def test_byte_order_marks_are_skipped(
    client: str,
    edge_gateway: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
    *,
    streams: bool,
) -> None:
    model = new_model("chat")
    backend.enqueue(model, json_reply(BYTE_ORDER_MARK + reply_body("chat", TURN)))
    body = BYTE_ORDER_MARK + _body(client, model, streams=streams)
    response = send(edge_gateway, "POST", f"/v1{ENDPOINT_PATHS[client]}", body)
    assert response.status == 200
    assert b"three" in response.body
    assert backend.wait_for_request(model).body.startswith(b"{")


def test_negative_token_counts_do_not_break_the_metrics(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    negative_counts = reply_body("chat", TURN).replace(b'"prompt_tokens":7', b'"prompt_tokens":-7')
    backend.enqueue(model, json_reply(negative_counts), json_reply(negative_counts))
    connection = http.client.HTTPConnection("127.0.0.1", edge_gateway.port, timeout=TIMEOUT_SECONDS)
    for _ in range(2):
        connection.request("POST", "/v1/responses", _body("responses", model))
        assert connection.getresponse().read()
    connection.close()
    assert "Exception in ASGI application" not in edge_gateway.log


# Unusual requests


@pytest.mark.parametrize(
    ("host", "status"), [("x", 404), ("[::1]:80", 404), ("a~b,c", 404), ("", 404), ("a/b", 400)]
)
def test_only_invalid_host_headers_are_rejected(
    host: str, status: int, edge_gateway: Gateway
) -> None:
    body = json.dumps({"model": "nobody", "input": "Hello."}).encode()
    response = send(edge_gateway, "POST", "/v1/responses", body, {"Host": host})
    assert response.status == status
    assert response.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/health", "/v1/ready"])
def test_probes_support_head_requests(path: str, edge_gateway: Gateway) -> None:
    response = send(edge_gateway, "HEAD", path)
    assert (response.status, response.body) == (200, b"")


def test_dry_run_accepts_compressed_bodies(edge_gateway: Gateway) -> None:
    request = {
        "from": "chat",
        "to": "legacy",
        "body": {"model": "m", "messages": [{"role": "user"}]},
    }
    body = gzip.compress(json.dumps(request).encode())
    response = send(edge_gateway, "POST", "/v1/translate", body, {"Content-Encoding": "gzip"})
    assert response.status == 200


def test_long_model_names_are_not_kept_in_memory(edge_gateway: Gateway) -> None:
    before = edge_gateway.memory()
    for number in range(8):
        body = json.dumps({"model": f"{number}" * 4_000_000, "messages": []}).encode()
        assert send(edge_gateway, "POST", "/v1/chat/completions", body).status == 404
    assert edge_gateway.memory() - before < 60_000_000
    assert max(map(len, edge_gateway.lines)) < 1_500_000


def test_hop_by_hop_headers_are_not_forwarded(
    edge_gateway: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    headers = {"Connection": "close, x-request-id", "x-request-id": "for the gateway"}
    backend.enqueue(model, json_reply(reply_body("chat", TURN), headers=headers))
    request_headers = {"Connection": "keep-alive, X-Title", "X-Title": "for the gateway"}
    response = send(
        edge_gateway, "POST", "/v1/chat/completions", _body("chat", model), request_headers
    )
    assert "x-title" not in backend.wait_for_request(model).headers
    assert response.headers["x-request-id"] != "for the gateway"
