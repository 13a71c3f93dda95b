"""Tools that a Responses backend knows as what they are: chosen, and called, by what they are."""

import json
from typing import cast

import pytest

import adapters
from adapters.capabilities import OPENAI
from adapters.translation.exchange import Exchange

Wire = dict[str, object]

RUN: Wire = {"type": "function", "name": "run", "parameters": {"type": "object", "properties": {}}}
SPACE: Wire = {
    "type": "namespace",
    "name": "jobs",
    "description": "Jobs.",
    "tools": [RUN, {"type": "custom", "name": "note"}],
}
USER: Wire = {"type": "message", "role": "user", "content": "Run it."}
# How a client may bring a namespace along, besides declaring it.
ADDITIONAL: Wire = {"type": "additional_tools", "role": "developer", "tools": [SPACE]}
SEARCH: Wire = {
    "type": "tool_search_call",
    "call_id": "call_1",
    "execution": "client",
    "arguments": {"query": "jobs"},
}
FOUND: Wire = {
    "type": "tool_search_output",
    "call_id": "call_1",
    "execution": "client",
    "tools": [SPACE],
}
BY_SERVER: Wire = {"type": "tool_search_output", "execution": "server", "tools": [SPACE]}
PLACES: dict[str, Wire] = {
    "declared": {"input": [USER], "tools": [SPACE]},
    "additional": {"input": [ADDITIONAL, USER]},
    "found": {"input": [USER, SEARCH, FOUND], "tools": [{"type": "tool_search"}]},
    "found by the server": {"input": [USER, BY_SERVER], "tools": [{"type": "tool_search"}]},
}
CHOICES: list[Wire] = [
    {"type": "function", "name": "run", "namespace": "jobs"},
    {"type": "custom", "name": "note", "namespace": "jobs"},
    {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "run", "namespace": "jobs"}],
    },
]


def rewriting() -> Exchange:
    """Make an exchange in which a request is written anew, for a backend that knows all tools."""
    mint = adapters.deterministic_ids()
    return adapters.exchange("responses", "responses", mint=mint, capabilities=OPENAI, rewrite=True)


def sent(exchange: Exchange, **body: object) -> Wire:
    written = exchange.request(json.dumps({"model": "m", **body}).encode())
    assert not written.losses
    return cast("Wire", json.loads(written.body))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda one: cast("str", one["type"]))
@pytest.mark.parametrize("place", PLACES)
def test_a_tool_in_a_namespace_can_be_chosen(place: str, choice: Wire) -> None:
    assert sent(rewriting(), **PLACES[place], tool_choice=choice)["tool_choice"] == choice


@pytest.mark.parametrize("place", PLACES)
def test_the_namespace_of_a_choice_need_not_be_said(place: str) -> None:
    choice = {"type": "function", "name": "run"}
    assert sent(rewriting(), **PLACES[place], tool_choice=choice)["tool_choice"] == choice


def test_the_namespace_of_a_choice_is_said_where_the_name_is_not_enough() -> None:
    body: Wire = {
        "model": "m",
        "messages": [{"role": "user", "content": "Run it."}],
        "tools": [SPACE, RUN],
        "tool_choice": {"type": "function", "function": {"name": "jobs__run"}},
    }
    exchange = adapters.exchange("chat", "responses", mint=adapters.deterministic_ids())
    written = cast("Wire", json.loads(exchange.request(json.dumps(body).encode()).body))
    assert written["tool_choice"] == CHOICES[0]


def test_tools_that_only_items_bring_along_are_chosen_from() -> None:
    written = sent(
        rewriting(), **PLACES["additional"], tool_choice="required", parallel_tool_calls=False
    )
    assert "tools" not in written
    assert written["tool_choice"] == "required"
    assert written["parallel_tool_calls"] is False


@pytest.mark.parametrize("place", PLACES)
def test_a_call_in_a_namespace_is_not_taken_for_another(place: str) -> None:
    exchange = rewriting()
    body = PLACES[place]
    tools = [RUN, *cast("list[Wire]", body.get("tools", []))]
    # One call at a time: the answer must be read to see to that.
    sent(exchange, input=body["input"], tools=tools, parallel_tool_calls=False)
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_2",
        "name": "run",
        "namespace": "jobs",
        "arguments": "{}",
        "status": "completed",
    }
    response = {"id": "resp_1", "status": "completed", "model": "m", "output": [call]}
    answer = exchange.reply(json.dumps(response).encode())
    assert cast("Wire", json.loads(answer.body))["output"] == [call]
