"""Tool calls at the end of reasoning, whole and streamed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ids import deterministic_ids
from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate
from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.losses import Losses
from adapters.stages.stage import Pipeline
from adapters.text_tools.reasoning_stage import ReasoningCallFinder
from adapters.text_tools.stage import TextToolCallParser
from tests.adapters.text_tools.test_scanner import ALL, cut_up
from tests.event_order import check_order

LOOK = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
TIME = "[TOOL_CALLS]time{}"
PIECES = (LOOK, TIME, "<tool_call>", "</tool_call>", "{}", "<", " ", "\n", "a", "<|end|>")
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)
POSITIONS = st.lists(st.integers(0, 300), max_size=30)
STOP, LENGTH = ir.Finish("stop", "stop"), ir.Finish("length", "length")


def run(
    pieces: Sequence[str],
    *after: Event,
    finish: ir.Finish = STOP,
    returns_calls: bool = True,
    last: Event | None = None,
    losses: Losses | None = None,
) -> ir.Choice:
    """Return the choice of a reply with reasoning in pieces, and with other events after it."""
    losses = Losses(None) if losses is None else losses
    tools = (ir.FunctionTool("look"), ir.FunctionTool("time"))
    parser = TextToolCallParser(ALL, tools, deterministic_ids(), losses)
    finder = ReasoningCallFinder(parser, losses, returns_calls=returns_calls)
    deltas = [Delta(0, "reasoning", piece) for piece in pieces]
    events: list[Event] = [Started(), Opened(0, ir.Reasoning()), *deltas, Closed(0), *after]
    events.append(last or Finished((finish,)))
    pipeline = Pipeline(finder, parser)
    out = [one for event in events for one in pipeline.feed_all([event])]
    check_order(out)
    return accumulate(out).choices[0]


def reasoning(choice: ir.Choice) -> str:
    return "".join(t for one in choice.items if isinstance(one, ir.Reasoning) for t in one.content)


def calls(choice: ir.Choice) -> list[str]:
    return [item.name for item in choice.items if isinstance(item, ir.ToolCall)]


@given(text=TEXTS, positions=POSITIONS, returns_calls=st.booleans())
def test_stream_equals_whole(text: str, positions: Sequence[int], *, returns_calls: bool) -> None:
    whole = run([text], returns_calls=returns_calls)
    assert run(cut_up(text, positions), returns_calls=returns_calls) == whole
    assert run(list(text), returns_calls=returns_calls) == whole
    if not calls(whole):
        assert reasoning(whole) == text


@given(text=TEXTS, positions=POSITIONS)
def test_reasoning_before_a_text_is_unchanged(text: str, positions: Sequence[int]) -> None:
    message = (Opened(1, ir.Message("assistant")), Delta(1, "text", "Hi."), Closed(1))
    choice = run(cut_up(text, positions), *message)
    assert (reasoning(choice), calls(choice)) == (text, [])
    assert len(choice.items) == 2


def test_all_calls_at_the_end_are_returned() -> None:
    choice = run([f"So. {TIME} or\n{LOOK}\n", f"{TIME}\n"])
    assert reasoning(choice) == f"So. {TIME} or\n"
    assert calls(choice) == ["look", "time"]
    assert choice.finish == ir.Finish("calls", "stop")


@pytest.mark.parametrize(
    ("finish", "last"),
    [
        (LENGTH, None),
        (STOP, Failed(ir.Error("the stream was cut"))),
    ],
)
def test_reasoning_of_an_incomplete_reply_is_unchanged(
    finish: ir.Finish, last: Event | None
) -> None:
    losses = Losses(None)
    choice = run([f"So. {LOOK}"], finish=finish, last=last, losses=losses)
    assert (reasoning(choice), calls(choice), list(losses)) == (f"So. {LOOK}", [], [])


def test_incomplete_reasoning_is_unchanged() -> None:
    parser = TextToolCallParser(ALL, (), deterministic_ids(), Losses(None))
    finder = ReasoningCallFinder(parser, Losses(None), returns_calls=True)
    item = ir.Reasoning(content=(LOOK,), status="incomplete")
    reply = ir.Reply(choices=(ir.Choice((item,), STOP),))
    assert Pipeline(finder, parser).reply(reply).choices[0].items == (item,)


def test_reasoning_of_a_reply_with_text_before_it_is_unchanged() -> None:
    parser = TextToolCallParser(ALL, (), deterministic_ids(), Losses(None))
    finder = ReasoningCallFinder(parser, Losses(None), returns_calls=True)
    message = ir.Message("assistant", (ir.Text("Hi."),), status="completed")
    items = (message, ir.Reasoning(content=(LOOK,), status="completed"))
    reply = ir.Reply(choices=(ir.Choice(items, STOP),))
    assert Pipeline(finder, parser).reply(reply).choices[0].items == items


def test_parts_are_searched_one_by_one() -> None:
    deltas = (
        Delta(0, "summary", "So.", 0),
        Delta(0, "summary", LOOK, 1),
        Delta(0, "summary", "", 1),
    )
    parser = TextToolCallParser(ALL, (), deterministic_ids(), Losses(None))
    finder = ReasoningCallFinder(parser, Losses(None), returns_calls=True)
    events: list[Event] = [Started(), Opened(0, ir.Reasoning())]
    events += [*deltas, Closed(0), Finished((STOP,))]
    choice = accumulate(Pipeline(finder, parser).feed_all(events)).choices[0]
    assert choice.items[0] == ir.Reasoning(("So.",), status="completed")
    assert calls(choice) == ["look"]


def test_encrypted_reasoning_is_kept_beside_its_call() -> None:
    item = ir.Reasoning(content=(LOOK,), encrypted="secret", status="completed")
    parser = TextToolCallParser(ALL, (), deterministic_ids(), Losses(None))
    finder = ReasoningCallFinder(parser, Losses(None), returns_calls=True)
    reply = Pipeline(finder, parser).reply(ir.Reply(choices=(ir.Choice((item,), STOP),)))
    first, call = reply.choices[0].items
    assert first == ir.Reasoning(encrypted="secret", status="completed")
    assert isinstance(call, ir.ToolCall)
