"""Tools whose names are equal once they are valid get distinct names, and their own ones back."""

import json
from typing import Any

import pytest

import adapters
from tests.exchange import Exchange, exchange_between

NAMES = ("fs.read", "fs_read", "fs/read")
TOOLS: list[dict[str, object]] = [
    {"type": "function", "name": name, "parameters": {"type": "object"}} for name in NAMES
]


def request(tools: list[dict[str, object]], *items: object) -> bytes:
    user = {"role": "user", "content": "Read."}
    return json.dumps({"model": "m", "input": [user, *items], "tools": tools}).encode()


def declared(tools: list[dict[str, object]], backend: str = "chat") -> list[str]:
    sent = json.loads(exchange_between("responses", backend).request(request(tools)).body)
    if backend == "legacy":
        return [function["name"] for function in sent["functions"]]
    return [tool["function"]["name"] for tool in sent["tools"]]


@pytest.mark.parametrize("backend", ["chat", "legacy"])
def test_names_are_distinct_and_stable(backend: str) -> None:
    names = declared(TOOLS, backend)
    assert names[1] == "fs_read"
    assert len(set(names)) == 3
    assert all(name.startswith("fs_read") for name in names)
    # They do not depend on the order.
    assert declared(TOOLS[::-1], backend) == names[::-1]


def test_each_tool_gets_a_hash_if_no_tool_has_the_name() -> None:
    names = declared([TOOLS[0], TOOLS[2]])
    assert names == declared([TOOLS[2], TOOLS[0]])[::-1]
    assert names == [declared(TOOLS)[0], declared(TOOLS)[2]]


def test_namespaces_with_equal_qualified_names_may_change_their_order() -> None:
    namespaces: list[dict[str, object]] = [
        {
            "type": "namespace",
            "name": name,
            "description": "Files.",
            "tools": [{**TOOLS[0], "name": tool}],
        }
        for name, tool in (("a", "b__c"), ("a__b", "c"))
    ]
    names = declared(namespaces)
    assert len(set(names)) == 2
    assert names == declared(namespaces[::-1])[::-1]


def test_long_names_stay_within_the_limit() -> None:
    long = "a" * 63
    tools = [{**TOOLS[0], "name": f"{long}{sign}"} for sign in "._/"]
    names = declared(tools)
    assert len(set(names)) == 3
    assert max(map(len, names)) <= 64


def test_collisions_are_reported_as_adapted() -> None:
    sent = Exchange("responses", "chat", policy="refuse").request(request(TOOLS))
    paths = {loss.path: loss.severity for loss in sent.losses if loss.path.endswith(".name")}
    assert paths == {"tools[0].name": "adapted", "tools[2].name": "adapted"}


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("streamed", [True, False])
def test_calls_have_the_names_of_the_client(
    position: int,
    streamed: bool,  # noqa: FBT001 - a parameter
) -> None:
    exchange = exchange_between("responses", "chat")
    sent = exchange.request(request(TOOLS))
    name = declared(TOOLS)[position]
    function = {"name": name, "arguments": "{}"}
    call = {"index": 0, "id": "call_123456789", "type": "function", "function": function}
    head: dict[str, object] = {"id": "1", "model": "m", "created": 1}
    if streamed:
        chunks: list[Any] = [
            {**head, "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        ]
        lines = [b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks]
        body = b"".join(lines) + b"data: [DONE]\n\n"
    else:
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        body = json.dumps({**head, "object": "chat.completion", "choices": [choice]}).encode()
    translator = adapters.ReplyTranslator(sent.reply_plan, streamed=streamed)
    written = translator.feed(body)
    reply: Any = json.loads(written + translator.finish(started=bool(written)).body)
    [item] = reply["output"]
    assert item["name"] == NAMES[position]
    # The next turn.
    output = {"type": "function_call_output", "call_id": item["call_id"], "output": "1"}
    again = json.loads(exchange_between("responses", "chat").request(
        request(TOOLS, item, output)
    ).body)  # fmt: skip
    assert again["messages"][1]["tool_calls"][0]["function"]["name"] == name


def test_undeclared_call_in_the_history_keeps_its_distance() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "fs.read", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    body = request([TOOLS[1]], call, output)
    sent = json.loads(exchange_between("responses", "chat").request(body).body)
    name = sent["messages"][1]["tool_calls"][0]["function"]["name"]
    assert name == declared(TOOLS)[0]


def test_function_and_custom_tool_with_one_name() -> None:
    custom: dict[str, object] = {"type": "custom", "name": "run"}
    tools = [{**TOOLS[0], "name": "run"}, custom]
    exchange = exchange_between("responses", "chat")
    exchange.request(request(tools))
    first, second = declared(tools)
    assert (first, second.startswith("run_")) == ("run", True)
    items = [
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": "x"},
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "2"},
    ]
    sent = json.loads(exchange_between("responses", "chat").request(request(tools, *items)).body)
    calls = sent["messages"][1]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == [first, second]


@pytest.mark.parametrize("backend", ["chat", "legacy", "responses"])
def test_two_definitions_of_one_tool_are_still_refused(backend: str) -> None:
    tools = [TOOLS[0], {**TOOLS[0], "description": "Another."}]
    with pytest.raises(adapters.UnsupportedRequestError):
        exchange_between("responses", backend, rewrite=True).request(request(tools))
