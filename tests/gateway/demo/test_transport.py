"""The demo's transport: every dialect, whole and streamed, and its errors.

Requests are written as Chat requests and translated for the dialect, as are the replies.
"""

import asyncio
import json

import httpx
import pytest

import adapters
from gateway.demo.reply import DEMO_MODEL
from gateway.demo.transport import DemoTransport
from tests.judges.reading import (
    JsonObject,
    integer_in,
    object_in,
    objects_in,
    read_object,
    text_in,
)
from tests.judges.sdk import (
    judge_chat_reply,
    judge_chat_stream,
    judge_error,
    judge_responses_reply,
    judge_responses_stream,
)

JUDGES = {
    ("responses", False): judge_responses_reply,
    ("responses", True): judge_responses_stream,
    ("completions", False): judge_chat_reply,
    ("completions", True): judge_chat_stream,
}

every_dialect = pytest.mark.parametrize("name", adapters.DIALECTS)
with_call_ids = pytest.mark.parametrize("name", ["chat", "responses"])
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


async def get_response(
    transport: DemoTransport, path: str, body: bytes = b"", method: str = "POST"
) -> tuple[httpx.Response, list[bytes]]:
    """Return a response, and the chunks in which its body came."""
    request = httpx.Request(method, f"http://demo{path}", content=body)
    response = await transport.handle_async_request(request)
    # As a response from a socket: it can be read once.
    return response, [chunk async for chunk in response.aiter_raw()]


def send(path: str, body: bytes = b"", method: str = "POST") -> tuple[httpx.Response, list[bytes]]:
    transport = DemoTransport(ids=adapters.deterministic_ids(), delta_delay=0)
    return asyncio.run(get_response(transport, path, body, method))


def question(text: str, *functions: JsonObject, **fields: object) -> JsonObject:
    request: JsonObject = {"model": DEMO_MODEL, "messages": [{"role": "user", "content": text}]}
    if functions:
        request["tools"] = [{"type": "function", "function": one} for one in functions]
    return {**request, **fields}


def ask_raw(
    name: str, request: JsonObject, *, stream: bool = False
) -> tuple[adapters.BackendRequest, list[bytes]]:
    """Send a Chat request in a dialect; judge the reply and return its chunks."""
    translated = adapters.translate_request(request, client="chat", backend=name, profile="openai")
    body = {**read_object(translated.body), "stream": stream}
    dialect = adapters.get_dialect(name)
    if stream and name != "responses":
        body["stream_options"] = {"include_usage": True}
    response, chunks = send(f"/v1{dialect.path}", json.dumps(body).encode())
    received = b"".join(chunks)
    assert response.status_code == 200, received
    JUDGES[dialect.family, stream](received)
    assert not stream or adapters.check(name, received) == []
    return translated, chunks


def ask(name: str, request: JsonObject, *, stream: bool = False) -> JsonObject:
    """Send a Chat request in a dialect; return the reply as a whole Chat reply."""
    translated, chunks = ask_raw(name, request, stream=stream)
    return read_object(adapters.translate_reply(b"".join(chunks), translated).body)


def only_choice(reply: JsonObject) -> JsonObject:
    (choice,) = objects_in(reply, "choices")
    return choice


def text_of(reply: JsonObject) -> str:
    return text_in(object_in(only_choice(reply), "message"), "content")


def calls_of(reply: JsonObject) -> list[JsonObject]:
    message = object_in(only_choice(reply), "message")
    return objects_in(message, "tool_calls") if "tool_calls" in message else []


def functions_of(reply: JsonObject) -> list[tuple[str, object]]:
    """Return the name and the arguments of each call."""
    functions = [object_in(call, "function") for call in calls_of(reply)]
    return [(text_in(one, "name"), json.loads(text_in(one, "arguments"))) for one in functions]


def with_outputs(request: JsonObject, reply: JsonObject, *outputs: str) -> JsonObject:
    """Return a request continued by the calls of a reply and their outputs."""
    turn = [object_in(only_choice(reply), "message")]
    for call, output in zip(calls_of(reply), outputs, strict=True):
        turn.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    return {**request, "messages": [*objects_in(request, "messages"), *turn]}


# Replies


@every_dialect
@whole_and_streamed
def test_greeting_and_usage(name: str, *, stream: bool) -> None:
    reply = ask(name, question("Is anybody there?"), stream=stream)
    assert "Is anybody there?" in text_of(reply)
    assert "Dragoman" in text_of(reply)
    assert reply["model"] == DEMO_MODEL
    usage = object_in(reply, "usage")
    assert usage["prompt_tokens"] == 5
    assert usage["completion_tokens"] == 42
    assert usage["total_tokens"] == 47


@every_dialect
@whole_and_streamed
def test_tool_is_called_and_its_output_reported(name: str, *, stream: bool) -> None:
    request = question("What is the weather in Bergen?", TIME, WEATHER)
    reply = ask(name, request, stream=stream)
    assert functions_of(reply) == [("get_weather", {"city": "Bergen", "unit": "celsius"})]
    assert only_choice(reply)["finish_reason"] == "tool_calls"
    final = ask(name, with_outputs(request, reply, "8 degrees, rain"), stream=stream)
    assert not calls_of(final)
    assert text_of(final) == "For Bergen, get_weather says: 8 degrees, rain"


@with_call_ids
@whole_and_streamed
def test_parallel_calls(name: str, *, stream: bool) -> None:
    request = question("What is the weather in Paris and New York, in Fahrenheit?", WEATHER)
    reply = ask(name, request, stream=stream)
    assert functions_of(reply) == [
        ("get_weather", {"city": city, "unit": "fahrenheit"}) for city in ("Paris", "New York")
    ]
    assert len({text_in(call, "id") for call in calls_of(reply)}) == 2
    final = ask(name, with_outputs(request, reply, "sun", "snow"), stream=stream)
    lines = ("For Paris, get_weather says: sun", "For New York, get_weather says: snow")
    assert text_of(final) == "\n".join(lines)


@whole_and_streamed
def test_legacy_calls_come_one_at_a_time(*, stream: bool) -> None:
    request = question("What are the weather and the time in Paris?", WEATHER, TIME)
    called: list[str] = []
    for output in ("sun", "noon"):
        reply = ask("legacy", request, stream=stream)
        called += [name for name, _ in functions_of(reply)]
        request = with_outputs(request, reply, output)
    assert called == ["get_weather", "get_time"]
    text = text_of(ask("legacy", request, stream=stream))
    assert text == "For Paris, get_weather says: sun\nFor Paris, get_time says: noon"


@with_call_ids
@whole_and_streamed
def test_custom_tool_is_called_with_text(name: str, *, stream: bool) -> None:
    tools: list[JsonObject] = [{"type": "custom", "custom": {"name": "run_python"}}]
    reply = ask(name, question("Say hello", tools=tools), stream=stream)
    (call,) = calls_of(reply)
    assert object_in(call, "custom") == {"name": "run_python", "input": "print('hello')"}
    final = ask(name, with_outputs(question("Say hello"), reply, "hello, hello"))
    assert text_of(final) == "run_python says: hello, hello"


def ask_responses(**fields: object) -> JsonObject:
    _, chunks = send("/v1/responses", json.dumps({"model": "demo", **fields}).encode())
    judge_responses_reply(b"".join(chunks))
    (item,) = objects_in(read_object(b"".join(chunks)), "output")
    return item


def test_hosted_tool_is_not_called() -> None:
    assert ask_responses(input="Hello?", tools=[{"type": "web_search"}])["type"] == "message"


def test_image_as_output_of_a_tool_is_no_question() -> None:
    history: list[JsonObject] = [
        {"role": "user", "content": "What is the weather in Rome?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": "sun"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            ],
        },
    ]
    message = ask_responses(input=history, tools=[{"type": "function", **WEATHER}])
    assert objects_in(message, "content")[0]["text"] == "get_weather says: sun"


@pytest.mark.parametrize("name", ["chat", "legacy"])
@whole_and_streamed
def test_number_of_choices(name: str, *, stream: bool) -> None:
    one, three = (
        ask(name, question("What is the weather in Oslo?", WEATHER, n=number), stream=stream)
        for number in (1, 3)
    )
    choices = objects_in(three, "choices")
    assert [choice["finish_reason"] for choice in choices] == ["tool_calls"] * 3
    calls = [objects_in(object_in(choice, "message"), "tool_calls") for choice in choices]
    assert len({text_in(call, "id") for (call,) in calls}) == 3
    before, after = object_in(one, "usage"), object_in(three, "usage")
    assert after["prompt_tokens"] == before["prompt_tokens"]
    assert integer_in(after, "completion_tokens") == 3 * integer_in(before, "completion_tokens")


# Streams


@every_dialect
def test_stream_is_sent_in_whole_small_frames(name: str) -> None:
    request = question("What is the weather in Trondheim?", WEATHER)
    _, chunks = ask_raw(name, request, stream=True)
    assert len(chunks) > 6
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)


@every_dialect
def test_streamed_text_equals_whole_text(name: str) -> None:
    request = question("Say it.", WEATHER)
    text = "  Two  spaces,\n\na line\tand the end \n"
    request = with_outputs(request, ask(name, request), text)
    assert text_of(ask(name, request, stream=True)) == text_of(ask(name, request))


# Limits and formats


@every_dialect
@whole_and_streamed
def test_reply_ends_at_the_token_limit(name: str, *, stream: bool) -> None:
    # The smallest limit of the Responses API.
    limit = 16
    text = "Where is the tallest building of the world, and how high is it? " * 2
    query: JsonObject = {"name": "search", "parameters": {"required": ["query"]}}
    greeting, call = (
        ask(name, question(text, *tools, max_tokens=limit), stream=stream)
        for tools in ((), (query,))
    )
    assert text_of(greeting) == f"You said: “{text}"[: limit * 4]
    (function,) = (object_in(one, "function") for one in calls_of(call))
    assert function["arguments"] == f'{{"query":"{text}'[: limit * 4]
    for reply in (greeting, call):
        assert only_choice(reply)["finish_reason"] == "length"
        assert object_in(reply, "usage")["completion_tokens"] == limit


def test_second_call_is_dropped_at_the_token_limit() -> None:
    request = question("The weather in Rome and Oslo?", WEATHER, max_completion_tokens=8)
    reply = ask("chat", request)
    assert len(calls_of(reply)) == 1
    assert only_choice(reply)["finish_reason"] == "length"


@pytest.mark.parametrize("stop", ["?", ["never said", "?"]])
@pytest.mark.parametrize("name", ["chat", "legacy"])
def test_text_ends_before_a_stop_sequence(name: str, stop: object) -> None:
    assert text_of(ask(name, question("Hello?", stop=stop))) == "You said: “Hello"


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
}
FORMATS: list[tuple[JsonObject, set[str]]] = [
    ({"type": "json_object"}, {"answer"}),
    (
        {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        {"answer", "sure"},
    ),
]


@every_dialect
@pytest.mark.parametrize(("response_format", "keys"), FORMATS)
def test_response_format(name: str, response_format: JsonObject, keys: set[str]) -> None:
    request = question("Hello?", response_format=response_format)
    parsed = read_object(text_of(ask(name, request)))
    assert parsed.keys() == keys
    assert "Hello?" in str(parsed["answer"])


# Models and errors


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1/models/"])
def test_model_list(path: str) -> None:
    response, chunks = send(path, method="GET")
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(b"".join(chunks))
    (model,) = objects_in(read_object(b"".join(chunks)), "data")
    assert model.keys() == {"id", "object", "created", "owned_by"}
    assert model["id"] == DEMO_MODEL


def test_responses_have_request_ids() -> None:
    responses = [asyncio.run(get_response(DemoTransport(), "/models"))[0] for _ in range(2)]
    assert len({response.headers["x-request-id"] for response in responses}) == 2


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("POST", "/v1/models"), ("POST", "/v1/embeddings")],
)
def test_other_paths_are_not_found(method: str, path: str) -> None:
    response, chunks = send(path, b"{}", method)
    assert response.status_code == 404
    judge_error(b"".join(chunks))


def error_for(path: str, body: bytes) -> JsonObject:
    """Send an invalid request; return the error object."""
    response, chunks = send(path, body)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    judge_error(b"".join(chunks))
    return object_in(read_object(b"".join(chunks)), "error")


DEEP = b'{"messages":[{"content":' + b"[" * 5000 + b"]" * 5000 + b"}]}"


@pytest.mark.parametrize("path", adapters.dialects_by_path())
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"model": "demo"}', DEEP])
def test_malformed_body_is_an_error(path: str, body: bytes) -> None:
    error_for(path, body)


CHAT_ERRORS: list[tuple[JsonObject, str]] = [
    ({"messages": 1}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "robot"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"text": 1}]}]}, "messages[0].content[0].text"),
    ({"tools": 3}, "tools"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "unknown"}]}, "tools[0].type"),
    ({"tool_choice": {"type": "function", "function": {"name": "missing"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_completion_tokens": "3"}, "max_completion_tokens"),
    ({"stop": [1]}, "stop[0]"),
    ({"stream": "yes"}, "stream"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"n": 10**30}, "n"),
]
OTHER_ERRORS: list[tuple[str, JsonObject, str]] = [
    ("legacy", {"function_call": {"name": "missing"}}, "function_call"),
    ("legacy", {"functions": 3}, "functions"),
    ("legacy", {"n": 0}, "n"),
    ("responses", {"input": 1}, "input"),
    ("responses", {"tools": [{"type": "function"}]}, "tools[0].name"),
    ("responses", {"tool_choice": "required"}, "tool_choice"),
    ("responses", {"max_output_tokens": 0}, "max_output_tokens"),
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"conversation": "conv_1"}, "conversation"),
]


@pytest.mark.parametrize(
    ("name", "fields", "param"), [*(("chat", *one) for one in CHAT_ERRORS), *OTHER_ERRORS]
)
def test_error_names_the_field(name: str, fields: JsonObject, param: str) -> None:
    needed: JsonObject = {"input": "Hi?"} if name == "responses" else question("Hi?")
    if name == "legacy":
        needed["functions"] = [WEATHER]
    body = json.dumps({"model": "demo", **needed, **fields}).encode()
    assert error_for(adapters.get_dialect(name).path, body)["param"] == param
