"""The demo's transport: every dialect, whole and streamed, and its errors."""

import asyncio
import json
from typing import get_args

import httpx
import pytest

from adapters.ir.types import Reply
from gateway.demo import DEMO_MODEL, DemoTransport
from tests.gateway.demo.client import (
    PATHS,
    DialectName,
    calls_of,
    only,
    question,
    send,
    send_request,
    text_of,
    validate,
    with_outputs,
)
from tests.judges.reading import JsonObject, object_in, objects_in, read_object
from tests.judges.sdk import judge_error

every_dialect = pytest.mark.parametrize("name", get_args(DialectName))
whole_and_streamed = pytest.mark.parametrize("stream", [False, True])

WEATHER: JsonObject = {
    "name": "get_weather",
    "description": "Tell the weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
}
TIME: JsonObject = {
    "name": "get_time",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def arguments_of(reply: Reply) -> list[object]:
    return [json.loads(call.arguments) for call in calls_of(reply)]


# --- replies ----------------------------------------------------------------------------------


@every_dialect
@whole_and_streamed
def test_greeting_and_usage(name: DialectName, *, stream: bool) -> None:
    request = question(name, "Is anybody there?")
    if name != "responses" and stream:
        request["stream_options"] = {"include_usage": True}
    reply = send_request(name, request, stream=stream)
    assert "Is anybody there?" in text_of(reply)
    assert "Dragoman" in text_of(reply)
    assert reply.model == DEMO_MODEL
    assert reply.usage is not None
    assert reply.usage.input_tokens == 5
    assert reply.usage.output_tokens > 20
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens


@every_dialect
@whole_and_streamed
def test_tool_is_called_and_its_output_reported(name: DialectName, *, stream: bool) -> None:
    request = question(name, "What is the weather in Bergen?", TIME, WEATHER)
    reply = send_request(name, request, stream=stream)
    assert [call.name for call in calls_of(reply)] == ["get_weather"]
    assert arguments_of(reply) == [{"city": "Bergen", "unit": "celsius"}]
    finish = only(reply).finish
    # The Responses API has no finish reason for calls.
    assert finish is not None
    assert finish.reason == ("stop" if name == "responses" else "calls")
    final = send_request(name, with_outputs(name, request, reply, "8 degrees, rain"), stream=stream)
    assert not calls_of(final)
    assert text_of(final) == "For Bergen, get_weather says: 8 degrees, rain"


@pytest.mark.parametrize("name", ["chat", "responses"])
@whole_and_streamed
def test_parallel_calls(name: DialectName, *, stream: bool) -> None:
    request = question(name, "What is the weather in Paris and New York, in Fahrenheit?", WEATHER)
    reply = send_request(name, request, stream=stream)
    assert arguments_of(reply) == [
        {"city": "Paris", "unit": "fahrenheit"},
        {"city": "New York", "unit": "fahrenheit"},
    ]
    assert len({call.call_id for call in calls_of(reply)}) == 2
    final = send_request(name, with_outputs(name, request, reply, "sun", "snow"), stream=stream)
    lines = ("For Paris, get_weather says: sun", "For New York, get_weather says: snow")
    assert text_of(final) == "\n".join(lines)


@whole_and_streamed
def test_legacy_calls_come_one_at_a_time(*, stream: bool) -> None:
    request = question("legacy", "What are the weather and the time in Paris?", WEATHER, TIME)
    called: list[str] = []
    for output in ("sun", "noon"):
        reply = send_request("legacy", request, stream=stream)
        called += [call.name for call in calls_of(reply)]
        request = with_outputs("legacy", request, reply, output)
    assert called == ["get_weather", "get_time"]
    text = text_of(send_request("legacy", request, stream=stream))
    assert text == "For Paris, get_weather says: sun\nFor Paris, get_time says: noon"


@pytest.mark.parametrize("name", ["chat", "responses"])
@whole_and_streamed
def test_custom_tool_is_called_with_text(name: DialectName, *, stream: bool) -> None:
    inner: JsonObject = {"name": "run_python"}
    tool = {"type": "custom"} | ({"custom": inner} if name == "chat" else inner)
    (call,) = calls_of(
        send_request(name, question(name, "Say hello") | {"tools": [tool]}, stream=stream)
    )
    assert (call.kind, call.name, call.arguments) == ("custom", "run_python", "print('hello')")


def test_output_of_a_custom_tool_after_reasoning() -> None:
    request = question("responses", "Say hello")
    history: list[JsonObject] = [
        *objects_in(request, "input"),
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "custom_tool_call", "call_id": "call_1", "name": "parrot", "input": "hello"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "hello, hello"},
    ]
    text = text_of(send_request("responses", {"input": history}))
    assert text == "parrot says: hello, hello"


def test_hosted_tool_is_not_called() -> None:
    request = question("responses", "Hello?") | {"tools": [{"type": "web_search"}]}
    assert not calls_of(send_request("responses", request))


@whole_and_streamed
def test_number_of_choices(*, stream: bool) -> None:
    request = question("chat", "What is the weather in Oslo?", WEATHER) | {"n": 3, "model": "demo"}
    response = send(PATHS["chat"], json.dumps(request | {"stream": stream}).encode())
    validate("chat", response.body, stream=stream)
    ids = {number for number in range(1, 4) if f"call_000{number}".encode() in response.body}
    assert ids == {1, 2, 3}
    if not stream:
        assert len(objects_in(read_object(response.body), "choices")) == 3


# --- streams ----------------------------------------------------------------------------------


@every_dialect
def test_stream_is_sent_in_whole_small_frames(name: DialectName) -> None:
    request = question(name, "What is the weather in Trondheim?", WEATHER)
    response = send(PATHS[name], json.dumps(request | {"model": "demo", "stream": True}).encode())
    assert response.headers["content-type"].startswith("text/event-stream")
    assert len(response.chunks) > 6
    assert all(chunk.endswith(b"\n\n") and chunk.count(b"\n\n") == 1 for chunk in response.chunks)


@every_dialect
def test_streamed_text_equals_whole_text(name: DialectName) -> None:
    text = "  Two  spaces,\n\na line\tand the end \n"
    request = question(name, "Say it.", WEATHER)
    request = with_outputs(name, request, send_request(name, request), text)
    assert text_of(send_request(name, request, stream=True)) == text_of(send_request(name, request))


# --- limits and formats -----------------------------------------------------------------------


@every_dialect
@whole_and_streamed
def test_reply_ends_at_the_token_limit(name: DialectName, *, stream: bool) -> None:
    limit = "max_output_tokens" if name == "responses" else "max_tokens"
    text = send_request(name, question(name, "Hello?") | {limit: 3}, stream=stream)
    assert text_of(text) == "You said: “H"
    request = question(name, "How is the weather in Rome?", WEATHER) | {limit: 2}
    call = send_request(name, request, stream=stream)
    assert [one.arguments for one in calls_of(call)] == ['{"city":']
    for reply in (text, call):
        finish = only(reply).finish
        assert finish is not None
        assert finish.reason == "length"


@pytest.mark.parametrize("name", ["chat", "legacy"])
def test_text_ends_before_a_stop_sequence(name: DialectName) -> None:
    request = question(name, "Hello?") | {"stop": ["?", "never said"]}
    assert text_of(send_request(name, request)) == "You said: “Hello"


OBJECT: JsonObject = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
}
NAMED: JsonObject = {"name": "x", "schema": OBJECT}
FORMATS: list[tuple[DialectName, JsonObject, set[str]]] = [
    ("chat", {"type": "json_object"}, {"answer"}),
    ("responses", {"type": "json_object"}, {"answer"}),
    ("chat", {"type": "json_schema", "json_schema": NAMED}, {"answer", "sure"}),
    ("responses", {"type": "json_schema", **NAMED}, {"answer", "sure"}),
]


@pytest.mark.parametrize(("name", "response_format", "keys"), FORMATS)
def test_response_format(name: DialectName, response_format: JsonObject, keys: set[str]) -> None:
    field: JsonObject = {"response_format": response_format}
    if name == "responses":
        field = {"text": {"format": response_format}}
    parsed = read_object(text_of(send_request(name, question(name, "Hello?") | field)))
    assert parsed.keys() == keys
    assert "Hello?" in str(parsed["answer"])


# --- models and errors ------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1/models/"])
def test_model_list(path: str) -> None:
    response = send(path, method="GET")
    assert response.status == 200
    (model,) = objects_in(read_object(response.body), "data")
    assert model.keys() == {"id", "object", "created", "owned_by"}
    assert model["id"] == DEMO_MODEL


def test_responses_are_unread_and_have_request_ids() -> None:
    async def get_twice() -> list[httpx.Response]:
        transport = DemoTransport()
        request = httpx.Request("GET", "http://demo/v1/models")
        responses = [await transport.handle_async_request(request) for _ in range(2)]
        for response in responses:
            # As a response from a socket: it can be read once.
            body = b"".join([chunk async for chunk in response.aiter_raw()])
            assert int(response.headers["content-length"]) == len(body)
        return responses

    ids = {response.headers["x-request-id"] for response in asyncio.run(get_twice())}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("POST", "/v1/embeddings")],
)
def test_other_paths_are_not_found(method: str, path: str) -> None:
    response = send(path, b"{}", method)
    assert response.status == 404
    judge_error(response.body)


def invalid_body(name: DialectName, **fields: object) -> bytes:
    return json.dumps({"model": "demo", **question(name, "Hi?"), **fields}).encode()


def error_for(name: DialectName, body: bytes) -> JsonObject:
    """Send an invalid request; return the error object."""
    response = send(PATHS[name], body)
    assert response.status == 400, response.body
    assert response.headers["content-type"] == "application/json"
    judge_error(response.body)
    return object_in(read_object(response.body), "error")


@every_dialect
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"model": "demo"}'])
def test_malformed_body_is_an_error(name: DialectName, body: bytes) -> None:
    error_for(name, body)


INVALID_FIELDS: list[JsonObject] = [
    {"tools": 3},
    {"tools": [{"type": "function"}]},
    {"tool_choice": {"type": "function", "name": "missing"}},
    {"tool_choice": "required"},
    {"messages": 1, "input": 1},
    {"max_tokens": 0, "max_output_tokens": 0},
]


@every_dialect
@pytest.mark.parametrize("fields", INVALID_FIELDS)
def test_invalid_field_is_an_error(name: DialectName, fields: JsonObject) -> None:
    error_for(name, invalid_body(name, **fields))


ERROR_FIELDS: list[tuple[DialectName, JsonObject, str]] = [
    ("chat", {"n": 0}, "n"),
    ("chat", {"n": -1}, "n"),
    ("chat", {"n": 129}, "n"),
    ("chat", {"n": 10**9}, "n"),
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("legacy", {"functions": [WEATHER], "function_call": {"name": "missing"}}, "function_call"),
]


@pytest.mark.parametrize(("name", "fields", "param"), ERROR_FIELDS)
def test_error_names_the_field(name: DialectName, fields: JsonObject, param: str) -> None:
    assert error_for(name, invalid_body(name, **fields))["param"] == param
