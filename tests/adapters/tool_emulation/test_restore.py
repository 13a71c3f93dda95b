"""Restoring and downgrading of the calls in whole and streamed replies."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec import Raw

from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate
from adapters.ir.events import Closed, Delta, Event, Opened, Started, truncated_stream
from adapters.losses import Losses
from adapters.stages.stage import Pipeline
from adapters.tool_emulation import CallDowngrader, CallRestorer
from adapters.tool_emulation.custom_tools import wrap_input
from tests.adapters.tool_emulation.test_emulation import (
    ALL_TOOLS,
    emulate,
    hosted,
    namespace,
    reply_of,
)
from tests.event_order import check_order
from tests.strategies.streams import events

TOOLS: tuple[ir.Tool, ...] = (
    ir.FunctionTool("look"),
    ir.FunctionTool("a.b"),
    ir.CustomTool("note"),
    namespace("ns", {"type": "function", "name": "f"}, {"type": "custom", "name": "c"}),
    hosted("shell"),
    hosted("apply_patch"),
    hosted("tool_search", execution="client"),
)
REGISTRY = emulate(tools=TOOLS).registry
FUNCTION: frozenset[ir.CallKind] = frozenset(("function",))

called = st.sampled_from(
    ("look", "a_b", "note", "ns__f", "ns__c", "shell", "apply_patch", "tool_search")
) | st.sampled_from(("Look", "functions.note", "ns.c", "f", "c", "strange", "shell_"))
texts = st.text(st.characters(codec="utf-8"), max_size=8)
arguments = (
    texts
    | texts.map(wrap_input)
    | texts.map(lambda text: wrap_input(text)[:-1])
    | texts.map(lambda text: wrap_input(text)[:-2])
    | texts.map(lambda text: json.dumps({"input": text, "more": 1}))
    | texts.map(lambda text: wrap_input(text)[:-2] + "\\ud83d")
    | texts.map(lambda text: json.dumps({"commands": [text]}))
    | texts.map(lambda text: json.dumps({"patch": text}))
)


@st.composite
def replies(draw: st.DrawFn) -> ir.Reply:
    items: list[ir.ToolCall | ir.Message] = []
    for number in range(draw(st.integers(0, 4))):
        status: ir.Status = draw(st.sampled_from(("completed", "incomplete")))
        if draw(st.integers(0, 3)) == 0:
            items.append(ir.Message("assistant", (ir.Text(draw(texts)),), status=status))
        else:
            name, text = draw(called), draw(arguments)
            kind: ir.CallKind = draw(st.sampled_from(("function", "function", "custom")))
            items.append(ir.ToolCall(f"call_{number}", name, text, kind, status=status))
    return reply_of(*items)


def stages(losses: Losses, *, downgrade: bool) -> list[CallRestorer | CallDowngrader]:
    restorer = CallRestorer(REGISTRY, losses)
    return [restorer, CallDowngrader(FUNCTION, losses)] if downgrade else [restorer]


@pytest.mark.parametrize("downgrade", [False, True])
@given(data=st.data())
def test_stream_equals_whole_reply(data: DataObject, *, downgrade: bool) -> None:
    reply = data.draw(replies())
    whole, of_whole = reply, Losses(None)
    for stage in stages(of_whole, downgrade=downgrade):
        whole = stage.reply(whole)
    of_stream = Losses(None)
    streamed = run(stages(of_stream, downgrade=downgrade), data.draw(events(reply)))
    assert accumulate(streamed) == whole
    assert set(of_stream) == set(of_whole)


def test_waiting_blocks_are_emitted_when_the_stream_is_truncated() -> None:
    stream: list[Event] = [
        Started(),
        Opened(0, ir.ToolCall("1", "shell")),
        Delta(0, "arguments", '{"comm'),
        Opened(1, ir.Message("assistant")),
        Delta(1, "text", "So."),
        Opened(2, ir.ToolCall("2", "apply_patch")),
        Opened(3, ir.ToolCall("3", "look")),
        Delta(3, "arguments", "{}"),
        Closed(3),
        Opened(4, ir.Message("assistant"), choice=1),
        truncated_stream(),
    ]
    started, _, _, text, so, _, *look, other, truncated = stream
    emitted = run([CallRestorer(REGISTRY, Losses(None))], stream)
    assert emitted == [started, other, text, so, *look, truncated]


def test_truncated_builtin_arguments_are_reported() -> None:
    losses = Losses(None)
    truncated = ir.ToolCall("1", "shell", '{"commands":["rm', status="incomplete")
    empty = ir.ToolCall("2", "shell", "", status="incomplete")
    (choice,) = CallRestorer(REGISTRY, losses).reply(reply_of(truncated, empty)).choices
    restored = [one.arguments for one in choice.items if isinstance(one, ir.ToolCall)]
    assert restored == ['{"commands":[]}'] * 2
    assert [loss.path for loss in losses] == ["call shell (1)"]


@pytest.mark.parametrize("kind", ["program", "direct"])
def test_caller_of_a_call_is_reported(kind: str) -> None:
    caller = ir.ExtraField("responses", "caller", Raw(json.dumps({"type": kind}).encode()))
    losses = Losses(None)
    call = ir.ToolCall("1", "look", "{}", extras=(caller,))
    CallDowngrader(FUNCTION, losses).reply(reply_of(call))
    assert [loss.path for loss in losses] == ["call look (1).caller"] * (kind == "program")


def run(stages_: list[CallRestorer | CallDowngrader], read: list[Event]) -> list[Event]:
    return check_order(Pipeline(*stages_).feed_all(check_order(read)))


def test_downgraded_calls_are_recognized_in_the_history() -> None:
    """A client that knows only functions sends the calls back."""
    calls = (
        ir.ToolCall("1", "note", "raw\n", "custom", status="completed"),
        ir.ToolCall("2", "f", "{}", namespace="ns", status="completed"),
        ir.ToolCall("3", "shell", '{"commands":["ls"]}', "shell", status="completed"),
    )
    downgrader = CallDowngrader(FUNCTION, Losses(None))
    (choice,) = downgrader.reply(reply_of(*calls)).choices
    again = emulate(*choice.items, tools=TOOLS, backend=ALL_TOOLS)
    assert again.request.items == calls
