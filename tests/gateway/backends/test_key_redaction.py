"""A backend's key is redacted in errors, headers and logs, and never in what the model says."""

import json
import re
from collections.abc import Iterator

import openai
import pytest

from gateway.backends.key_redaction import key_redactor
from tests.gateway.asked import PATHS
from tests.gateway.calling import Answered, post
from tests.gateway.clients import make_client
from tests.gateway.conftest import DIALECTS, Fresh, assert_no_fault, backend_table
from tests.gateway.keeping import line_about, says
from tests.gateway.process import Gateway, running
from tests.gateway.scripted import PATIENCE, Script, ScriptedBackend, answer, stream
from tests.gateway.speech import Call, Turn, frames, whole
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
WORDS = " ".join(KEYS.values())
# The key of each backend is in the text, in the arguments and in the name of a field.
ARGUMENTS = json.dumps({"city": WORDS, "test": "none", REAL: ["EMPTY", "ollama"]})
TURN = Turn(f"Say: {WORDS}!", (Call("get_weather", ARGUMENTS),))
REDACTED = "[redacted]"

every_key = pytest.mark.parametrize("key", KEYS)
every_client = pytest.mark.parametrize("client", DIALECTS)
every_backend = pytest.mark.parametrize("dialect", DIALECTS)
both_ways = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def keyed(backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Run a gateway that logs bodies, with a backend for each key and dialect."""
    tables = [
        backend_table(backend.address, f"{key}-{dialect}", dialect, f'api_key_env = "KEY_{key}"\n')
        for key in KEYS
        for dialect in DIALECTS
    ]
    variables = {f"KEY_{key}": value for key, value in KEYS.items()}
    folder = tmp_path_factory.mktemp("keyed")
    with running("\n".join(["[logging]\nbodies = true\n", *tables]), folder, variables) as gateway:
        yield gateway
    assert_no_fault(gateway)
    assert REAL not in gateway.log
    assert json.dumps(REAL)[1:-1] not in gateway.log


@pytest.fixture(scope="module")
def client_of_keyed(keyed: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=keyed.url, api_key="sk-client", max_retries=0, timeout=PATIENCE
    ) as client:
        yield client


def _ask(gateway: Gateway, client: str, model: str, *, streams: bool) -> Answered:
    question = [{"role": "user", "content": "hi"}]
    body: JsonObject = {"model": model, "stream": streams}
    if client == "responses":
        body |= {"input": question, "store": False}
    else:
        body["messages"] = question
    if client == "legacy":
        body["functions"] = [{"name": "get_weather", "parameters": {"type": "object"}}]
    return post(gateway, f"/v1{PATHS[client]}", json.dumps(body).encode())


# What the model says


@every_key
@every_backend
@both_ways
def test_a_reply_in_the_same_dialect_keeps_every_byte(
    key: str,
    dialect: str,
    keyed: Gateway,
    backend: ScriptedBackend,
    fresh: Fresh,
    *,
    streams: bool,
) -> None:
    model = fresh(f"{key}-{dialect}")
    if streams:
        body = b"".join(frames(dialect, TURN))
        script = stream(body)
    else:
        # A field that nobody knows, and spaces that no encoder of ours writes.
        more = {"EMPTY": {"none": "ollama"}, "test sk-no-key-required": 1, "error": None}
        body = json.dumps({**json.loads(whole(dialect, TURN)), **more}, indent=1).encode()
        script = answer(body)
    backend.play(model, script)
    answered = _ask(keyed, dialect, model, streams=streams)
    assert answered.status == 200
    assert answered.body == body


@every_key
@every_backend
@every_client
@pytest.mark.parametrize("mode", ["unary", "raw"])
def test_a_translated_reply_says_what_the_model_said(  # noqa: PLR0913, PLR0917 - each way of asking
    key: str,
    dialect: str,
    client: str,
    mode: str,
    client_of_keyed: openai.OpenAI,
    backend: ScriptedBackend,
    fresh: Fresh,
) -> None:
    model = fresh(f"{key}-{dialect}")
    says(backend, dialect, model, TURN)
    assert make_client(client, client_of_keyed, model, mode).ask().turn == TURN


# Headers


@pytest.mark.parametrize("key", PLACEHOLDERS)
@both_ways
def test_a_placeholder_stays_in_headers_and_errors(
    key: str, keyed: Gateway, backend: ScriptedBackend, fresh: Fresh, *, streams: bool
) -> None:
    value = KEYS[key]
    for client in DIALECTS:
        model = fresh(f"{key}-chat")
        error = {"message": f"no {value}", "type": value, "param": None, "code": None}
        body = json.dumps({"error": error}).encode()
        backend.play(model, answer(body, status=400, headers={"x-request-id": value}))
        answered = _ask(keyed, client, model, streams=streams)
        assert answered.error == error
        assert answered.headers["x-request-id"] == value


@every_client
@both_ways
def test_a_key_in_a_header_is_redacted(
    client: str, keyed: Gateway, backend: ScriptedBackend, fresh: Fresh, *, streams: bool
) -> None:
    model = fresh("real-chat")
    headers = {"x-request-id": REAL, "openai-organization": f"of {REAL}"}
    said = stream(*frames("chat", TURN), headers=headers)
    backend.play(model, said if streams else answer(whole("chat", TURN), headers=headers))
    answered = _ask(keyed, client, model, streams=streams)
    assert answered.status == 200
    assert answered.headers["x-request-id"] == REDACTED
    assert answered.headers["openai-organization"] == f"of {REDACTED}"
    assert f'"request_id":"{REDACTED}"' in line_about(keyed, model)


# Errors

ERROR: JsonObject = {"message": f"bad {REAL}", "type": REAL, "param": None, "code": REAL, "x": REAL}


def _escaped(value: JsonObject) -> bytes:
    """Encode as servers do that escape more than JSON demands."""
    return json.dumps(value).replace("/", "\\/").replace("+", "\\u002B").encode()


@pytest.mark.parametrize("status", [200, 401, 500])
@every_backend
@every_client
@both_ways
def test_a_key_in_an_error_body_is_redacted(  # noqa: PLR0913 - each way that it can come
    status: int,
    dialect: str,
    client: str,
    keyed: Gateway,
    backend: ScriptedBackend,
    fresh: Fresh,
    *,
    streams: bool,
) -> None:
    for body in (json.dumps({"error": ERROR}).encode(), _escaped({"error": ERROR})):
        model = fresh(f"real-{dialect}")
        backend.play(model, answer(body, status=status))
        answered = _ask(keyed, client, model, streams=streams)
        assert answered.status == (status if status >= 400 else 500)
        assert answered.error["message"] == f"bad {REDACTED}"
        assert answered.error["code"] == REDACTED
        assert "Ab3" not in answered.body.decode()


def _as_event(dialect: str) -> list[Script]:
    """Fail after some text, in every way that servers of a dialect have; the text has the key."""
    said = frames(dialect, Turn(f"{REAL} and {'more ' * 20}"))
    ways = [b"data: " + json.dumps({"error": ERROR}).encode()]
    if dialect == "responses":
        said = said[:-2]
        failed = {**json.loads(whole("responses", TURN)), "status": "failed", "error": ERROR}
        ended = {"type": "response.failed", "response": failed}
        ways = [
            b"event: error\ndata: " + json.dumps(ERROR | {"type": "error"}).encode(),
            b"event: response.failed\ndata: " + json.dumps(ended).encode(),
        ]
    else:
        said = said[:-3]
        choice = {"index": 0, "delta": {"content": REAL}, "finish_reason": "error"}
        beside = {"id": "chatcmpl-1", "choices": [choice], "error": ERROR}
        ways += [
            b"data: " + _escaped({"object": "error", **ERROR}),
            b"event: error\ndata: " + json.dumps(ERROR).encode(),
            b"data: " + json.dumps([{"error": ERROR}]).encode(),
            b"data: " + json.dumps(beside, indent=1).replace("\n", "\ndata: ").encode(),
        ]
    return [stream(*said, way + b"\n\n") for way in ways]


@every_backend
@every_client
@both_ways
def test_a_key_in_an_error_of_a_stream_is_redacted(
    dialect: str,
    client: str,
    keyed: Gateway,
    backend: ScriptedBackend,
    fresh: Fresh,
    *,
    streams: bool,
) -> None:
    for script in _as_event(dialect):
        model = fresh(f"real-{dialect}")
        backend.play(model, script)
        answered = _ask(keyed, client, model, streams=streams)
        told = answered.body.decode()
        assert f"bad {REDACTED}" in told
        assert f"bad {REAL[:3]}" not in told
        if streams:
            # What was said before it is as the model said it.
            pieces = re.findall(r'"(?:content|delta)": ?"((?:[^"\\]|\\.)*)"', told)
            assert json.dumps(f"{REAL} and more")[1:-1] in "".join(pieces)


def test_only_the_error_in_an_event_is_redacted(
    keyed: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    model = fresh("real-chat")
    *said, done = frames("chat", TURN, usage=False)
    last = json.loads(said.pop().removeprefix(b"data: "))
    last["choices"][0] |= {"delta": {"content": REAL}, "error": ERROR}
    event = b"id: 1\ndata: " + json.dumps(last | {"error": ERROR}).encode() + b"\n\n"
    backend.play(model, stream(*said, event, done))
    answered = _ask(keyed, "chat", model, streams=True).body
    assert answered.startswith(b"".join(said))
    told = json.loads(answered.removeprefix(b"".join(said)).split(b"\n")[0].removeprefix(b"data: "))
    redacted = {**dict.fromkeys(ERROR, REDACTED), "message": f"bad {REDACTED}", "param": None}
    assert told["error"] == redacted
    assert told["choices"][0]["error"] == redacted
    assert told["choices"][0]["delta"] == {"content": REAL}


def test_only_the_error_of_a_failed_response_is_redacted(
    keyed: Gateway, backend: ScriptedBackend, fresh: Fresh
) -> None:
    response = json.loads(whole("responses", TURN)) | {"status": "failed", "error": ERROR}
    model = fresh("real-responses")
    backend.play(model, answer(json.dumps(response).encode()))
    answered = _ask(keyed, "responses", model, streams=False).json()
    assert answered["output"] == response["output"]
    assert REAL not in json.dumps(answered["error"])
    assert REDACTED in json.dumps(answered["error"])


@pytest.mark.parametrize("status", [200, 400])
def test_a_key_in_an_error_of_compaction_is_redacted(
    status: int, backend: ScriptedBackend, tmp_path_factory: pytest.TempPathFactory, fresh: Fresh
) -> None:
    table = 'api_key_env = "A_KEY"\nprofile = "openai"\n'
    config = backend_table(backend.address, "compacting", "responses", table)
    folder = tmp_path_factory.mktemp("compacting")
    with running(config, folder, {"A_KEY": REAL}) as gateway:
        model = fresh("compacting")
        body = json.dumps({"error": ERROR}).encode()
        backend.play(model, answer(body, status=status, headers={"openai-organization": REAL}))
        asked = {"model": model, "input": "hi"}
        answered = post(gateway, "/v1/responses/compact", json.dumps(asked).encode())
    assert answered.error["message"] == f"bad {REDACTED}"
    assert answered.headers["openai-organization"] == REDACTED
    assert "Ab3" not in answered.body.decode()


# Logs


@both_ways
def test_a_key_in_a_reply_is_redacted_in_the_log(
    keyed: Gateway, backend: ScriptedBackend, fresh: Fresh, *, streams: bool
) -> None:
    # The last event of a stream, or the whole reply, has the text in one piece.
    model = fresh("real-responses")
    said = Turn(f"{REAL} and {'more ' * 20}")
    script = stream(*frames("responses", said)) if streams else answer(whole("responses", said))
    backend.play(model, script)
    answered = _ask(keyed, "responses", model, streams=streams)
    assert REDACTED not in answered.body.decode()
    assert REAL[:5] not in line_about(keyed, model)
    assert REDACTED in line_about(keyed, model)


# Which keys


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
def test_these_are_not_redacted(key: str | None) -> None:
    assert key_redactor(key) is None


@pytest.mark.parametrize("key", ["a-short-key-1234", REAL, "\\" * 3 + "abcdefghijklm"])
def test_these_are_redacted_however_they_are_escaped(key: str) -> None:
    redact = key_redactor(key)
    assert redact is not None
    once = json.dumps(key)
    for spelled in (key, once[1:-1], json.dumps(once)[3:-3]):
        assert redact(f"a {spelled} b {spelled}") == f"a {REDACTED} b {REDACTED}"
    assert redact(f"a {key[:-1]} b") == f"a {key[:-1]} b"


def test_many_backslashes_take_no_time() -> None:
    redact = key_redactor(REAL)
    assert redact is not None
    text = "\\" * 1_000_000
    assert redact(text) == text
