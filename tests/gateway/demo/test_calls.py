"""Which tools the demo calls, with which arguments, and when it stops."""

import json

import msgspec
import pytest
from msgspec import Raw

from adapters.errors import UnsupportedRequestError
from adapters.ids import deterministic_ids
from adapters.ir.types import (
    AllowedToolsChoice,
    CustomTool,
    FunctionTool,
    HostedTool,
    Item,
    Message,
    NamedToolChoice,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
)
from adapters.losses import Losses
from gateway.demo.reply import make_call, plan_calls, read_turn
from tests.judges.reading import JsonObject


def function(name: str, *properties: str, description: str | None = None) -> FunctionTool:
    schema = {
        "type": "object",
        "properties": {one: {"type": "string"} for one in properties},
        "required": list(properties),
    }
    return FunctionTool(name, description, Raw(msgspec.json.encode(schema)))


WEATHER = function("get_weather", "city")
TIME = function("get_time", "city")
SEARCH = function("lookup", "query", description="Search the encyclopedia for articles.")
CONVERT = function("convert_currency", "from", "to")


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def calls(
    text: str,
    *tools: Tool,
    choice: ToolChoice | None = None,
    parallel: bool | None = None,
    since: tuple[Item, ...] = (),
) -> list[tuple[str, JsonObject]]:
    """Return the name and the arguments of each call for a question."""
    request = Request(
        items=(user(text), *since), tools=tools, tool_choice=choice, parallel_tool_calls=parallel
    )
    ids = deterministic_ids()
    planned = plan_calls(request, read_turn(request.items), Losses())
    made = [make_call(one, ids) for one in planned]
    return [(call.name, json.loads(call.arguments)) for call in made]


CITY_LIST = FunctionTool(
    "compare", None, Raw(b'{"properties":{"cities":{"type":"array","items":{"type":"string"}}}}')
)
ARTICLES = "Which articles are there on tea?"
ROME = ToolCall("call_1", "get_weather", '{"city":"Rome"}')
SUN = ToolOutput("call_1", "sun")

WEATHER_IN_ROME = ("get_weather", {"city": "Rome"})
WEATHER_IN_OSLO = ("get_weather", {"city": "Oslo"})
TIME_IN_ROME = ("get_time", {"city": "Rome"})


@pytest.mark.parametrize(
    ("text", "tools", "expected"),
    [
        pytest.param("What time is it in Rome?", (WEATHER, TIME), [TIME_IN_ROME], id="by-name"),
        pytest.param(
            ARTICLES, (WEATHER, SEARCH), [("lookup", {"query": ARTICLES})], id="by-description"
        ),
        pytest.param(
            "Hello there!", (WEATHER, TIME), [("get_weather", {"city": "Paris"})], id="first"
        ),
        pytest.param(
            "What are the time and the weather in Rome?",
            (WEATHER, TIME),
            [WEATHER_IN_ROME, TIME_IN_ROME],
            id="all-that-match",
        ),
        pytest.param(
            "Convert USD to EUR",
            (CONVERT,),
            [("convert_currency", {"from": "USD", "to": "EUR"})],
            id="two-names",
        ),
        pytest.param(
            "Compare Paris and Rome",
            (CITY_LIST,),
            [("compare", {"cities": ["Paris", "Rome"]})],
            id="list-of-names",
        ),
    ],
)
def test_calls_for_a_question(
    text: str, tools: tuple[Tool, ...], expected: list[tuple[str, JsonObject]]
) -> None:
    assert calls(text, *tools) == expected


def test_number_of_calls_is_limited() -> None:
    text = "Weather in " + ", ".join(f"City{number}" for number in range(50))
    assert len(calls(text, WEATHER)) == 8


def test_custom_tool_with_unknown_name_gets_the_question() -> None:
    request = Request(items=(user("Say hello"),), tools=(CustomTool("parrot"),))
    (planned,) = plan_calls(request, read_turn(request.items), Losses())
    assert make_call(planned, deterministic_ids()).arguments == "Say hello"


ONLY_TIME = (NamedToolChoice("get_time"),)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoiceMode("none"), []),
        (AllowedToolsChoice("none", ONLY_TIME), []),
        (NamedToolChoice("get_time"), [TIME_IN_ROME]),
        (AllowedToolsChoice("auto", ONLY_TIME), [TIME_IN_ROME]),
    ],
)
def test_tool_choice(choice: ToolChoice, expected: list[tuple[str, JsonObject]]) -> None:
    assert calls("Weather in Rome?", WEATHER, TIME, choice=choice) == expected


@pytest.mark.parametrize(
    "choice",
    [NamedToolChoice("missing"), AllowedToolsChoice("auto", (NamedToolChoice("missing"),))],
)
def test_choice_of_a_missing_tool_is_an_error(choice: ToolChoice) -> None:
    with pytest.raises(UnsupportedRequestError):
        calls("Hello?", WEATHER, choice=choice)


def test_hosted_tool_cannot_be_required() -> None:
    with pytest.raises(UnsupportedRequestError):
        calls("Hello?", HostedTool("web_search", Raw(b"{}")), choice=ToolChoiceMode("required"))


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param((), [WEATHER_IN_ROME], id="first-call"),
        pytest.param((ROME, SUN), [WEATHER_IN_OSLO], id="second-call"),
        pytest.param((SUN,), [WEATHER_IN_OSLO], id="output-without-its-call"),
        pytest.param((ROME, SUN, ROME, SUN), [], id="all-called"),
        pytest.param(
            (ROME, SUN, user("The weather in Oslo?")), [WEATHER_IN_OSLO], id="new-question"
        ),
    ],
)
def test_next_call_without_parallel_calls(
    since: tuple[Item, ...], expected: list[tuple[str, JsonObject]]
) -> None:
    assert calls("Weather in Rome and Oslo?", WEATHER, parallel=False, since=since) == expected


@pytest.mark.parametrize("choice", [ToolChoiceMode("required"), NamedToolChoice("get_weather")])
def test_required_call_is_repeated(choice: ToolChoice) -> None:
    assert calls("Weather in Rome?", WEATHER, choice=choice, since=(ROME, SUN)) == [WEATHER_IN_ROME]


def test_output_without_id_is_matched_by_tool_name() -> None:
    turn = read_turn((user("Weather?"), ROME, ToolOutput(None, "sun", name="get_weather")))
    assert [result.call for result in turn.results] == [ROME]
