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


# --- which tools ------------------------------------------------------------------------------


def test_tool_is_chosen_by_its_name() -> None:
    assert calls("What time is it in Rome?", WEATHER, TIME) == [("get_time", {"city": "Rome"})]


def test_tool_is_chosen_by_its_description() -> None:
    text = "Which articles are there on tea?"
    assert calls(text, WEATHER, SEARCH) == [("lookup", {"query": text})]


def test_first_tool_is_called_if_none_matches() -> None:
    assert calls("Hello there!", WEATHER, TIME) == [("get_weather", {"city": "Paris"})]


def test_all_matching_tools_are_called() -> None:
    made = calls("What are the time and the weather in Rome?", WEATHER, TIME)
    assert made == [("get_weather", {"city": "Rome"}), ("get_time", {"city": "Rome"})]


def test_call_with_two_names_gets_both() -> None:
    assert calls("Convert USD to EUR", CONVERT) == [
        ("convert_currency", {"from": "USD", "to": "EUR"})
    ]


def test_list_parameter_takes_all_names() -> None:
    schema = b'{"type":"object","properties":{"cities":{"type":"array","items":{"type":"string"}}}}'
    made = calls("Compare Paris and Rome", FunctionTool("compare", None, Raw(schema)))
    assert made == [("compare", {"cities": ["Paris", "Rome"]})]


def test_number_of_calls_is_limited() -> None:
    text = "Weather in " + ", ".join(f"City{number}" for number in range(50))
    assert len(calls(text, WEATHER)) == 8


def test_custom_tool_with_unknown_name_gets_the_question() -> None:
    request = Request(items=(user("Say hello"),), tools=(CustomTool("parrot"),))
    (planned,) = plan_calls(request, read_turn(request.items), Losses())
    assert make_call(planned, deterministic_ids()).arguments == "Say hello"


# --- tool choice ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choice",
    [ToolChoiceMode("none"), AllowedToolsChoice("none", (NamedToolChoice("get_time"),))],
)
def test_tool_choice_none_calls_nothing(choice: ToolChoice) -> None:
    assert calls("Weather in Rome?", WEATHER, choice=choice) == []


def test_named_tool_is_called_for_any_question() -> None:
    made = calls("Weather in Rome?", WEATHER, TIME, choice=NamedToolChoice("get_time"))
    assert made == [("get_time", {"city": "Rome"})]


def test_only_allowed_tools_are_called() -> None:
    choice = AllowedToolsChoice("auto", (NamedToolChoice("get_time"),))
    made = calls("Weather in Rome?", WEATHER, TIME, choice=choice)
    assert made == [("get_time", {"city": "Rome"})]


def test_one_call_without_parallel_tool_calls() -> None:
    assert calls("Weather in Rome and Oslo?", WEATHER, parallel=False) == [
        ("get_weather", {"city": "Rome"})
    ]


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


# --- earlier calls ----------------------------------------------------------------------------

ROME = ToolCall("call_1", "get_weather", '{"city":"Rome"}')
SUN = ToolOutput("call_1", "sun")


def test_call_with_output_is_not_repeated() -> None:
    assert calls("Weather in Rome?", WEATHER, since=(ROME, SUN)) == []


def test_second_call_follows_the_first() -> None:
    made = calls("Weather in Rome and Oslo?", WEATHER, parallel=False, since=(ROME, SUN))
    assert made == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("choice", [ToolChoiceMode("required"), NamedToolChoice("get_weather")])
def test_required_call_is_repeated(choice: ToolChoice) -> None:
    made = calls("Weather in Rome?", WEATHER, choice=choice, since=(ROME, SUN))
    assert made == [("get_weather", {"city": "Rome"})]


def test_output_without_its_call_counts_as_a_call() -> None:
    assert calls("Weather in Rome?", WEATHER, since=(SUN,)) == []


def test_output_without_id_is_matched_by_tool_name() -> None:
    turn = read_turn((user("Weather?"), ROME, ToolOutput(None, "sun", name="get_weather")))
    assert [result.call for result in turn.results] == [ROME]


def test_new_question_gets_new_calls() -> None:
    made = calls("Weather in Rome?", WEATHER, since=(ROME, SUN, user("And the weather in Oslo?")))
    assert made == [("get_weather", {"city": "Oslo"})]
