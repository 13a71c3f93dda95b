"""Which tools the demo calls, for what, and when it has called enough."""

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
from gateway.demo.planning import make_call, plan
from gateway.demo.question import read_question, read_turn
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
    """Give the name and the arguments of each call for a question."""
    request = Request(
        items=(user(text), *since), tools=tools, tool_choice=choice, parallel_tool_calls=parallel
    )
    mint = deterministic_ids()
    planned = plan(request, read_turn(request.items), Losses())
    made = [make_call(one, mint) for one in planned]
    return [(call.name, json.loads(call.arguments)) for call in made]


# --- names in a question ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is the weather in Paris?", ("Paris",)),
        ("Paris and Tokyo, please", ("Paris", "Tokyo")),
        (
            "Is it colder in New York, Oslo or Rio de Janeiro?",
            ("New York", "Oslo", "Rio", "Janeiro"),
        ),
        ("What's up? I'm in Zürich. Is Zürich nice?", ("Zürich",)),
        ("Where is order A123?", ("A123",)),
        ("will it rain on Monday", ()),
        ("¿Qué tiempo hace en Ávila?", ("Qué", "Ávila")),
        ("東京の天気は?", ()),
        ("", ()),
    ],
)
def test_names_are_found(text: str, names: tuple[str, ...]) -> None:
    assert read_question(text).subjects == names


def test_numbers_are_found() -> None:
    found = read_question("Add 2, 3.5 and -4; not A5, 1.2.3 or 99999999999999999999")
    assert found.numbers[:3] == (2, 3.5, -4)
    assert 5 not in found.numbers


# --- which tools ------------------------------------------------------------------------------


def test_tool_is_found_by_its_name() -> None:
    assert calls("What time is it in Rome?", WEATHER, TIME) == [("get_time", {"city": "Rome"})]


def test_tool_is_found_by_its_description() -> None:
    text = "Which articles are there on tea?"
    assert calls(text, WEATHER, SEARCH) == [("lookup", {"query": text})]


def test_first_tool_is_called_if_none_fits() -> None:
    assert calls("Hello there!", WEATHER, TIME) == [("get_weather", {"city": "Paris"})]


def test_several_tools_are_called_if_several_fit() -> None:
    made = calls("What are the time and the weather in Rome?", WEATHER, TIME)
    assert made == [("get_weather", {"city": "Rome"}), ("get_time", {"city": "Rome"})]


def test_call_that_takes_two_names_gets_both() -> None:
    assert calls("Convert USD to EUR", CONVERT) == [
        ("convert_currency", {"from": "USD", "to": "EUR"})
    ]


def test_list_takes_all_names() -> None:
    schema = b'{"type":"object","properties":{"cities":{"type":"array","items":{"type":"string"}}}}'
    made = calls("Compare Paris and Rome", FunctionTool("compare", None, Raw(schema)))
    assert made == [("compare", {"cities": ["Paris", "Rome"]})]


def test_calls_have_a_limit() -> None:
    text = "Weather in " + ", ".join(f"City{number}" for number in range(50))
    assert len(calls(text, WEATHER)) == 8


def test_custom_tool_without_a_hint_gets_the_question() -> None:
    request = Request(items=(user("Say hello"),), tools=(CustomTool("parrot"),))
    (planned,) = plan(request, read_turn(request.items), Losses())
    assert make_call(planned, deterministic_ids()).arguments == "Say hello"


# --- the choice -------------------------------------------------------------------------------


def test_no_tool_is_called_where_none_may_be() -> None:
    assert calls("Weather in Rome?", WEATHER, choice=ToolChoiceMode("none")) == []
    assert (
        calls(
            "Weather in Rome?",
            WEATHER,
            choice=AllowedToolsChoice("none", (NamedToolChoice("get_time"),)),
        )
        == []
    )


def test_named_tool_is_called_whatever_the_question() -> None:
    made = calls("Weather in Rome?", WEATHER, TIME, choice=NamedToolChoice("get_time"))
    assert made == [("get_time", {"city": "Rome"})]


def test_only_allowed_tools_are_called() -> None:
    choice = AllowedToolsChoice("auto", (NamedToolChoice("get_time"),))
    made = calls("Weather in Rome?", WEATHER, TIME, choice=choice)
    assert made == [("get_time", {"city": "Rome"})]


def test_one_call_at_a_time_where_so_asked() -> None:
    assert calls("Weather in Rome and Oslo?", WEATHER, parallel=False) == [
        ("get_weather", {"city": "Rome"})
    ]


@pytest.mark.parametrize(
    "choice",
    [NamedToolChoice("missing"), AllowedToolsChoice("auto", (NamedToolChoice("missing"),))],
)
def test_choice_of_a_missing_tool_is_refused(choice: ToolChoice) -> None:
    with pytest.raises(UnsupportedRequestError):
        calls("Hello?", WEATHER, choice=choice)


def test_tool_that_runs_elsewhere_cannot_be_demanded() -> None:
    with pytest.raises(UnsupportedRequestError):
        calls("Hello?", HostedTool("web_search", Raw(b"{}")), choice=ToolChoiceMode("required"))


# --- what was called before -------------------------------------------------------------------

ROME = ToolCall("call_1", "get_weather", '{"city":"Rome"}')
SUN = ToolOutput("call_1", "sun")


def test_answered_question_needs_no_call() -> None:
    assert calls("Weather in Rome?", WEATHER, since=(ROME, SUN)) == []


def test_next_call_follows_the_first() -> None:
    made = calls("Weather in Rome and Oslo?", WEATHER, parallel=False, since=(ROME, SUN))
    assert made == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("choice", [ToolChoiceMode("required"), NamedToolChoice("get_weather")])
def test_demanded_call_is_made_again(choice: ToolChoice) -> None:
    made = calls("Weather in Rome?", WEATHER, choice=choice, since=(ROME, SUN))
    assert made == [("get_weather", {"city": "Rome"})]


def test_result_without_its_call_counts() -> None:
    assert calls("Weather in Rome?", WEATHER, since=(SUN,)) == []


def test_result_is_known_by_the_name_of_its_tool() -> None:
    turn = read_turn((user("Weather?"), ROME, ToolOutput(None, "sun", name="get_weather")))
    assert [result.call for result in turn.results] == [ROME]
    assert [result.name for result in turn.results] == ["get_weather"]


def test_new_question_needs_new_calls() -> None:
    made = calls("Weather in Rome?", WEATHER, since=(ROME, SUN, user("And the weather in Oslo?")))
    assert made == [("get_weather", {"city": "Oslo"})]
