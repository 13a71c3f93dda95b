"""Turns over a WebSocket, among them those of the Open Responses suite."""

import pytest

from tests.gateway.backend_replies import (
    Call,
    Turn,
    error_events,
    reply_script,
    stream_events,
)
from tests.gateway.backend_requests import parse_request
from tests.gateway.conftest import Harness
from tests.gateway.gateway_config import DIALECTS
from tests.gateway.gateway_process import log_line_naming
from tests.gateway.raw_http import AUTHORIZED, post
from tests.gateway.scripted_backend import json_reply, stream_reply
from tests.gateway.websocket_client import WebSocketClient, validate_error, validate_turn
from tests.judges.open_responses import assert_compaction
from tests.judges.reading import JsonObject, object_in, objects_in

TOOL: JsonObject = {
    "type": "function",
    "name": "weather",
    "description": None,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}
OSLO = Call("weather", '{"city":  "Oslo"}')


def says(harness: Harness, dialect: str, *turns: Turn) -> str:
    """Have a new model say these, one after the other; give its name."""
    model, left = harness.new_model(dialect), iter(turns)
    harness.backend.respond_with(model, lambda it: reply_script(dialect, next(left), it.json()))
    return model


def heard(harness: Harness, model: str) -> str:
    return harness.backend.received(model)[-1].body.decode()


def output_of(call_id: str, output: str = "18 degrees") -> list[JsonObject]:
    return [{"type": "function_call_output", "call_id": call_id, "output": output}]


# As in the suite of Open Responses


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_response(dialect: str, path: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("1, 2, 3."))
    with WebSocketClient(harness.gateway, path=path) as socket:
        given = [{"type": "message", "role": "user", "content": "Count from 1 to 3."}]
        response = socket.create_response(model=model, input=given)
    assert response.status == "completed"
    assert response.output_text == "1, 2, 3."


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_sequential_responses(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("One."), Turn("Two."))
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="one", store=False)
        second = socket.create_response(model=model, input="two", store=False)
    assert (first.output_text, second.output_text) == ("One.", "Two.")
    assert first.id != second.id
    assert "one" not in heard(harness, model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_continuation(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("Hello, Ada."), Turn("Ada."))
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="My name is Ada.", store=False)
        second = socket.create_response(
            model=model, input="What is it?", store=False, previous_response_id=first.id
        )
    assert (second.status, second.previous_response_id) == ("completed", first.id)
    for words in ("My name is Ada.", "Hello, Ada.", "What is it?"):
        assert words in heard(harness, model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_reconnect_store_false_recovery(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("One."), Turn("Three."))
    with WebSocketClient(harness.gateway) as one, WebSocketClient(harness.gateway) as other:
        first = one.create_response(model=model, input="one", store=False)
        continued = {"model": model, "input": "two", "store": False}
        error = other.create_error(**continued, previous_response_id=first.id)
        assert (error["code"], error["status"]) == ("previous_response_not_found", 400)
        assert (
            other.create_response(model=model, input="three", store=False).output_text == "Three."
        )


def test_websocket_previous_response_not_found(harness: Harness) -> None:
    model = says(harness, "chat")
    with WebSocketClient(harness.gateway) as socket:
        error = socket.create_error(
            model=model, input="hi", store=False, previous_response_id="resp_none"
        )
    assert error["code"] == "previous_response_not_found"
    assert error["param"] == "previous_response_id"
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_failed_continuation_evicts_cache(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("One."))
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="one", store=False)
        continued = {"model": model, "store": False, "previous_response_id": first.id}
        error = socket.create_error(**continued, input=output_of("call_nobody_made"))
        sentence = "No tool call found for function call output with call_id call_nobody_made."
        assert (error["message"], error["param"], error["status"]) == (sentence, "input", 400)
        error = socket.create_error(**continued, input="again")
        assert error["code"] == "previous_response_not_found"
    assert len(harness.backend.received(model)) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_compact_new_chain(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("Ada said hello."), Turn("On we go."))
    body = {
        "model": model,
        "prompt_cache_key": "chain",
        "input": [
            {"type": "message", "role": "user", "content": "My name is Ada."},
            {"type": "message", "role": "assistant", "content": "Hello, Ada."},
        ],
    }
    made = post(harness.gateway.port, "/v1/responses/compact", body, AUTHORIZED)
    assert made.status == 200, made.body
    assert_compaction(made.json())
    chain = [
        *objects_in(made.json(), "output"),
        {"type": "message", "role": "user", "content": "What is it?"},
    ]
    with WebSocketClient(harness.gateway) as socket:
        response = socket.create_response(model=model, input=chain, tools=[], store=False)
    assert (response.status, response.output_text) == ("completed", "On we go.")
    for words in ("My name is Ada.", "Ada said hello.", "What is it?"):
        assert words in heard(harness, model)
    assert "Hello, Ada." not in heard(harness, model)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_websocket_new_chain_from_items(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("On we go."))
    chain = [
        {"type": "message", "role": "user", "content": "Before."},
        {"type": "message", "role": "assistant", "content": "Then."},
        {"type": "message", "role": "user", "content": "Now."},
    ]
    with WebSocketClient(harness.gateway) as socket:
        response = socket.create_response(model=model, input=chain, tools=[], store=False)
    assert (response.status, response.output_text) == ("completed", "On we go.")


# Turns that stand on each other


@pytest.mark.parametrize("dialect", DIALECTS)
def test_turn_with_only_a_tool_output_continues_a_response(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("Let me see.", (OSLO,)), Turn("Sunny."), Turn("Yes."))
    shared: JsonObject = {"model": model, "tools": [TOOL], "store": False}
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(**shared, input="How is the weather in Oslo?")
        call = next(item for item in first.output if item.type == "function_call")
        assert call.arguments == OSLO.arguments
        second = socket.create_response(
            **shared, input=output_of(call.call_id), previous_response_id=first.id
        )
        assert second.output_text == "Sunny."
        third = socket.create_response(**shared, input="Really?", previous_response_id=second.id)
    assert third.output_text == "Yes."
    for words in ("How is the weather", "Let me see.", "18 degrees", "Sunny.", "Really?"):
        assert words in heard(harness, model)
    if dialect != "responses":
        # A backend of the client's own dialect is told the items as they were shown.
        assert parse_request(dialect, harness.backend.wait_for_request(model, 3)).results == (
            (OSLO, "18 degrees"),
        )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stored_response_is_continued_on_another_connection(dialect: str, harness: Harness) -> None:
    model = says(harness, dialect, Turn("One."), Turn("Two."), Turn("Three."))
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="one")
    with WebSocketClient(harness.gateway) as socket:
        second = socket.create_response(input="two", previous_response_id=first.id)
    assert second.to_dict()["store"] is True
    third = harness.sdk.responses.create(input="three", previous_response_id=second.id)
    assert third.output_text == "Three."
    for words in ("one", "One.", "two", "Two.", "three"):
        assert words in heard(harness, model)


def test_unstored_response_belongs_to_its_connection(harness: Harness) -> None:
    model = says(harness, "chat", Turn("One."))
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="one")
    with WebSocketClient(harness.gateway, {"Authorization": "Bearer sk-somebody-else"}) as socket:
        error = socket.create_error(model=model, input="two", previous_response_id=first.id)
    assert error["code"] == "previous_response_not_found"


def test_backend_failure_evicts_the_response(harness: Harness) -> None:
    model = harness.new_model("chat")
    broken = stream_reply(
        *stream_events("chat", Turn("One two three"))[:3], *error_events("chat", "sorry")
    )
    harness.backend.enqueue(model, stream_reply(*stream_events("chat", Turn("One."))), broken)
    with WebSocketClient(harness.gateway) as socket:
        first = socket.create_response(model=model, input="one", store=False)
        continued = {"model": model, "store": False, "previous_response_id": first.id}
        events = socket.create_turn(**continued, input="two")
        # What breaks off in the middle ends as over HTTP: an error, and the failed response.
        assert events[-1]["type"] == "error"
        assert "status" not in events[-1]
        failed = validate_turn([*events, *socket.receive_turn()])
        assert failed.status == "failed"
        error = socket.create_error(**continued, input="again")
        assert error["code"] == "previous_response_not_found"
        error = socket.create_error(
            model=model, input="x", store=False, previous_response_id=failed.id
        )
        assert error["code"] == "previous_response_not_found"


def test_only_the_latest_responses_are_cached(harness: Harness) -> None:
    model = says(harness, "chat", *(Turn(f"{number}.") for number in range(6)))
    with WebSocketClient(harness.gateway) as socket:
        shared: JsonObject = {"model": model, "store": False}
        made = [socket.create_response(**shared, input="go") for _ in range(5)]
        error = socket.create_error(**shared, input="on", previous_response_id=made[0].id)
        assert error["code"] == "previous_response_not_found"
        again = socket.create_response(**shared, input="on", previous_response_id=made[1].id)
    assert again.output_text == "5."


# Warming up


@pytest.mark.parametrize("given", ["Be brief.", list[object]()], ids=["text", "nothing"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_prewarm_calls_no_backend(dialect: str, given: object, harness: Harness) -> None:
    model = says(harness, dialect, Turn("Hi."))
    with WebSocketClient(harness.gateway) as socket:
        events = socket.create_turn(
            model=model, input=given, tools=[TOOL], store=False, generate=False
        )
        prepared = validate_turn(events)
        assert (prepared.status, prepared.output) == ("completed", [])
        assert prepared.usage is not None
        assert prepared.usage.total_tokens == 0
        assert harness.backend.received(model) == []
        # The model need not be named again.
        response = socket.create_response(
            input="Hello", store=False, previous_response_id=prepared.id
        )
    assert response.output_text == "Hi."
    assert response.model
    assert not isinstance(given, str) or given in heard(harness, model)


def test_prewarmed_turn_is_stored(harness: Harness) -> None:
    model = says(harness, "chat", Turn("Hi."))
    cache = {"prewarm": True}
    with WebSocketClient(harness.gateway) as socket:
        prepared = socket.create_response(
            model=model, input="Be brief.", prompt_cache_options=cache
        )
    assert prepared.output == []
    made = harness.sdk.responses.create(input="Hello", previous_response_id=prepared.id)
    assert made.output_text == "Hi."
    assert "Be brief." in heard(harness, model)


def test_invalid_prewarm_is_refused(harness: Harness) -> None:
    with WebSocketClient(harness.gateway) as socket:
        error = socket.create_error(model="nobody-has-it", input="x", generate=False)
        assert (error["code"], error["status"]) == ("model_not_found", 404)
        error = socket.create_error(model="chat-1", input=7, generate=False)
        assert error["param"] == "input"


# Errors


@pytest.mark.parametrize("dialect", DIALECTS)
def test_backend_error_keeps_its_status_and_headers(dialect: str, harness: Harness) -> None:
    model = harness.new_model(dialect)
    body = b'{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":null}}'
    headers = {"Retry-After": "7", "x-ratelimit-remaining-requests": "0"}
    harness.backend.enqueue(model, json_reply(body, status=429, headers=headers))
    with WebSocketClient(harness.gateway) as socket:
        (event,) = socket.create_turn(model=model, input="x")
    error = validate_error(event)
    assert (error["status"], error["message"]) == (429, "slow down")
    # Over HTTP it may be null; here it may not.
    assert error["code"] == "rate_limit_error"
    told = object_in(object_in(event, "error"), "headers")
    assert (told["retry-after"], told["x-ratelimit-remaining-requests"]) == ("7", "0")
    assert not {"content-type", "content-length", "dragoman-loss"} & told.keys()


def test_losses_are_logged_and_not_sent(harness: Harness) -> None:
    model = says(harness, "chat", Turn("Hi."))
    with WebSocketClient(harness.gateway) as socket:
        events = socket.create_turn(
            model=model, input="x", safety_identifier="s", truncation="auto"
        )
        validate_turn(events)
    line = log_line_naming(harness.gateway, model)
    assert '"path":"/v1/responses"' in line
    assert '"status":200,"outcome":"ok"' in line
    assert "truncation" in line
    assert "dragoman-loss" not in str(events)


def test_headers_of_the_connection_are_not_sent_to_the_backend(harness: Harness) -> None:
    model = says(harness, "responses", Turn("Hi."))
    headers = {
        "OpenAI-Beta": "responses_websockets=2026-02-06, other=1",
        "Idempotency-Key": "once",
        "originator": "codex_exec",
    }
    with WebSocketClient(harness.gateway, headers) as socket:
        # Codex always says that it wants a stream.
        assert socket.create_response(model=model, input="x", stream=True).output_text == "Hi."
    received = harness.backend.wait_for_request(model)
    assert received.headers["openai-beta"] == "other=1"
    assert received.headers["originator"] == "codex_exec"
    assert "idempotency-key" not in received.headers
    asked = received.json()
    assert asked["stream"] is True
    assert not {"type", "stream_id", "generate"} & asked.keys()
    assert asked["input"] == "x"
