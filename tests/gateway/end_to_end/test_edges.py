"""Regressions with timeouts, retries, heartbeats and unusual clients and backends."""

import gzip
import http.client
import json
import time
from collections.abc import Iterator

import pytest

from adapters.sse import BYTE_ORDER_MARK
from gateway.pytest_plugin.scripted_backend import (
    JSON,
    ConnectionEnd,
    Gate,
    RepeatUntil,
    Script,
    ScriptedBackend,
    chunk,
    json_reply,
    reply_head,
    stream_head,
    stream_reply,
)
from tests.gateway.addresses import refusing_address
from tests.gateway.backend_replies import Turn, reply_body, stream_events
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.end_to_end.test_load import wait_until_blocked
from tests.gateway.gateway_config import DIALECTS, STREAMED_OR_NOT, backend_table, capability_table
from tests.gateway.gateway_process import assert_no_errors_logged, memory
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.waiting import TIMEOUT_SECONDS

TURN = Turn("One two three.")
REPLY = json_reply(reply_body("chat", TURN))

every_client = pytest.mark.parametrize("client", DIALECTS)


@pytest.fixture(scope="module")
def edges(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway with short timeouts of several kinds."""
    settings = {
        "then": "timeouts = { connect = 4, response_start = 0.3 }\n",
        "hasty": "timeouts = { idle = 0.5 }\n",
        "brisk": "timeouts = { idle = 5 }\n",
        "again": "timeouts = { connect = 2, response_start = 3 }\nretries.status_codes = [429]\n",
        "streaming": capability_table('streaming = "only"'),
        "chat": "",
    }
    with refusing_address() as refusing:
        retries = "retries = { max_retries = 1, initial_backoff = 7 }\n"
        tables = [
            "[server]\nheartbeat_interval = 0.3\n[logging]\nbodies = true\n",
            backend_table(refusing, "down", "chat", retries).replace("down-*", "then-*"),
            *(backend_table(backend.address, name, "chat", settings[name]) for name in settings),
            backend_table(backend.address, "responses", "responses"),
        ]
        folder = tmp_path_factory.mktemp("edges")
        with run_harness(backend, "\n".join(tables), folder) as harness:
            yield harness


# Heartbeats

PING = b": ping\n\n"
IN_PROGRESS = (
    b'event: response.in_progress\ndata: {"type":"response.in_progress","sequence_number":1,'
    b'"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}\n\n'
)


@every_client
@pytest.mark.parametrize(("dialect", "ping"), [("chat", PING), ("responses", IN_PROGRESS)])
def test_pings_of_the_backend_do_not_suppress_heartbeats(
    client: str, dialect: str, ping: bytes, edges: Harness
) -> None:
    gate = Gate()
    script = stream_reply(RepeatUntil(ping, gate), *stream_events(dialect, TURN))
    with edges.stream(client, edges.enqueue(dialect, script)) as response:
        response.read_until(b"in_progress" if client == "responses" else b":")
        gate.open()
        ending = b"response.completed" if client == "responses" else b"data: [DONE]"
        assert ending in response.read_all()


def test_pings_within_a_reply_do_not_suppress_heartbeats(edges: Harness) -> None:
    gate, events = Gate(), stream_events("chat", TURN)
    model = edges.enqueue("chat", stream_reply(*events[:2], RepeatUntil(PING, gate), *events[2:]))
    with edges.stream("responses", model) as response:
        # One at the start, and more while the backend pings.
        response.read_until(b"event: response.in_progress", 3)
        gate.open()
        assert b"response.completed" in response.read_all()


def test_time_of_a_slow_client_does_not_count_as_silence_of_the_backend(edges: Harness) -> None:
    first, *_, end, usage, done = stream_events("chat", TURN)
    # Far more than the buffers of the sockets hold.
    word = stream_events("chat", Turn("word"))[1].replace(b"word", b"word " * 2000)
    model = edges.enqueue("brisk", stream_reply(first, *[word] * 2000, end, usage, done))
    with edges.stream("chat", model) as response:
        response.read_until(b"word")
        wait_until_blocked(edges.backend.wait_for_request(model))
        # Longer than the idle timeout of the backend.
        time.sleep(6)
        assert response.read_all().endswith(b"data: [DONE]\n\n")


# Timeouts and retries

# The offset of the time zone is out of range.
INVALID_DATE = "Wed, 18 Nov 2026 03:57:38 +9999999999999999"


def test_next_backend_has_its_own_timeouts(edges: Harness) -> None:
    gate = Gate()
    response = edges.request("chat", edges.enqueue("then", (gate, *REPLY)))
    gate.open()
    assert (response.status, response.error["code"]) == (504, "backend_timeout")


@pytest.mark.parametrize(
    "value",
    [
        # Longer than the timeouts of the backend together.
        "6",
        # Invalid values are ignored.
        *("nan", "inf", "-1", "soon", "Wed, 99 Foo 2026", INVALID_DATE),
    ],
)
def test_request_is_retried_after_any_retry_after(value: str, edges: Harness) -> None:
    error = b'{"error":{"message":"slow down"}}'
    rate_limit = json_reply(error, status=429, headers={"Retry-After": value})
    assert edges.request("chat", edges.enqueue("again", rate_limit, REPLY)).status == 200


def test_error_whose_body_does_not_arrive_keeps_its_status(edges: Harness) -> None:
    gate = Gate()
    head = reply_head(429, {**JSON, "Content-Length": "9", "Retry-After": "7"})
    response = edges.request("responses", edges.enqueue("hasty", (head, gate)))
    gate.open()
    assert (response.status, response.headers["retry-after"]) == (429, "7")


@pytest.mark.parametrize("client", ["chat", "legacy"])
def test_truncated_error_keeps_its_status(client: str, edges: Harness) -> None:
    # The gateway reads errors of this backend, because it requests encrypted reasoning.
    start = reply_head(400, {**JSON, "Content-Length": "99"}) + b'{"error":'
    response = edges.request(client, edges.enqueue("responses", (start, ConnectionEnd.CLOSE)))
    assert (response.status, response.error["type"]) == (400, "invalid_request_error")
    assert_no_errors_logged(edges.gateway)


# Unusual replies


def test_whole_reply_does_not_wait_until_the_stream_is_closed(edges: Harness) -> None:
    gate = Gate()
    script: Script = (stream_head(), *map(chunk, stream_events("chat", TURN)), gate)
    response = edges.request("responses", edges.enqueue("streaming", script))
    gate.open()
    assert b"three" in response.body


@pytest.mark.parametrize("status", [204, 302, 307, 600, 999])
@every_client
def test_status_that_is_neither_success_nor_error(client: str, status: int, edges: Harness) -> None:
    reply = json_reply(b"", status=status, headers={"Location": "http://127.0.0.1:1/"})
    response = edges.request(client, edges.enqueue("chat", reply))
    assert response.status == 502
    assert f"status {status}" in str(response.error["message"])


@STREAMED_OR_NOT
@pytest.mark.parametrize("status", [201, 202, 203])
@every_client
def test_other_success_statuses(
    client: str, status: int, edges: Harness, *, streamed: bool
) -> None:
    # Some frameworks reply to POST with 201 by default.
    model = edges.enqueue("chat", json_reply(reply_body("chat", TURN), status=status))
    response = edges.request(client, model, streamed=streamed)
    assert response.status == 200
    assert b"three" in response.body


@STREAMED_OR_NOT
@every_client
def test_byte_order_marks_are_skipped(client: str, edges: Harness, *, streamed: bool) -> None:
    model = edges.enqueue("chat", json_reply(BYTE_ORDER_MARK + reply_body("chat", TURN)))
    body = json.dumps(request_body(client, model, streamed=streamed)).encode()
    response = edges.post(BYTE_ORDER_MARK + body, request_path(client))
    assert response.status == 200
    assert b"three" in response.body
    assert edges.backend.wait_for_request(model).body.startswith(b"{")


def test_negative_token_counts_do_not_break_the_metrics(edges: Harness) -> None:
    body = reply_body("chat", TURN).replace(b'"prompt_tokens":7', b'"prompt_tokens":-7')
    model = edges.enqueue("chat", *[json_reply(body)] * 2)
    request = json.dumps(request_body("responses", model))
    port = edges.gateway.port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    for _ in range(2):
        connection.request("POST", "/v1/responses", request)
        assert connection.getresponse().read()
    connection.close()
    assert "Exception in ASGI application" not in edges.gateway.log


# Unusual requests


@pytest.mark.parametrize(
    ("host", "status"), [("x", 404), ("[::1]:80", 404), ("a~b,c", 404), ("", 404), ("a/b", 400)]
)
def test_only_invalid_host_headers_are_rejected(host: str, status: int, edges: Harness) -> None:
    response = edges.post({"model": "nobody", "input": "Hello."}, headers={"Host": host})
    assert response.status == status
    assert response.error["type"] == "invalid_request_error"


def test_dry_run_accepts_compressed_bodies(edges: Harness) -> None:
    body = {"model": "m", "messages": [{"role": "user"}]}
    request = gzip.compress(json.dumps({"from": "chat", "to": "legacy", "body": body}).encode())
    assert edges.post(request, "/v1/translate", {"Content-Encoding": "gzip"}).status == 200


def test_long_model_names_are_not_kept_in_memory(edges: Harness) -> None:
    before = memory(edges.gateway)
    for number in range(8):
        body = {"model": f"{number}" * 4_000_000, "messages": list[object]()}
        assert edges.post(body, "/v1/chat/completions").status == 404
    assert memory(edges.gateway) - before < 60_000_000
    assert max(map(len, edges.gateway.lines)) < 1_500_000


def test_hop_by_hop_headers_are_not_forwarded(edges: Harness) -> None:
    headers = {"Connection": "close, x-request-id", "x-request-id": "for the gateway"}
    model = edges.enqueue("chat", json_reply(reply_body("chat", TURN), headers=headers))
    request_headers = {"Connection": "keep-alive, X-Title", "X-Title": "for the gateway"}
    response = edges.request("chat", model, request_headers)
    assert "x-title" not in edges.backend.wait_for_request(model).headers
    assert response.headers["x-request-id"] != "for the gateway"
