"""A backend's key is redacted in errors, headers and logs, and never in model output."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.backends.key_redaction import key_redactor
from gateway.pytest_plugin.scripted_backend import Script, ScriptedBackend, json_reply, stream_reply
from tests.gateway.backend_replies import Call, Turn, reply_body, stream_events
from tests.gateway.conftest import Harness, run_harness
from tests.gateway.gateway_config import DIALECTS, EVERY_PAIR, STREAMED_OR_NOT, backend_table
from tests.gateway.gateway_process import log_line_naming
from tests.gateway.plain_requests import request_body, request_path
from tests.gateway.raw_http import RawResponse
from tests.judges.reading import JsonObject

PLACEHOLDERS = {
    "empty": "EMPTY",
    "none": "none",
    "ollama": "ollama",
    "test": "test",
    "long": "sk-no-key-required",
}
# With characters that some JSON encoders escape.
REAL = 'Ab3/9"x+Qz7Lm2Kp8Rt5Vw1Yc4Ne6Gh0'
KEYS = {**PLACEHOLDERS, "real": REAL}
ALL_KEYS = " ".join(KEYS.values())
# The key of each backend is in the text, in the arguments and in a field name.
ARGUMENTS = json.dumps({"city": ALL_KEYS, "test": "none", REAL: ["EMPTY", "ollama"]})
TURN = Turn(f"Say: {ALL_KEYS}!", (Call("get_weather", ARGUMENTS),))
REDACTED = "[redacted]"

every_key = pytest.mark.parametrize("key", KEYS)
every_client = pytest.mark.parametrize("client", DIALECTS)
every_backend = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.fixture(scope="module")
def keyed(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Run a gateway that logs bodies, with a backend for each key and dialect."""
    tables = [
        backend_table(backend.address, f"{key}-{dialect}", dialect, f'api_key_env = "KEY_{key}"\n')
        for key in KEYS
        for dialect in DIALECTS
    ]
    config = "\n".join(["[logging]\nbodies = true\n", *tables])
    variables = {f"KEY_{key}": value for key, value in KEYS.items()}
    with run_harness(backend, config, tmp_path_factory.mktemp("keyed"), variables) as harness:
        yield harness
    assert REAL not in harness.gateway.log
    assert json.dumps(REAL)[1:-1] not in harness.gateway.log


def _send(keyed: Harness, client: str, model: str, *, streamed: bool) -> RawResponse:
    body = request_body(client, model, streamed=streamed)
    if client == "responses":
        body["store"] = False
    return keyed.post(body, request_path(client))


# Model output


@every_key
@every_backend
@STREAMED_OR_NOT
def test_reply_in_the_same_dialect_keeps_every_byte(
    key: str, dialect: str, keyed: Harness, *, streamed: bool
) -> None:
    if streamed:
        body = b"".join(stream_events(dialect, TURN))
        script = stream_reply(body)
    else:
        # An unknown field, and whitespace that our encoder does not write.
        more = {"EMPTY": {"none": "ollama"}, "test sk-no-key-required": 1, "error": None}
        body = json.dumps({**json.loads(reply_body(dialect, TURN)), **more}, indent=1).encode()
        script = json_reply(body)
    model = keyed.enqueue(f"{key}-{dialect}", script)
    response = _send(keyed, dialect, model, streamed=streamed)
    assert response.status == 200
    assert response.body == body


@every_key
@EVERY_PAIR
@pytest.mark.parametrize("mode", ["unary", "raw"])
def test_translated_reply_keeps_the_model_output(
    key: str, dialect: str, client: str, mode: str, keyed: Harness
) -> None:
    model = keyed.script(f"{key}-{dialect}", TURN)
    assert keyed.ask(client, model, mode) == TURN


# Headers


@every_client
@pytest.mark.parametrize("key", PLACEHOLDERS)
@STREAMED_OR_NOT
def test_placeholder_key_is_not_redacted(
    key: str, client: str, keyed: Harness, *, streamed: bool
) -> None:
    value = KEYS[key]
    error = {"message": f"no {value}", "type": value, "param": None, "code": None}
    body = json.dumps({"error": error}).encode()
    script = json_reply(body, status=400, headers={"x-request-id": value})
    model = keyed.enqueue(f"{key}-chat", script)
    response = _send(keyed, client, model, streamed=streamed)
    assert response.error == error
    assert response.headers["x-request-id"] == value


@every_client
@STREAMED_OR_NOT
def test_key_in_a_header_is_redacted(client: str, keyed: Harness, *, streamed: bool) -> None:
    headers = {"x-request-id": REAL, "openai-organization": f"of {REAL}"}
    stream = stream_reply(*stream_events("chat", TURN), headers=headers)
    whole = json_reply(reply_body("chat", TURN), headers=headers)
    model = keyed.enqueue("real-chat", stream if streamed else whole)
    response = _send(keyed, client, model, streamed=streamed)
    assert response.status == 200
    assert response.headers["x-request-id"] == REDACTED
    assert response.headers["openai-organization"] == f"of {REDACTED}"
    assert f'"request_id":"{REDACTED}"' in log_line_naming(keyed.gateway, model)


# Errors

ERROR: JsonObject = {"message": f"bad {REAL}", "type": REAL, "param": None, "code": REAL, "x": REAL}


def _escaped(value: JsonObject) -> bytes:
    """Encode with more escapes than JSON requires, as some servers do."""
    return json.dumps(value).replace("/", "\\/").replace("+", "\\u002B").encode()


@pytest.mark.parametrize("status", [200, 401, 500])
@EVERY_PAIR
@STREAMED_OR_NOT
def test_key_in_an_error_body_is_redacted(
    status: int, dialect: str, client: str, keyed: Harness, *, streamed: bool
) -> None:
    for body in (json.dumps({"error": ERROR}).encode(), _escaped({"error": ERROR})):
        reply = json_reply(body, status=status, headers={"x-request-id": REAL})
        response = _send(keyed, client, keyed.enqueue(f"real-{dialect}", reply), streamed=streamed)
        assert response.status == (status if status >= 400 else 500)
        assert response.error["message"] == f"bad {REDACTED}"
        assert response.error["code"] == REDACTED
        assert "Ab3" not in response.body.decode()
        assert REAL not in str(response.headers)


@pytest.mark.parametrize(
    "error",
    [
        {"detail": f"bad {REAL}"},
        {"code": 500, "message": f"bad {REAL}", "success": False},
        {"success": False, "errors": [{"text": f"bad {REAL}"}]},
        ERROR,
    ],
)
@EVERY_PAIR
@STREAMED_OR_NOT
def test_key_in_an_unmarked_error_is_redacted(
    error: JsonObject, dialect: str, client: str, keyed: Harness, *, streamed: bool
) -> None:
    event = b"data: " + json.dumps(error).encode() + b"\n\n"
    for reply in (json_reply(json.dumps(error).encode()), stream_reply(event)):
        response = _send(keyed, client, keyed.enqueue(f"real-{dialect}", reply), streamed=streamed)
        assert "Ab3" not in response.body.decode()


def _failing_streams(dialect: str) -> list[Script]:
    """Return streams that fail after a text with the key, with every form of error of a dialect."""
    sent = stream_events(dialect, Turn(f"{REAL} and {'more ' * 20}"))
    errors = [b"data: " + json.dumps({"error": ERROR}).encode()]
    if dialect == "responses":
        sent = sent[:-2]
        failed = {**json.loads(reply_body("responses", TURN)), "status": "failed", "error": ERROR}
        ended = {"type": "response.failed", "response": failed}
        errors = [
            b"event: error\ndata: " + json.dumps(ERROR | {"type": "error"}).encode(),
            b"event: response.failed\ndata: " + json.dumps(ended).encode(),
        ]
    else:
        sent = sent[:-3]
        choice = {"index": 0, "delta": {"content": REAL}, "finish_reason": "error"}
        beside = {"id": "chatcmpl-1", "choices": [choice], "error": ERROR}
        errors += [
            b"data: " + _escaped({"object": "error", **ERROR}),
            b"event: error\ndata: " + json.dumps(ERROR).encode(),
            b"data: " + json.dumps([{"error": ERROR}]).encode(),
            b"data: " + json.dumps(beside, indent=1).replace("\n", "\ndata: ").encode(),
        ]
    return [stream_reply(*sent, error + b"\n\n") for error in errors]


@EVERY_PAIR
@STREAMED_OR_NOT
def test_key_in_a_stream_error_is_redacted(
    dialect: str, client: str, keyed: Harness, *, streamed: bool
) -> None:
    for script in _failing_streams(dialect):
        model = keyed.enqueue(f"real-{dialect}", script)
        text = _send(keyed, client, model, streamed=streamed).body.decode()
        assert f"bad {REDACTED}" in text
        assert f"bad {REAL[:3]}" not in text
        if streamed:
            # The text before the error is unchanged.
            deltas = re.findall(r'"(?:content|delta)": ?"((?:[^"\\]|\\.)*)"', text)
            assert json.dumps(f"{REAL} and more")[1:-1] in "".join(deltas)


def test_only_the_error_of_an_event_is_redacted(keyed: Harness) -> None:
    *sent, done = stream_events("chat", TURN, usage=False)
    last = json.loads(sent.pop().removeprefix(b"data: "))
    last["choices"][0] |= {"delta": {"content": REAL}, "error": ERROR}
    event = b"id: 1\ndata: " + json.dumps(last | {"error": ERROR}).encode() + b"\n\n"
    model = keyed.enqueue("real-chat", stream_reply(*sent, event, done))
    body = _send(keyed, "chat", model, streamed=True).body
    assert body.startswith(b"".join(sent))
    last = json.loads(body.removeprefix(b"".join(sent)).split(b"\n")[0].removeprefix(b"data: "))
    redacted = {**dict.fromkeys(ERROR, REDACTED), "message": f"bad {REDACTED}", "param": None}
    assert last["error"] == redacted
    assert last["choices"][0]["error"] == redacted
    assert last["choices"][0]["delta"] == {"content": REAL}


def test_choice_without_a_message_is_no_error(keyed: Harness) -> None:
    choice = {"index": 0, "message": None, "delta": {"content": REAL}, "text": REAL}
    first, *events = stream_events("chat", TURN, usage=False)
    fields = json.loads(first.removeprefix(b"data: ")) | {"choices": [choice]}
    chunk = b"data: " + json.dumps(fields).encode() + b"\n\n"
    model = keyed.enqueue("real-chat", stream_reply(first, chunk, *events))
    body = _send(keyed, "chat", model, streamed=True).body
    assert body == b"".join([first, chunk, *events])


def test_key_in_a_comment_is_redacted(keyed: Harness) -> None:
    events = stream_events("chat", TURN, usage=False)
    model = keyed.enqueue("real-chat", stream_reply(f": bad {REAL}\n\n".encode(), *events))
    body = _send(keyed, "chat", model, streamed=True).body
    assert body == f": bad {REDACTED}\n\n".encode() + b"".join(events)


def test_only_the_error_of_a_failed_response_is_redacted(keyed: Harness) -> None:
    failed = json.loads(reply_body("responses", TURN)) | {"status": "failed", "error": ERROR}
    model = keyed.enqueue("real-responses", json_reply(json.dumps(failed).encode()))
    response = _send(keyed, "responses", model, streamed=False).json()
    assert response["output"] == failed["output"]
    assert REAL not in json.dumps(response["error"])
    assert REDACTED in json.dumps(response["error"])


@pytest.mark.parametrize("status", [200, 400])
def test_key_in_a_compaction_error_is_redacted(
    status: int, backend: ScriptedBackend, tmp_path: Path
) -> None:
    settings = 'api_key_env = "A_KEY"\nprofile = "openai"\n'
    config = backend_table(backend.address, "compacting", "responses", settings)
    body = json.dumps({"error": ERROR}).encode()
    script = json_reply(body, status=status, headers={"openai-organization": REAL})
    with run_harness(backend, config, tmp_path, {"A_KEY": REAL}) as compacting:
        model = compacting.enqueue("compacting", script)
        response = compacting.post({"model": model, "input": "hi"}, "/v1/responses/compact")
    assert response.error["message"] == f"bad {REDACTED}"
    assert response.headers["openai-organization"] == REDACTED
    assert "Ab3" not in response.body.decode()


# Logs


@STREAMED_OR_NOT
def test_key_in_a_reply_is_redacted_in_the_log(keyed: Harness, *, streamed: bool) -> None:
    # The last event of a stream, and the whole reply, have the complete text.
    model = keyed.script("real-responses", f"{REAL} and {'more ' * 20}")
    response = _send(keyed, "responses", model, streamed=streamed)
    assert REDACTED not in response.body.decode()
    assert REAL[:5] not in log_line_naming(keyed.gateway, model)
    assert REDACTED in log_line_naming(keyed.gateway, model)


# Keys that are redacted


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        *PLACEHOLDERS.values(),
        "SK-NO-KEY-REQUIRED",
        "your_api_key_here",
        "x" * 32,
        "sk-" + "X" * 40,
        "a-short-key-1234"[:15],
    ],
)
def test_placeholders_and_short_keys_are_not_redacted(key: str | None) -> None:
    assert key_redactor(key) is None


@pytest.mark.parametrize("key", ["a-short-key-1234", REAL, "\\" * 3 + "abcdefghijklm"])
def test_key_is_redacted_with_any_escaping(key: str) -> None:
    redact = key_redactor(key)
    assert redact is not None
    once = json.dumps(key)
    for escaped in (key, once[1:-1], json.dumps(once)[3:-3]):
        assert redact(f"a {escaped} b {escaped}") == f"a {REDACTED} b {REDACTED}"
    assert redact(f"a {key[:-1]} b") == f"a {key[:-1]} b"


def test_many_backslashes_are_fast() -> None:
    redact = key_redactor(REAL)
    assert redact is not None
    text = "\\" * 1_000_000
    assert redact(text) == text
