"""Choices and calls of tools that a Responses backend supports natively."""

import json
from typing import cast

import pytest

from adapters.capabilities import OPENAI
from tests.exchange import Exchange

Wire = dict[str, object]

RUN: Wire = {"type": "function", "name": "run", "parameters": {"type": "object", "properties": {}}}
NAMESPACE: Wire = {
    "type": "namespace",
    "name": "jobs",
    "description": "Jobs.",
    "tools": [RUN, {"type": "custom", "name": "note"}],
}
USER: Wire = {"type": "message", "role": "user", "content": "Run it."}
# Other ways to bring a namespace.
ADDITIONAL: Wire = {"type": "additional_tools", "role": "developer", "tools": [NAMESPACE]}
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
    "tools": [NAMESPACE],
}
FOUND_BY_SERVER: Wire = {"type": "tool_search_output", "execution": "server", "tools": [NAMESPACE]}
SOURCES: dict[str, Wire] = {
    "declared": {"input": [USER], "tools": [NAMESPACE]},
    "additional": {"input": [ADDITIONAL, USER]},
    "found": {"input": [USER, SEARCH, FOUND], "tools": [{"type": "tool_search"}]},
    "found by the server": {"input": [USER, FOUND_BY_SERVER], "tools": [{"type": "tool_search"}]},
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


def rewriting_exchange() -> Exchange:
    """Return an exchange that rewrites requests for a backend with all tools."""
    return Exchange("responses", "responses", capabilities=OPENAI, rewrite=True)


def send(exchange: Exchange, **body: object) -> Wire:
    translation = exchange.request(json.dumps({"model": "m", **body}).encode())
    assert not translation.losses
    return cast("Wire", json.loads(translation.body))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda one: cast("str", one["type"]))
@pytest.mark.parametrize("source", SOURCES)
def test_tool_in_a_namespace_can_be_chosen(source: str, choice: Wire) -> None:
    assert (
        send(rewriting_exchange(), **SOURCES[source], tool_choice=choice)["tool_choice"] == choice
    )


@pytest.mark.parametrize("source", SOURCES)
def test_choice_may_omit_the_namespace(source: str) -> None:
    choice = {"type": "function", "name": "run"}
    assert (
        send(rewriting_exchange(), **SOURCES[source], tool_choice=choice)["tool_choice"] == choice
    )


def test_choice_of_an_ambiguous_name_has_its_namespace() -> None:
    body: Wire = {
        "model": "m",
        "messages": [{"role": "user", "content": "Run it."}],
        "tools": [NAMESPACE, RUN],
        "tool_choice": {"type": "function", "function": {"name": "jobs__run"}},
    }
    exchange = Exchange("chat", "responses")
    request = cast("Wire", json.loads(exchange.request(json.dumps(body).encode()).body))
    assert request["tool_choice"] == CHOICES[0]


def test_tools_in_items_can_be_chosen() -> None:
    request = send(
        rewriting_exchange(),
        **SOURCES["additional"],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    assert "tools" not in request
    assert request["tool_choice"] == "required"
    assert request["parallel_tool_calls"] is False


@pytest.mark.parametrize("source", SOURCES)
def test_call_in_a_namespace_keeps_its_namespace(source: str) -> None:
    exchange = rewriting_exchange()
    body = SOURCES[source]
    tools = [RUN, *cast("list[Wire]", body.get("tools", []))]
    # One call at a time, so that the reply is read and not passed through.
    send(exchange, input=body["input"], tools=tools, parallel_tool_calls=False)
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
    reply = exchange.reply(json.dumps(response).encode())
    assert cast("Wire", json.loads(reply.body))["output"] == [call]
