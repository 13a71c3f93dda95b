"""One call where the client asked for one, in every pair of dialects that can make several."""

from itertools import product

import pytest
from msgspec.structs import replace

from adapters.ir.types import Choice, Finish, Reply, Request, ToolCall
from adapters.losses import Losses
from adapters.stages.call_filter import call_filters
from adapters.tool_emulation import ToolRegistry
from tests.exchange import Exchange
from tests.judges.reading import JsonObject
from tests.judges.samples import encoded

WHY = "the request allows only one call per reply"
MODERN = ("chat", "responses")
CALLS = ("call_1", "call_2", "call_3")
# The paths of the removed calls in the backend's reply.
PATHS = {
    "chat": ["choices[0].message.tool_calls[1]", "choices[0].message.tool_calls[2]"],
    "responses": ["output[1]", "output[2]"],
}


def request(dialect: str) -> bytes:
    function: JsonObject = {"name": "f", "parameters": {"type": "object"}}
    body: JsonObject = {"model": "m", "parallel_tool_calls": False}
    if dialect == "responses":
        return encoded({**body, "input": "Go.", "tools": [{"type": "function", **function}]})
    messages = [{"role": "user", "content": "Go."}]
    tools = [{"type": "function", "function": function}]
    return encoded({**body, "messages": messages, "tools": tools})


def reply(dialect: str) -> bytes:
    function = {"name": "f", "arguments": "{}"}
    if dialect == "responses":
        call = {"type": "function_call", **function}
        output = [{**call, "id": f"fc_{one}", "call_id": one} for one in CALLS]
        return encoded({"id": "r", "model": "m", "status": "completed", "output": output})
    calls = [{"id": one, "type": "function", "function": function} for one in CALLS]
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": calls}}
    return encoded({"id": "c", "model": "m", "choices": [choice]})


@pytest.mark.parametrize(("client", "backend"), [*product(MODERN, MODERN)])
def test_only_the_first_call_is_kept(client: str, backend: str) -> None:
    for translate in (Exchange.reply, Exchange.reply_as_stream):
        exchange = Exchange(client, backend, rewrite=True)
        exchange.request(request(client))
        told = translate(exchange, reply(backend))
        assert [one for one in CALLS if one.encode() in told.body] == ["call_1"]
        lost = [loss for loss in told.losses if loss.reason == WHY]
        assert [loss.path for loss in lost] == PATHS[backend]
        assert {loss.severity for loss in lost} == {"capability"}


def test_each_choice_may_have_its_call() -> None:
    calls = tuple(ToolCall(call_id, "f", status="completed") for call_id in CALLS)
    choice = Choice(calls, Finish("calls", "tool_calls"))
    request = Request(parallel_tool_calls=False, choices=2)
    (stage,) = call_filters(request, ToolRegistry(), Losses(None))
    kept = stage.reply(Reply(choices=(choice, choice)))
    first = replace(choice, items=choice.items[:1])
    assert kept.choices == (first, first)


def test_choices_that_are_merged_have_one_call() -> None:
    (stage,) = call_filters(Request(parallel_tool_calls=False), ToolRegistry(), Losses(None))
    calls = (ToolCall(call_id, "f", status="completed") for call_id in CALLS)
    choices = [Choice((call,), Finish("calls", "tool_calls")) for call in calls]
    kept = stage.reply(Reply(choices=tuple(choices)))
    assert [len(choice.items) for choice in kept.choices] == [1, *(0 for _ in choices[1:])]
