"""What once went wrong where a client, a backend and a clock meet."""

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
def edgy(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run a gateway whose patience is short, in several ways."""
    # Bound but not listening: nobody else gets this port, and nobody answers at it.
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
    folder = tmp_path_factory.mktemp("edgy")
    with closed, run_gateway("\n".join(tables), folder, {"EDGE_KEY": KEY}) as gateway:
        yield gateway


def _ask(client: str, model: str, *, streams: bool = False) -> bytes:
    return json.dumps({**asked(client, model), "stream": streams}).encode()


# Signs of life

PING = b": ping\n\n"
IN_PROGRESS = (
    b'event: response.in_progress\ndata: {"type":"response.in_progress","sequence_number":1,'
    b'"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}\n\n'
)


@every_client
@pytest.mark.parametrize(("spoken", "noise"), [("chat", PING), ("responses", IN_PROGRESS)])
def test_a_backend_that_only_pings_does_not_hold_back_ours(
    client: str,
    spoken: str,
    noise: bytes,
    edgy: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
) -> None:
    """A client sees its stream begin, and go on, long before the backend says anything."""
    model, gate = new_model(spoken), Gate()
    backend.enqueue(model, stream_reply(RepeatUntil(noise, gate), *stream_events(spoken, TURN)))
    path = f"/v1{ENDPOINT_PATHS[client]}"
    with raw_http.StreamedResponse(edgy.port, path, asked(client, model)) as answered:
        sign = b"in_progress" if client == "responses" else b":"
        answered.read_until(sign)
        gate.open()
        ending = b"response.completed" if client == "responses" else b"data: [DONE]"
        assert ending in answered.read_all()


def test_pings_in_the_middle_do_not_silence_us_either(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("chat"), Gate()
    said = stream_events("chat", TURN)
    backend.enqueue(model, stream_reply(*said[:2], RepeatUntil(PING, gate), *said[2:]))
    with raw_http.StreamedResponse(
        edgy.port, "/v1/responses", asked("responses", model)
    ) as answered:
        # One at the beginning, and more while the backend pings.
        answered.read_until(b"event: response.in_progress", 3)
        gate.open()
        assert b"response.completed" in answered.read_all()


def test_a_slow_client_is_not_the_backends_fault(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("brisk")
    text = Turn("word " * 2000)
    many = [stream_events("chat", text)[1]] * 2000
    backend.enqueue(
        model,
        stream_reply(stream_events("chat", TURN)[0], *many, *stream_events("chat", TURN)[-3:]),
    )
    with raw_http.StreamedResponse(
        edgy.port, "/v1/chat/completions", asked("chat", model)
    ) as answered:
        answered.read_until(b"word")
        # Longer than the backend may be silent; what it sends meanwhile fills all buffers.
        time.sleep(6)
        assert answered.read_all().endswith(b"data: [DONE]\n\n")


# Timeouts and retries

# A date in a zone that is further away than can be counted.
FAR_EAST = "Wed, 18 Nov 2026 03:57:38 +9999999999999999"


def test_the_next_backend_has_its_own_patience(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("then"), Gate()
    backend.enqueue(model, (gate, *json_reply(reply_body("chat", TURN))))
    answered = send(edgy, "POST", "/v1/chat/completions", _ask("chat", model))
    gate.open()
    assert (answered.status, answered.error["code"]) == (504, "backend_timeout")


def test_a_pause_that_was_asked_for_is_no_timeout(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again")
    # Longer than all that the backend may take.
    limited = json_reply(
        b'{"error":{"message":"slow down"}}', status=429, headers={"Retry-After": "6"}
    )
    backend.enqueue(model, limited, json_reply(reply_body("chat", TURN)))
    assert send(edgy, "POST", "/v1/chat/completions", _ask("chat", model)).status == 200


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "soon", "Wed, 99 Foo 2026", FAR_EAST])
def test_a_pause_that_makes_no_sense_is_ours_to_choose(
    value: str, edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("again")
    limited = json_reply(b'{"error":{"message":"no"}}', status=429, headers={"Retry-After": value})
    backend.enqueue(model, limited, json_reply(reply_body("chat", TURN)))
    assert send(edgy, "POST", "/v1/chat/completions", _ask("chat", model)).status == 200


def test_an_error_whose_words_never_come_keeps_its_status(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("hasty"), Gate()
    backend.enqueue(
        model, (reply_head(429, {**JSON, "Content-Length": "9", "Retry-After": "7"}), gate)
    )
    answered = send(edgy, "POST", "/v1/responses", _ask("responses", model))
    gate.open()
    assert (answered.status, answered.headers["retry-after"]) == (429, "7")


@pytest.mark.parametrize("client", ["chat", "legacy"])
def test_a_refusal_that_is_cut_off_keeps_its_status(
    client: str, edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    # Such a backend is asked to seal its thoughts, so its refusal is looked at.
    model = new_model("responses")
    backend.enqueue(
        model,
        (reply_head(400, {**JSON, "Content-Length": "99"}) + b'{"error":', ConnectionEnd.CLOSE),
    )
    answered = send(edgy, "POST", "/v1/chat/completions", _ask(client, model))
    assert (answered.status, answered.error["type"]) == (400, "invalid_request_error")
    assert_no_errors_logged(edgy)


# Secrets


@pytest.mark.parametrize("streams", [False, True])
@every_client
def test_our_key_is_not_told_whatever_the_backend_says(
    client: str, edgy: Gateway, backend: ScriptedBackend, new_model: NewModel, *, streams: bool
) -> None:
    error = json.dumps(
        {"error": {"message": f"wrong key {KEY}", "code": KEY, "type": KEY}}
    ).encode()
    leak = {"x-request-id": KEY}
    said = stream_events("chat", TURN)
    scripts = {
        "whole": json_reply(error, headers=leak),
        "as an event": stream_reply(b"data: " + error + b"\n\n", headers=leak),
        "in the middle": stream_reply(*said[:3], b"data: " + error + b"\n\n", headers=leak),
        "refused": json_reply(error, status=401, headers=leak),
    }
    for script in scripts.values():
        model = new_model("secret")
        backend.enqueue(model, script)
        answered = send(
            edgy, "POST", f"/v1{ENDPOINT_PATHS[client]}", _ask(client, model, streams=streams)
        )
        assert KEY.encode() not in answered.body
        assert KEY not in str(answered.headers)
    assert KEY not in edgy.log
    assert KEY.encode() not in send(edgy, "GET", "/v1/metrics").body


# Backends that do not know when to stop, or what to say


def test_a_whole_answer_does_not_wait_for_a_stream_to_be_closed(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model, gate = new_model("streaming"), Gate()
    backend.enqueue(model, (stream_head(), *map(chunk, stream_events("chat", TURN)), gate))
    answered = send(edgy, "POST", "/v1/responses", _ask("responses", model))
    gate.open()
    assert b"three" in answered.body


@pytest.mark.parametrize("status", [204, 302, 307, 600, 999])
@every_client
def test_a_status_that_is_neither_yes_nor_no(
    client: str, status: int, edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    backend.enqueue(
        model, json_reply(b"", status=status, headers={"Location": "http://127.0.0.1:1/"})
    )
    answered = send(edgy, "POST", f"/v1{ENDPOINT_PATHS[client]}", _ask(client, model))
    assert answered.status == 502
    assert f"status {status}" in str(answered.error["message"])


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("status", [201, 202, 203])
@every_client
def test_a_status_that_says_yes_in_another_way(
    client: str,
    status: int,
    edgy: Gateway,
    backend: ScriptedBackend,
    new_model: NewModel,
    *,
    streams: bool,
) -> None:
    # Some frameworks answer every POST with 201 unless they are told otherwise.
    model = new_model("chat")
    backend.enqueue(model, json_reply(reply_body("chat", TURN), status=status))
    answered = send(
        edgy, "POST", f"/v1{ENDPOINT_PATHS[client]}", _ask(client, model, streams=streams)
    )
    assert answered.status == 200
    assert b"three" in answered.body


@pytest.mark.parametrize("streams", [False, True])
@every_client
def test_a_mark_that_windows_begins_files_with_is_passed_over(
    client: str, edgy: Gateway, backend: ScriptedBackend, new_model: NewModel, *, streams: bool
) -> None:
    model = new_model("chat")
    backend.enqueue(model, json_reply(BYTE_ORDER_MARK + reply_body("chat", TURN)))
    body = BYTE_ORDER_MARK + _ask(client, model, streams=streams)
    answered = send(edgy, "POST", f"/v1{ENDPOINT_PATHS[client]}", body)
    assert answered.status == 200
    assert b"three" in answered.body
    assert backend.wait_for_request(model).body.startswith(b"{")


def test_counts_below_nothing_harm_nobody(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    strange = reply_body("chat", TURN).replace(b'"prompt_tokens":7', b'"prompt_tokens":-7')
    backend.enqueue(model, json_reply(strange), json_reply(strange))
    connection = http.client.HTTPConnection("127.0.0.1", edgy.port, timeout=TIMEOUT_SECONDS)
    for _ in range(2):
        connection.request("POST", "/v1/responses", _ask("responses", model))
        assert connection.getresponse().read()
    connection.close()
    assert "Exception in ASGI application" not in edgy.log


# Clients with manners of their own


@pytest.mark.parametrize(
    ("host", "status"), [("x", 404), ("[::1]:80", 404), ("a~b,c", 404), ("", 404), ("a/b", 400)]
)
def test_only_a_host_that_cannot_be_one_is_refused(host: str, status: int, edgy: Gateway) -> None:
    body = json.dumps({"model": "nobody", "input": "Hello."}).encode()
    told = send(edgy, "POST", "/v1/responses", body, {"Host": host})
    assert told.status == status
    assert told.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/health", "/v1/ready"])
def test_probes_may_ask_for_the_head_alone(path: str, edgy: Gateway) -> None:
    answered = send(edgy, "HEAD", path)
    assert (answered.status, answered.body) == (200, b"")


def test_the_dry_run_takes_compressed_bodies(edgy: Gateway) -> None:
    errand = {
        "from": "chat",
        "to": "legacy",
        "body": {"model": "m", "messages": [{"role": "user"}]},
    }
    body = gzip.compress(json.dumps(errand).encode())
    assert send(edgy, "POST", "/v1/translate", body, {"Content-Encoding": "gzip"}).status == 200


def test_names_without_end_are_not_remembered(edgy: Gateway) -> None:
    before = edgy.memory()
    for number in range(8):
        body = json.dumps({"model": f"{number}" * 4_000_000, "messages": []}).encode()
        assert send(edgy, "POST", "/v1/chat/completions", body).status == 404
    assert edgy.memory() - before < 60_000_000
    assert max(map(len, edgy.lines)) < 1_500_000


def test_headers_that_are_meant_for_one_hop_go_no_further(
    edgy: Gateway, backend: ScriptedBackend, new_model: NewModel
) -> None:
    model = new_model("chat")
    named = {"Connection": "close, x-request-id", "x-request-id": "for you alone"}
    backend.enqueue(model, json_reply(reply_body("chat", TURN), headers=named))
    hops = {"Connection": "keep-alive, X-Title", "X-Title": "for us alone"}
    answered = send(edgy, "POST", "/v1/chat/completions", _ask("chat", model), hops)
    assert "x-title" not in backend.wait_for_request(model).headers
    assert answered.headers["x-request-id"] != "for you alone"
