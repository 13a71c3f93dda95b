"""The demo at the level of its transport: every dialect, whole and streamed, and its refusals."""

import asyncio
import json
from typing import get_args

import httpx
import pytest

from adapters.ir.types import Reply
from gateway.demo import DEMO_MODEL, DemoTransport
from tests.gateway.demo_client import (
    PATHS,
    DialectName,
    answered,
    ask,
    calls_of,
    judge,
    only,
    question,
    send,
    words_of,
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


# --- answers ----------------------------------------------------------------------------------


@every_dialect
@whole_and_streamed
def test_says_something_friendly_and_what_it_cost(name: DialectName, *, stream: bool) -> None:
    asked = question(name, "Is anybody there?")
    if name != "responses" and stream:
        asked["stream_options"] = {"include_usage": True}
    reply = ask(name, asked, stream=stream)
    assert "Is anybody there?" in words_of(reply)
    assert "Dragoman" in words_of(reply)
    assert reply.model == DEMO_MODEL
    assert reply.usage is not None
    assert reply.usage.input_tokens == 5
    assert reply.usage.output_tokens > 20
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens


@every_dialect
@whole_and_streamed
def test_calls_the_tool_and_uses_its_result(name: DialectName, *, stream: bool) -> None:
    asked = question(name, "What is the weather in Bergen?", TIME, WEATHER)
    called = ask(name, asked, stream=stream)
    assert [call.name for call in calls_of(called)] == ["get_weather"]
    assert arguments_of(called) == [{"city": "Bergen", "unit": "celsius"}]
    finish = only(called).finish
    # The Responses API has no word for it: the calls speak for themselves.
    assert finish is not None
    assert finish.reason == ("stop" if name == "responses" else "calls")
    told = ask(name, answered(name, asked, called, "8 degrees, rain"), stream=stream)
    assert not calls_of(told)
    assert words_of(told) == "For Bergen, get_weather says: 8 degrees, rain"


@pytest.mark.parametrize("name", ["chat", "responses"])
@whole_and_streamed
def test_calls_in_parallel(name: DialectName, *, stream: bool) -> None:
    asked = question(name, "What is the weather in Paris and New York, in Fahrenheit?", WEATHER)
    called = ask(name, asked, stream=stream)
    assert arguments_of(called) == [
        {"city": "Paris", "unit": "fahrenheit"},
        {"city": "New York", "unit": "fahrenheit"},
    ]
    assert len({call.call_id for call in calls_of(called)}) == 2
    told = ask(name, answered(name, asked, called, "sun", "snow"), stream=stream)
    lines = ("For Paris, get_weather says: sun", "For New York, get_weather says: snow")
    assert words_of(told) == "\n".join(lines)


@whole_and_streamed
def test_legacy_client_gets_one_call_after_the_other(*, stream: bool) -> None:
    asked = question("legacy", "What are the weather and the time in Paris?", WEATHER, TIME)
    called: list[str] = []
    for output in ("sun", "noon"):
        reply = ask("legacy", asked, stream=stream)
        called += [call.name for call in calls_of(reply)]
        asked = answered("legacy", asked, reply, output)
    assert called == ["get_weather", "get_time"]
    told = words_of(ask("legacy", asked, stream=stream))
    assert told == "For Paris, get_weather says: sun\nFor Paris, get_time says: noon"


@pytest.mark.parametrize("name", ["chat", "responses"])
@whole_and_streamed
def test_custom_tool_gets_text(name: DialectName, *, stream: bool) -> None:
    inner: JsonObject = {"name": "run_python"}
    tool = {"type": "custom"} | ({"custom": inner} if name == "chat" else inner)
    (call,) = calls_of(ask(name, question(name, "Say hello") | {"tools": [tool]}, stream=stream))
    assert (call.kind, call.name, call.arguments) == ("custom", "run_python", "print('hello')")


def test_result_of_a_custom_tool_is_used_though_models_thought_before() -> None:
    asked = question("responses", "Say hello")
    history: list[JsonObject] = [
        *objects_in(asked, "input"),
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "custom_tool_call", "call_id": "call_1", "name": "parrot", "input": "hello"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "hello, hello"},
    ]
    told = words_of(ask("responses", {"input": history}))
    assert told == "parrot says: hello, hello"


def test_tool_that_runs_elsewhere_is_not_called() -> None:
    asked = question("responses", "Hello?") | {"tools": [{"type": "web_search"}]}
    assert not calls_of(ask("responses", asked))


@whole_and_streamed
def test_gives_as_many_choices_as_are_asked_for(*, stream: bool) -> None:
    asked = question("chat", "What is the weather in Oslo?", WEATHER) | {"n": 3, "model": "demo"}
    answer = send(PATHS["chat"], json.dumps(asked | {"stream": stream}).encode())
    judge("chat", answer.body, stream=stream)
    ids = {number for number in range(1, 4) if f"call_000{number}".encode() in answer.body}
    assert ids == {1, 2, 3}
    if not stream:
        assert len(objects_in(read_object(answer.body), "choices")) == 3


# --- streams ----------------------------------------------------------------------------------


@every_dialect
def test_stream_comes_in_small_pieces_of_whole_events(name: DialectName) -> None:
    asked = question(name, "What is the weather in Trondheim?", WEATHER)
    answer = send(PATHS[name], json.dumps(asked | {"model": "demo", "stream": True}).encode())
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert len(answer.pieces) > 6
    assert all(piece.endswith(b"\n\n") and piece.count(b"\n\n") == 1 for piece in answer.pieces)


@every_dialect
def test_text_is_streamed_word_by_word_and_not_changed(name: DialectName) -> None:
    text = "  Two  spaces,\n\na line\tand the end \n"
    asked = question(name, "Say it.", WEATHER)
    asked = answered(name, asked, ask(name, asked), text)
    assert words_of(ask(name, asked, stream=True)) == words_of(ask(name, asked))


# --- what the request asks for ----------------------------------------------------------------


@every_dialect
@whole_and_streamed
def test_answer_ends_where_it_may_cost_no_more(name: DialectName, *, stream: bool) -> None:
    limit = "max_output_tokens" if name == "responses" else "max_tokens"
    reply = ask(name, question(name, "Hello?") | {limit: 3}, stream=stream)
    finish = only(reply).finish
    assert finish is not None
    assert finish.reason == "length"
    assert words_of(reply) == "You said: “H"


@every_dialect
@whole_and_streamed
def test_call_ends_where_it_may_cost_no_more(name: DialectName, *, stream: bool) -> None:
    limit = "max_output_tokens" if name == "responses" else "max_tokens"
    asked = question(name, "How is the weather in Rome?", WEATHER) | {limit: 2}
    reply = ask(name, asked, stream=stream)
    finish = only(reply).finish
    assert finish is not None
    assert finish.reason == "length"
    assert [call.arguments for call in calls_of(reply)] == ['{"city":']


@pytest.mark.parametrize("name", ["chat", "legacy"])
def test_answer_ends_before_a_stop_sequence(name: DialectName) -> None:
    asked = question(name, "Hello?") | {"stop": ["?", "never said"]}
    assert words_of(ask(name, asked)) == "You said: “Hello"


OBJECT: JsonObject = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
}
FORMATS: list[tuple[DialectName, JsonObject, set[str]]] = [
    ("chat", {"response_format": {"type": "json_object"}}, {"answer"}),
    ("responses", {"text": {"format": {"type": "json_object"}}}, {"answer"}),
    (
        "chat",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": OBJECT},
            }
        },
        {"answer", "sure"},
    ),
    (
        "responses",
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": OBJECT}}},
        {"answer", "sure"},
    ),
]


@pytest.mark.parametrize(("name", "wanted", "keys"), FORMATS)
def test_answer_has_the_format_that_is_asked_for(
    name: DialectName, wanted: JsonObject, keys: set[str]
) -> None:
    told = read_object(words_of(ask(name, question(name, "Hello?") | wanted)))
    assert told.keys() == keys
    assert "Hello?" in str(told["answer"])


# --- models and mistakes ----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1/models/"])
def test_lists_its_model(path: str) -> None:
    answer = send(path, method="GET")
    assert answer.status == 200
    (model,) = objects_in(read_object(answer.body), "data")
    assert model.keys() == {"id", "object", "created", "owned_by"}
    assert model["id"] == DEMO_MODEL


def test_answer_can_be_read_as_one_from_a_socket() -> None:
    async def read() -> bytes:
        asked = httpx.Request("GET", "http://demo/v1/models")
        response = await DemoTransport().handle_async_request(asked)
        body = b"".join([piece async for piece in response.aiter_raw()])
        assert int(response.headers["content-length"]) == len(body)
        return body

    assert read_object(asyncio.run(read()))["object"] == "list"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("POST", "/v1/embeddings")],
)
def test_does_not_know_other_addresses(method: str, path: str) -> None:
    answer = send(path, b"{}", method)
    assert answer.status == 404
    judge_error(answer.body)


def spoiled(name: DialectName, **fields: object) -> bytes:
    return json.dumps({"model": "demo", **question(name, "Hi?"), **fields}).encode()


def refused(name: DialectName, body: bytes) -> JsonObject:
    """Send what cannot be answered; give the inside of the error."""
    answer = send(PATHS[name], body)
    assert answer.status == 400, answer.body
    assert answer.headers["content-type"] == "application/json"
    judge_error(answer.body)
    return object_in(read_object(answer.body), "error")


@every_dialect
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"model": "demo"}'])
def test_malformed_body_is_told_in_the_envelope(name: DialectName, body: bytes) -> None:
    refused(name, body)


SPOILING: list[JsonObject] = [
    {"tools": 3},
    {"tools": [{"type": "function"}]},
    {"tool_choice": {"type": "function", "name": "missing"}},
    {"tool_choice": "required"},
    {"messages": 1, "input": 1},
    {"max_tokens": 0, "max_output_tokens": 0},
]


@every_dialect
@pytest.mark.parametrize("fields", SPOILING)
def test_mistake_is_told_in_the_envelope(name: DialectName, fields: JsonObject) -> None:
    refused(name, spoiled(name, **fields))


@pytest.mark.parametrize("count", [0, -1, 129, 10**9])
def test_number_of_choices_has_limits(count: int) -> None:
    assert refused("chat", spoiled("chat", n=count))["param"] == "n"


def test_what_was_kept_elsewhere_is_refused() -> None:
    error = refused("responses", spoiled("responses", previous_response_id="resp_1"))
    assert error["param"] == "previous_response_id"


def test_mistake_is_named_as_its_dialect_names_it() -> None:
    asked = question("legacy", "Hi?", WEATHER) | {"function_call": {"name": "missing"}}
    assert refused("legacy", json.dumps(asked).encode())["param"] == "function_call"


def test_ids_are_its_own_unless_a_mint_is_given() -> None:
    async def request_ids() -> set[str]:
        transport = DemoTransport()
        asked = httpx.Request("GET", "http://demo/v1/models")
        answers = [await transport.handle_async_request(asked) for _ in range(2)]
        return {answer.headers["x-request-id"] for answer in answers}

    assert len(asyncio.run(request_ids())) == 2
