"""Tool search, deferred tools and ranking."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ir.types import Text, ToolCall, ToolOutput
from adapters.tool_emulation.tool_search import bm25_rank
from tests.adapters.tool_emulation.emulating import Wire, emulate, exchange


def test_search_output_may_be_text() -> None:
    call = ToolCall("1", "tool_search", "{}", "tool_search")
    output = ToolOutput("1", (Text("found nothing"),), "tool_search")
    _, output_ = emulate(call, output).request.items
    assert isinstance(output_, ToolOutput)
    assert (output_.kind, output_.output) == ("function", "No tool was found.")


@pytest.mark.parametrize("types", [(), ("namespace",)])
def test_found_tool_has_its_declared_name(types: tuple[str, ...]) -> None:
    namespace, name = "n" * 30, "t" * 50
    found: Wire = {"type": "function", "name": name, "parameters": {"type": "object"}}
    items: list[Wire] = [
        {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {}},
        {
            "type": "tool_search_output",
            "call_id": "1",
            "execution": "client",
            "tools": [
                {"type": "namespace", "name": namespace, "description": "", "tools": [found]}
            ],
        },
    ]
    limited = exchange("responses", "responses", rewrite=True, tool_types=types)
    sent = json.loads(limited.request(json.dumps({"model": "m", "input": items}).encode()).body)
    (tool,) = sent["tools"]
    called = tool["name"] if not types else f"{tool['name']}.{tool['tools'][0]['name']}"
    assert sent["input"][1]["output"].endswith(f"\n- {called}")


DEFERRED: Wire = {
    "type": "namespace",
    "name": "sea",
    "description": "",
    "tools": [
        {"type": "function", "name": "tide", "description": "Tides.", "defer_loading": True},
        {"type": "function", "name": "sail", "description": "Sails.", "defer_loading": True},
    ],
}
REQUEST: Wire = {"model": "m", "input": "When is the tide?", "tools": [DEFERRED]}


def test_call_of_an_undeclared_deferred_tool_is_restored() -> None:
    limited = exchange("responses", "chat", max_deferred_tools=1)
    sent = json.loads(limited.request(json.dumps(REQUEST).encode()).body)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["sea__tide"]
    called = {"name": "sea__sail", "arguments": "{}"}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "function": called}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reply = limited.reply(json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode())
    (item,) = json.loads(reply.body)["output"]
    assert (item["namespace"], item["name"]) == ("sea", "sail")


@pytest.mark.parametrize("types", [("namespace",), ("namespace", "tool_search")])
def test_tools_are_not_deferred_without_a_search(types: tuple[str, ...]) -> None:
    limited = exchange("responses", "responses", rewrite=True, tool_types=types)
    sent = limited.request(json.dumps(REQUEST).encode())
    (namespace,) = json.loads(sent.body)["tools"]
    has_search = "tool_search" in types
    assert [tool.get("defer_loading", False) for tool in namespace["tools"]] == [has_search] * 2
    assert [loss.path for loss in sent.losses] == (
        [] if has_search else [f"tools[0].tools[{number}].defer_loading" for number in range(2)]
    )


# Ranking


def test_terms_of_a_query_find_tools() -> None:
    tools = ["get_weather Forecast for a city", "sendMail Sends a letter", "find_tides Tides"]
    assert bm25_rank("What is the weather?", tools, 5) == [0]
    assert bm25_rank("mail a letter", tools, 5)[0] == 1
    assert bm25_rank("high tide", tools, 5) == [2]
    assert bm25_rank("weather and tides", tools, 1) in ([0], [2])
    assert bm25_rank("cheese", tools, 5) == []
    assert bm25_rank("", tools, 5) == bm25_rank("weather", [], 5) == []


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=5), st.integers(0, 5))
def test_ranking_has_unique_positions(query: str, texts: list[str], limit: int) -> None:
    positions = bm25_rank(query, texts, limit)
    assert len(positions) == len(set(positions)) <= limit
    assert all(0 <= position < len(texts) for position in positions)
