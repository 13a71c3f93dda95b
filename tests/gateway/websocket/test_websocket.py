"""Turns over a WebSocket, among them those of the Open Responses suite."""

import pytest

from gateway.pytest_plugin.scripted_backend import json_reply, stream_reply, truncated_reply
from tests.gateway.backend_replies import Call, Turn, error_events, stream_events
from tests.gateway.backend_requests import parse_request
from tests.gateway.conftest import Harness
from tests.gateway.end_to_end.test_open_responses import MODELS, REQUESTS, user
from tests.gateway.gateway_process import log_line_naming
from tests.gateway.sdk_clients import WEATHER_TOOL
from tests.gateway.websocket_client import (
    Events,
    WebSocketClient,
    function_call,
    tool_output,
    validate_error,
    validate_turn,
)
from tests.judges.open_responses import assert_compaction
from tests.judges.reading import JsonObject, object_in, objects_in

NOT_FOUND = "previous_response_not_found"
OSLO = Call("weather", '{"city":  "Oslo"}')


def response_in(events: Events) -> JsonObject:
    """Validate each event, and return the response in the last one."""
    validate_turn(events)
    return object_in(events[-1], "response")


# As in the suite of Open Responses


@pytest.mark.parametrize("model", MODELS)
def test_requests_of_the_http_suite(model: str, demo: Harness) -> None:
    with WebSocketClient(demo.gateway) as socket:
        for name, asked in REQUESTS.items():
            response = socket.create_response(model=model, **asked)
            assert response.status == "completed"
            kinds = [item.type for item in response.output]
            assert ("function_call" if name == "tool-calling" else "message") in kinds


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
def test_websocket_response(dialect: str, path: str, harness: Harness) -> None:
    model = harness.script(dialect, "1, 2, 3.")
    with WebSocketClient(harness.gateway, path=path) as socket:
        response = socket.create_response(model=model, input=[user("Count from 1 to 3.")])
    assert (response.status, response.output_text) == ("completed", "1, 2, 3.")


def test_websocket_sequential_responses(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, "One.", "Two.")
    first = socket.create_response(model=model, input="one", store=False)
    second = socket.create_response(model=model, input="two", store=False)
    assert (first.output_text, second.output_text) == ("One.", "Two.")
    assert first.id != second.id
    assert "one" not in harness.sent(model)


@pytest.mark.parametrize("store", [False, True], ids=["not stored", "stored"])
def test_websocket_continuation(
    dialect: str, *, store: bool, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, "Hello, Ada.", "Your name is Ada.")
    shared = {"model": model, "store": store}
    first = socket.create_response(**shared, input="My name is Ada.")
    second = socket.create_response(**shared, input="What is it?", previous_response_id=first.id)
    assert (second.status, second.previous_response_id) == ("completed", first.id)
    harness.assert_sent_in_order(model, "My name is Ada.", "Hello, Ada.", "What is it?")


def test_websocket_reconnect_store_false_recovery(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    shared = {"model": harness.script(dialect, "One.", "Three."), "store": False}
    with WebSocketClient(harness.gateway) as other:
        first = socket.create_response(**shared, input="one")
        error = other.create_error(**shared, input="two", previous_response_id=first.id)
        assert (error["code"], error["status"]) == (NOT_FOUND, 400)
        assert other.create_response(**shared, input="three").output_text == "Three."


def test_websocket_previous_response_not_found(harness: Harness, socket: WebSocketClient) -> None:
    error = socket.create_error(
        model=harness.script("chat"), input="hi", store=False, previous_response_id="resp_none"
    )
    assert error["code"] == NOT_FOUND
    assert error["param"] == "previous_response_id"
    assert error["type"] == "invalid_request_error"


def test_websocket_failed_continuation_evicts_cache(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, "One.")
    first = socket.create_response(model=model, input="one", store=False)
    continued = {"model": model, "store": False, "previous_response_id": first.id}
    error = socket.create_error(**continued, input=tool_output("call_none"))
    sentence = "No tool call found for function call output with call_id call_none."
    assert (error["message"], error["param"], error["status"]) == (sentence, "input", 400)
    assert socket.create_error(**continued, input="again")["code"] == NOT_FOUND
    assert len(harness.backend.received(model)) == 1


def test_websocket_compact_new_chain(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, "Ada said hello.", "On we go.")
    greeting = {"type": "message", "role": "assistant", "content": "Hello, Ada."}
    body = {"model": model, "prompt_cache_key": "c", "input": [user("My name is Ada."), greeting]}
    made = harness.post(body, "/v1/responses/compact")
    assert made.status == 200, made.body
    assert_compaction(made.json())
    chain = [*objects_in(made.json(), "output"), user("What is it?")]
    response = socket.create_response(model=model, input=chain, tools=[], store=False)
    assert (response.status, response.output_text) == ("completed", "On we go.")
    harness.assert_sent(model, "My name is Ada.", "Ada said hello.", "What is it?")
    assert "Hello, Ada." not in harness.sent(model)


def test_websocket_new_chain_from_items(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, "On we go.")
    reply = {"type": "message", "role": "assistant", "content": "Then."}
    chain = [user("Before."), reply, user("Now.")]
    response = socket.create_response(model=model, input=chain, tools=[], store=False)
    assert (response.status, response.output_text) == ("completed", "On we go.")


# The requirements of Open Responses in prose


@pytest.mark.parametrize("error", ["", "out of memory"], ids=["truncated", "error"])
def test_incomplete_item_is_last_and_the_response_fails(
    dialect: str, error: str, harness: Harness, socket: WebSocketClient
) -> None:
    begun = stream_events(dialect, Turn("Once upon a time"))[:4]
    failure = error_events(dialect, error) if error else []
    model = harness.enqueue(dialect, truncated_reply(*begun, *failure))
    socket.create(model=model, input="hi")
    events = socket.receive_until("response.failed")
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    if not error:
        items = objects_in(response_in(events), "output")
        assert "incomplete" not in [item.get("status") for item in items[:-1]]


def test_empty_summary_is_a_failed_continuation(harness: Harness, socket: WebSocketClient) -> None:
    # The backend succeeded, but its reply is empty.
    model = harness.script("chat", "One.", "")
    first = socket.create_response(model=model, input="one", store=False)
    continued = {"model": model, "store": False, "previous_response_id": first.id}
    socket.create(**continued, input=[{"type": "compaction_trigger"}])
    assert response_in(socket.receive_until("response.failed"))["status"] == "failed"
    assert socket.create_error(**continued, input="again")["code"] == NOT_FOUND


# Continued turns


def test_turn_with_only_a_tool_output_continues_a_response(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, Turn("Let me see.", (OSLO,)), "Sunny.", "Yes.")
    shared: JsonObject = {"model": model, "tools": [WEATHER_TOOL], "store": False}
    first = socket.create_response(**shared, input="How is the weather in Oslo?")
    call = function_call(first)
    assert call.arguments == OSLO.arguments
    output = tool_output(call.call_id)
    second = socket.create_response(**shared, input=output, previous_response_id=first.id)
    assert second.output_text == "Sunny."
    third = socket.create_response(**shared, input="Really?", previous_response_id=second.id)
    assert third.output_text == "Yes."
    texts = ("How is the weather", "Let me see.", "18 degrees", "Sunny.", "Really?")
    harness.assert_sent(model, *texts)
    if dialect != "responses":
        # A backend with the client's dialect gets the items of the reply unchanged.
        sent = parse_request(dialect, harness.backend.wait_for_request(model, 3))
        assert sent.results == ((OSLO, "18 degrees"),)


def test_stored_response_is_continued_on_another_connection(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, "One.", "Two.", "Three.")
    with WebSocketClient(harness.gateway) as other:
        first = other.create_response(model=model, input="one")
    second = socket.create_response(input="two", previous_response_id=first.id)
    assert second.to_dict()["store"] is True
    third = harness.respond(input="three", previous_response_id=second.id)
    assert third.output_text == "Three."
    harness.assert_sent(model, "one", "One.", "two", "Two.", "three")


def test_unstored_response_belongs_to_its_connection(
    harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script("chat", "One.")
    first = socket.create_response(model=model, input="one")
    with WebSocketClient(harness.gateway, {"Authorization": "Bearer sk-somebody-else"}) as other:
        error = other.create_error(model=model, input="two", previous_response_id=first.id)
    assert error["code"] == NOT_FOUND


def test_backend_failure_evicts_the_response(harness: Harness, socket: WebSocketClient) -> None:
    begun = stream_events("chat", Turn("One two three"))[:3]
    model = harness.enqueue(
        "chat",
        stream_reply(*stream_events("chat", Turn("One."))),
        stream_reply(*begun, *error_events("chat", "sorry")),
    )
    first = socket.create_response(model=model, input="one", store=False)
    continued = {"model": model, "store": False, "previous_response_id": first.id}
    events = socket.create_turn(**continued, input="two")
    # A reply that breaks off ends as over HTTP: an error, and the failed response.
    assert events[-1]["type"] == "error"
    assert "status" not in events[-1]
    failed = validate_turn([*events, *socket.receive_turn()])
    assert failed.status == "failed"
    for response_id in (first.id, failed.id):
        continued["previous_response_id"] = response_id
        assert socket.create_error(**continued, input="again")["code"] == NOT_FOUND


def test_only_the_latest_responses_are_cached(harness: Harness, socket: WebSocketClient) -> None:
    model = harness.script("chat", *(f"{number}." for number in range(6)))
    shared = {"model": model, "store": False}
    made = [socket.create_response(**shared, input="go") for _ in range(5)]
    error = socket.create_error(**shared, input="on", previous_response_id=made[0].id)
    assert error["code"] == NOT_FOUND
    again = socket.create_response(**shared, input="on", previous_response_id=made[1].id)
    assert again.output_text == "5."


# Warming up


@pytest.mark.parametrize("given", ["Be brief.", list[object]()], ids=["text", "nothing"])
def test_prewarm_calls_no_backend(
    dialect: str, given: object, harness: Harness, socket: WebSocketClient
) -> None:
    model = harness.script(dialect, "Hi.")
    prepared = socket.create_response(
        model=model, input=given, tools=[WEATHER_TOOL], store=False, generate=False
    )
    assert (prepared.status, prepared.output) == ("completed", [])
    assert prepared.usage is not None
    assert prepared.usage.total_tokens == 0
    assert harness.backend.received(model) == []
    # The model is the one of the prepared response.
    response = socket.create_response(input="Hello", store=False, previous_response_id=prepared.id)
    assert response.output_text == "Hi."
    assert response.model
    assert not isinstance(given, str) or given in harness.sent(model)


def test_prewarmed_turn_is_stored(harness: Harness, socket: WebSocketClient) -> None:
    model = harness.script("chat", "Hi.")
    cache = {"prewarm": True}
    prepared = socket.create_response(model=model, input="Be brief.", prompt_cache_options=cache)
    assert prepared.output == []
    made = harness.respond(input="Hello", previous_response_id=prepared.id)
    assert made.output_text == "Hi."
    harness.assert_sent(model, "Be brief.")


def test_invalid_prewarm_is_refused(socket: WebSocketClient) -> None:
    error = socket.create_error(model="nobody-has-it", input="x", generate=False)
    assert (error["code"], error["status"]) == ("model_not_found", 404)
    error = socket.create_error(model="chat-1", input=7, generate=False)
    assert error["param"] == "input"


# Errors, losses and headers


def test_backend_error_keeps_its_status_and_headers(
    dialect: str, harness: Harness, socket: WebSocketClient
) -> None:
    body = b'{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":null}}'
    headers = {"Retry-After": "7", "x-ratelimit-remaining-requests": "0"}
    model = harness.enqueue(dialect, json_reply(body, status=429, headers=headers))
    (event,) = socket.create_turn(model=model, input="x")
    error = validate_error(event)
    assert (error["status"], error["message"]) == (429, "slow down")
    # Over HTTP it may be null, but not here.
    assert error["code"] == "rate_limit_error"
    sent = object_in(object_in(event, "error"), "headers")
    assert (sent["retry-after"], sent["x-ratelimit-remaining-requests"]) == ("7", "0")
    assert not {"content-type", "content-length", "dragoman-loss"} & sent.keys()


def test_losses_are_logged_and_not_sent(harness: Harness, socket: WebSocketClient) -> None:
    model = harness.script("chat", "Hi.")
    events = socket.create_turn(model=model, input="x", safety_identifier="s", truncation="auto")
    validate_turn(events)
    line = log_line_naming(harness.gateway, model)
    assert '"path":"/v1/responses"' in line
    assert '"status":200,"outcome":"ok"' in line
    assert "truncation" in line
    assert "dragoman-loss" not in str(events)


def test_headers_of_the_connection_are_not_sent_to_the_backend(harness: Harness) -> None:
    model = harness.script("responses", "Hi.")
    headers = {
        "OpenAI-Beta": "responses_websockets=2026-02-06, other=1",
        "Idempotency-Key": "once",
        "originator": "codex_exec",
    }
    with WebSocketClient(harness.gateway, headers) as socket:
        # Codex always asks for a stream.
        assert socket.create_response(model=model, input="x", stream=True).output_text == "Hi."
    received = harness.backend.wait_for_request(model)
    assert received.headers["openai-beta"] == "other=1"
    assert received.headers["originator"] == "codex_exec"
    assert "idempotency-key" not in received.headers
    sent = received.json()
    assert sent["stream"] is True
    assert not {"type", "stream_id", "generate"} & sent.keys()
    assert sent["input"] == "x"
