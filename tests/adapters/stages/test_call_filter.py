"""One call where the client asked for one, in every pair of dialects that can make several."""

import json
from itertools import product

import pytest
from msgspec.structs import replace

from adapters.ir.types import Choice, Finish, Reply, Request, ToolCall
from adapters.losses import Losses
from adapters.stages.call_filter import call_filters
from adapters.tool_emulation import ToolRegistry
from tests.exchange import Exchange
from tests.judges.reading import JsonObject

WHY = "the request allows only one call per reply"
MODERN = ("chat", "responses")
CALLS = ("call_1", "call_2", "call_3")


def request(dialect: str) -> bytes:
    function: JsonObject = {"name": "f", "parameters": {"type": "object"}}
    body: JsonObject = {"model": "m", "parallel_tool_calls": False}
    if dialect == "chat":
        body["messages"] = [{"role": "user", "content": "Go."}]
        body["tools"] = [{"type": "function", "function": function}]
    else:
        body["input"] = "Go."
        body["tools"] = [{"type": "function", **function}]
    return json.dumps(body).encode()


def reply(dialect: str) -> bytes:
    if dialect == "chat":
        calls = [
            {"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for one in CALLS
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
        return json.dumps({**head, "choices": [choice]}).encode()
    output = [
        {"type": "function_call", "id": f"fc_{one}", "call_id": one, "name": "f", "arguments": "{}"}
        for one in CALLS
    ]
    head = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return json.dumps({**head, "output": output}).encode()


def asked(client: str, backend: str) -> Exchange:
    exchange = Exchange(client, backend, rewrite=True)
    exchange.request(request(client))
    return exchange


@pytest.mark.parametrize(("client", "backend"), [*product(MODERN, MODERN)])
def test_only_the_first_call_is_kept(client: str, backend: str) -> None:
    for told in (
        asked(client, backend).reply(reply(backend)),
        asked(client, backend).reply_as_stream(reply(backend)),
    ):
        assert [one for one in CALLS if one.encode() in told.body] == ["call_1"]
        lost = [loss for loss in told.losses if loss.reason == WHY]
        assert [loss.path for loss in lost] == ["call f (call_2)", "call f (call_3)"]
        assert {loss.severity for loss in lost} == {"capability"}


def test_each_choice_may_have_its_call() -> None:
    calls = tuple(ToolCall(call_id, "f", status="completed") for call_id in CALLS)
    choice = Choice(calls, Finish("calls", "tool_calls"))
    (stage,) = call_filters(Request(parallel_tool_calls=False), ToolRegistry(), Losses(None))
    kept = stage.reply(Reply(choices=(choice, choice)))
    first = replace(choice, items=choice.items[:1])
    assert kept.choices == (first, first)
