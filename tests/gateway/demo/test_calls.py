"""Which tools the demo calls, with which arguments, and when it stops."""

import json

import pytest

from adapters import InvalidRequestError, deterministic_ids
from gateway.demo.chat import read_request
from gateway.demo.reply import write_reply
from tests.judges.reading import JsonObject, object_in, objects_in, text_in

Calls = list[tuple[str, JsonObject]]


def function(name: str, *parameters: str, description: str | None = None) -> JsonObject:
    properties = {one: {"type": "string"} for one in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    declared = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": declared}


def only(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, name: str) -> JsonObject:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [only(name)]}}


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


WEATHER = function("get_weather", "city")
TIME = function("get_time", "city")
SEARCH = function("lookup", "query", description="Search the encyclopedia for articles.")
CONVERT = function("convert_currency", "from", "to")
LIST: JsonObject = {"properties": {"cities": {"type": "array", "items": {"type": "string"}}}}
COMPARE: JsonObject = {"type": "function", "function": {"name": "compare", "parameters": LIST}}
ARTICLES = "Which articles are there on tea?"

CALL = {"name": "get_weather", "arguments": '{"city":"Rome"}'}
ROME: JsonObject = {
    "role": "assistant",
    "tool_calls": [{"id": "call_1", "type": "function", "function": CALL}],
}
SUN: JsonObject = {"role": "tool", "tool_call_id": "call_1", "content": "sun"}

WEATHER_IN_ROME = ("get_weather", {"city": "Rome"})
WEATHER_IN_OSLO = ("get_weather", {"city": "Oslo"})
TIME_IN_ROME = ("get_time", {"city": "Rome"})


def reply_message(
    text: str, *tools: JsonObject, since: tuple[JsonObject, ...] = (), **fields: object
) -> JsonObject:
    """Return the message that replies to a question and what was called since."""
    request = {"messages": [user(text), *since], "tools": tools, **fields}
    reply = write_reply(read_request(json.dumps(request).encode()), deterministic_ids())
    return object_in(objects_in(reply, "choices")[0], "message")


def calls_for(
    text: str, *tools: JsonObject, since: tuple[JsonObject, ...] = (), **fields: object
) -> Calls:
    """Return the name and the arguments of each call for a question."""
    message = reply_message(text, *tools, since=since, **fields)
    calls = objects_in(message, "tool_calls") if "tool_calls" in message else []
    made = [object_in(call, "function") for call in calls]
    return [(text_in(call, "name"), json.loads(text_in(call, "arguments"))) for call in made]


@pytest.mark.parametrize(
    ("text", "tools", "expected"),
    [
        ("What time is it in Rome?", (WEATHER, TIME), [TIME_IN_ROME]),
        (ARTICLES, (WEATHER, SEARCH), [("lookup", {"query": ARTICLES})]),
        ("Hello there!", (WEATHER, TIME), [("get_weather", {"city": "Paris"})]),
        ("The time and weather in Rome?", (WEATHER, TIME), [WEATHER_IN_ROME, TIME_IN_ROME]),
        ("USD to EUR", (CONVERT,), [("convert_currency", {"from": "USD", "to": "EUR"})]),
        ("Compare Paris, Rome", (COMPARE,), [("compare", {"cities": ["Paris", "Rome"]})]),
    ],
    ids=["by-name", "by-description", "first", "all-that-match", "two-names", "list-of-names"],
)
def test_calls_for_a_question(text: str, tools: tuple[JsonObject, ...], expected: Calls) -> None:
    assert calls_for(text, *tools) == expected


def test_number_of_calls_is_limited() -> None:
    text = "Weather in " + ", ".join(f"City{number}" for number in range(50))
    assert len(calls_for(text, WEATHER)) == 8


def test_custom_tool_with_unknown_name_gets_the_question() -> None:
    tool: JsonObject = {"type": "custom", "custom": {"name": "parrot"}}
    (call,) = objects_in(reply_message("Say hello", tool), "tool_calls")
    assert call["custom"] == {"name": "parrot", "input": "Say hello"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", []),
        (allowed("none", "get_time"), []),
        (only("get_time"), [TIME_IN_ROME]),
        (allowed("auto", "get_time"), [TIME_IN_ROME]),
    ],
)
def test_tool_choice(choice: object, expected: Calls) -> None:
    assert calls_for("Weather in Rome?", WEATHER, TIME, tool_choice=choice) == expected


@pytest.mark.parametrize(
    ("tools", "choice"),
    [((WEATHER,), only("missing")), ((WEATHER,), allowed("auto", "missing")), ((), "required")],
    ids=["named", "allowed", "any"],
)
def test_choice_of_a_missing_tool_is_an_error(
    tools: tuple[JsonObject, ...], choice: object
) -> None:
    with pytest.raises(InvalidRequestError, match="tool_choice needs a declared tool"):
        calls_for("Hello?", *tools, tool_choice=choice)


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ((), [WEATHER_IN_ROME]),
        ((ROME, SUN), [WEATHER_IN_OSLO]),
        ((SUN,), [WEATHER_IN_OSLO]),
        ((ROME, SUN, ROME, SUN), []),
        ((ROME, SUN, user("The weather in Oslo?")), [WEATHER_IN_OSLO]),
    ],
    ids=["first-call", "second-call", "output-without-its-call", "all-called", "new-question"],
)
def test_next_call_without_parallel_calls(since: tuple[JsonObject, ...], expected: Calls) -> None:
    text = "Weather in Rome and Oslo?"
    assert calls_for(text, WEATHER, parallel_tool_calls=False, since=since) == expected


@pytest.mark.parametrize("choice", ["required", only("get_weather")])
def test_required_call_is_repeated(choice: object) -> None:
    question = "Weather in Rome?"
    assert calls_for(question, WEATHER, tool_choice=choice, since=(ROME, SUN)) == [WEATHER_IN_ROME]


def test_output_without_its_call_is_reported() -> None:
    assert reply_message("Weather?", since=(SUN,))["content"] == "The tool says: sun"
