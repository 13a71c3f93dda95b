"""Emulation of the tools of a request, and whole exchanges with emulated tools."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.errors import UnsupportedRequestError
from adapters.ir.types import CustomTool, FunctionTool, Request, Tool, ToolCall
from adapters.losses import Losses
from adapters.tool_emulation import CallRestorer, EmulatedRequest
from tests.adapters.tool_emulation.emulating import (
    ALL_TOOLS,
    Wire,
    emulate,
    exchange,
    hosted,
    namespace,
    reply_of,
)
from tests.exchange import Exchange

VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")

names = st.text(st.sampled_from("ab._ é-"), min_size=1, max_size=4) | st.text(
    st.sampled_from("ab"), min_size=60, max_size=70
)


@st.composite
def tool_lists(draw: st.DrawFn) -> tuple[Tool, ...]:
    """Return tools of all kinds, often with similar names."""
    tools: list[Tool] = [FunctionTool(name) for name in draw(st.lists(names, max_size=3))]
    tools += [CustomTool(name) for name in draw(st.lists(names, max_size=3))]
    for name in draw(st.lists(names, max_size=2, unique=True)):
        children = draw(st.lists(st.tuples(names, st.sampled_from(("function", "custom")))))
        inner: list[Wire] = [{"type": kind, "name": child} for child, kind in children]
        tools.append(namespace(name, *inner))
    tools += [hosted(kind) for kind in draw(st.sets(st.sampled_from(("shell", "apply_patch"))))]
    return tuple(tools)


@given(tool_lists())
def test_backend_names_are_unique_and_reversible(tools: tuple[Tool, ...]) -> None:
    try:
        emulated = emulate(tools=tools)
    except UnsupportedRequestError as error:
        reason = error.message
    else:
        check_names(emulated, tools)
        return
    # The message names both tools.
    assert re.search(r"\(tools\[.*\(tools\[", reason)


def check_names(emulated: EmulatedRequest, tools: tuple[Tool, ...]) -> None:
    backend_names = [one.name for one in emulated.request.tools if isinstance(one, FunctionTool)]
    assert len(backend_names) == len(emulated.request.tools) == len(set(backend_names))
    assert all(map(VALID.fullmatch, backend_names))
    restored = {restore_one(emulated, ToolCall("1", name, "{}")) for name in backend_names}
    assert len(restored) == len(backend_names)
    for call in restored:
        assert emulate_one(emulated, tools, call).name in backend_names


def restore_one(emulated: EmulatedRequest, call: ToolCall) -> ToolCall:
    (choice,) = CallRestorer(emulated.registry, Losses(None)).reply(reply_of(call)).choices
    (item,) = choice.items
    assert isinstance(item, ToolCall)
    return item


def emulate_one(emulated: EmulatedRequest, tools: tuple[Tool, ...], call: ToolCall) -> ToolCall:
    again = emulate(call, tools=tools)
    assert again.request.tools == emulated.request.tools
    (item,) = again.request.items
    assert isinstance(item, ToolCall)
    assert item.kind == "function"
    return item


def test_extra_arguments_in_the_history_are_reported() -> None:
    losses = Losses()
    call = ToolCall("1", "note", '{"input":"x","more":1}')
    again = emulate(call, tools=(CustomTool("note"),), backend=ALL_TOOLS, losses=losses)
    assert again.request.items == (ToolCall("1", "note", "x", "custom"),)
    assert [loss.path for loss in losses] == ["items[0].arguments"]


REQUEST = {
    "model": "m",
    "input": "Go.",
    "tools": [
        {"type": "custom", "name": "note"},
        {
            "type": "namespace",
            "name": "ns",
            "description": "",
            "tools": [{"type": "function", "name": "f"}],
        },
        {"type": "shell"},
    ],
}


def response(*output: object) -> bytes:
    body = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed"}
    return json.dumps({**body, "model": "m", "output": output}).encode()


def test_responses_backend_without_tools_gets_functions() -> None:
    capable = exchange("responses", "responses", rewrite=True)
    sent = json.loads(capable.request(json.dumps(REQUEST).encode()).body)
    assert [tool["type"] for tool in sent["tools"]] == ["custom", "namespace", "shell"]

    limited = exchange("responses", "responses", rewrite=True, custom_tools=False, tool_types=())
    sent = json.loads(limited.request(json.dumps(REQUEST).encode()).body)
    assert [tool["name"] for tool in sent["tools"]] == ["note", "ns__f", "shell"]
    call = {"type": "function_call", "id": "fc_1", "call_id": "1", "status": "completed"}
    reply = limited.reply(response({**call, "name": "note", "arguments": '{"input":"x"}'}))
    (item,) = json.loads(reply.body)["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "x")


def test_reply_passes_unchanged_if_no_tool_is_emulated() -> None:
    capable = exchange("responses", "responses", rewrite=True)
    capable.request(json.dumps(REQUEST).encode())
    call = {"type": "custom_tool_call", "call_id": "1", "name": "note", "input": "x", "odd": 1}
    assert capable.reply(response(call)).body == response(call)


def test_name_collisions_do_not_affect_a_reply() -> None:
    """Without an emulated request the names in a reply are unchanged."""
    request = Request(tools=(FunctionTool("a.b"), FunctionTool("a_b")))
    reply = Exchange("responses", "chat", request=request).reply(
        b'{"id":"1","model":"m","choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}'
    )
    assert reply.status == 200


def test_unenforced_grammar_is_refused_under_the_refuse_policy() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    body: Wire = {"model": "m", "input": "Go.", "tools": [{"type": "custom", "name": "t"}]}
    plain = Exchange("responses", "chat", policy="refuse")
    assert plain.request(json.dumps(body).encode()).losses
    body["tools"] = [{"type": "custom", "name": "t", "format": grammar}]
    with pytest.raises(UnsupportedRequestError, match="grammar") as error:
        plain.request(json.dumps(body).encode())
    assert error.value.path == "tools[0].format"


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        ({"type": "shell"}, ["shell_call"]),
        ({"type": "custom", "name": "note"}, ["custom_tool_call"]),
        ({"type": "namespace", "name": "ns"}, ["function_call"]),
        ({"type": "function", "name": "f", "namespace": "ns"}, ["function_call"]),
        ({"type": "function", "name": "f"}, ["function_call"]),
    ],
)
def test_only_allowed_tools_are_called(listed: Wire, kept: list[str]) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [listed]}
    limited = exchange("responses", "chat", allowed_tools=False)
    sent = json.loads(limited.request(json.dumps({**REQUEST, "tool_choice": choice}).encode()).body)
    assert len(sent["tools"]) == 1
    calls = [
        {"id": str(number), "function": {"name": name, "arguments": text}}
        for number, (name, text) in enumerate(
            (("note", '{"input":"x"}'), ("ns__f", "{}"), ("shell", '{"commands":["ls"]}'))
        )
    ]
    body = {"id": "1", "model": "m", "choices": [{"message": {"tool_calls": calls}}]}
    reply = json.loads(limited.reply(json.dumps(body).encode()).body)
    assert [item["type"] for item in reply["output"]] == kept


def test_missing_output_of_a_builtin_call_gets_its_kind() -> None:
    body: Wire = {
        "model": "m",
        "input": [
            {"role": "user", "content": "Go."},
            {"type": "shell_call", "call_id": "1", "action": {"commands": ["ls"]}},
            {"type": "apply_patch_call", "call_id": "2", "operation": {"type": "delete_file"}},
            {"type": "computer_call", "id": "cu_1", "call_id": "3", "actions": []},
            {"type": "tool_search_call", "call_id": "4", "execution": "client", "arguments": {}},
            {"role": "user", "content": "Well?"},
        ],
    }
    sent = exchange("responses", "responses", rewrite=True).request(json.dumps(body).encode())
    outputs = [item for item in json.loads(sent.body)["input"] if "output" in item["type"]]
    assert [item["type"] for item in outputs] == [
        "shell_call_output",
        "apply_patch_call_output",
        "computer_call_output",
        "tool_search_output",
    ]
    assert outputs[0]["output"][0]["stdout"].startswith("No output")
    assert outputs[1]["status"] == "completed"
    assert outputs[2]["output"] == {"type": "computer_screenshot"}
    assert outputs[3]["tools"] == []


def test_items_of_builtin_tools_are_rewritten_unchanged() -> None:
    items: list[Wire] = [
        {"type": "shell_call", "call_id": "1", "status": "completed", "action": {"commands": []}},
        {"type": "shell_call_output", "call_id": "1", "output": [], "max_output_length": 5},
        {
            "type": "computer_call",
            "call_id": "2",
            "status": "completed",
            "pending_safety_checks": [{"id": "sc"}],
            "action": {"type": "wait"},
            "id": "cu_1",
        },
        {
            "type": "computer_call_output",
            "call_id": "2",
            "output": {"type": "computer_screenshot", "file_id": "f", "detail": "high", "odd": 1},
        },
        {
            "type": "local_shell_call",
            "call_id": "3",
            "status": "completed",
            "action": {"type": "exec", "env": {"A": "1"}, "command": ["ls"]},
            "id": "lsh_1",
        },
        {"type": "local_shell_call_output", "id": "3", "output": "a"},
        {
            "type": "tool_search_call",
            "call_id": "4",
            "status": "completed",
            "execution": "client",
            "arguments": {"query": "x"},
        },
        {
            "type": "tool_search_output",
            "call_id": "4",
            "execution": "client",
            "tools": [{"type": "function", "name": "found"}],
        },
    ]
    body = json.dumps({"model": "m", "input": items}).encode()
    sent = exchange("responses", "responses", rewrite=True).request(body)
    assert json.loads(sent.body)["input"] == items
    assert not sent.losses
