"""Replies that are cut at stop sequences."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import (
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    truncated_stream,
)
from adapters.stages.stop_sequences import StopSequenceCutter
from tests.adapters.text_tools.test_scanner import cut_up
from tests.event_order import check_order

STOP = ir.Finish("stop", "stop")
LENGTH = ir.Finish("length", "length")
CALLS = ir.Finish("calls", "tool_calls")
CALL = ir.ToolCall("call_1", "f", '{"END": 1}', status="completed")
THOUGHT = ir.Reasoning(content=("Think END.",), status="completed")

SEQUENCES = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3)
TEXTS = st.text("abc", max_size=30)
POSITIONS = st.lists(st.integers(0, 40), max_size=30)


def message(*parts: ir.Part) -> ir.Message:
    return ir.Message("assistant", parts, status="completed")


def cut(text: str, sequences: Sequence[str]) -> str:
    return text[: min((at for one in sequences if (at := text.find(one)) >= 0), default=len(text))]


def safe(text: str, sequences: Sequence[str]) -> str:
    """Return the text that no later text can make part of a stop sequence."""
    starts = range(len(text))
    held = (at for at in starts if any(one.startswith(text[at:]) for one in sequences))
    return cut(text[: next(held, len(text))], sequences)


def text_of(events: Sequence[Event]) -> str:
    deltas = (event for event in events if isinstance(event, Delta))
    return "".join(delta.text for delta in deltas if delta.channel == "text")


def whole(*items: ir.Item, sequences: Sequence[str] = ("END",)) -> ir.Choice:
    reply = ir.Reply(choices=(ir.Choice(items, CALLS),), usage=ir.Usage(1, 2, 3))
    cut_reply = StopSequenceCutter(sequences).reply(reply)
    assert cut_reply.usage == reply.usage
    return cut_reply.choices[0]


# The text


@given(SEQUENCES, TEXTS, POSITIONS)
def test_stream_in_pieces_is_cut_like_the_whole_text(
    sequences: list[str], text: str, positions: list[int]
) -> None:
    pieces = cut_up(text, positions)
    deltas = [Delta(0, "text", piece) for piece in pieces]
    stage = StopSequenceCutter(sequences)
    events = stage.feed_all([Started(), Opened(0, ir.Message("assistant"))])
    for number, delta in enumerate(deltas, 1):
        events += stage.feed(delta)
        arrived = "".join(pieces[:number])
        certain = safe(arrived, sequences)
        assert text_of(events).startswith(certain), "more than a possible beginning is held back"
        assert stage.done <= (cut(arrived, sequences) != arrived)
    events += stage.feed_all([Closed(0), Finished((LENGTH,), ir.Usage())])
    check_order(events)
    expected = cut(text, sequences)
    assert text_of(events) == expected
    assert stage.done == (expected != text)
    assert events[-1] == Finished((STOP if stage.done else LENGTH,), ir.Usage())
    reply = ir.Reply(choices=(ir.Choice((message(ir.Text(text)),), LENGTH),), usage=ir.Usage())
    if pieces:
        assert accumulate(events) == StopSequenceCutter(sequences).reply(reply)


@pytest.mark.parametrize("text", ["xab", "ab", "b"])
def test_sequence_in_an_unfinished_longer_one_ends_the_text(text: str) -> None:
    sequences = ("abc", "b")
    cut_text = message(ir.Text(cut(text, sequences)))
    assert whole(message(ir.Text(text)), sequences=sequences) == ir.Choice((cut_text,), STOP)
    before_call = whole(message(ir.Text(text)), CALL, sequences=sequences)
    assert before_call == ir.Choice((cut_text,), STOP)
    before_refusal = whole(message(ir.Text(text), ir.Refusal("No.")), sequences=sequences)
    assert before_refusal == ir.Choice((cut_text,), STOP)


@pytest.mark.parametrize("text", ["END", "END of all", "ENDEND"])
def test_text_that_begins_with_a_sequence_becomes_empty(text: str) -> None:
    assert whole(message(ir.Text(text))) == ir.Choice((message(ir.Text("")),), STOP)


def test_sequence_may_be_split_over_parts() -> None:
    parts = message(ir.Text("a E"), ir.Text("N"), ir.Text("D b"))
    assert whole(parts).items == (message(ir.Text("a ")),)
    parts = message(ir.Text("a E"), ir.Text("N"), ir.Text(" b"))
    assert whole(parts) == ir.Choice((parts,), CALLS)


def test_sequence_is_not_split_over_messages() -> None:
    messages = (message(ir.Text("a EN")), message(ir.Text("D b")))
    assert whole(*messages).items == messages


def test_log_probabilities_and_citations_of_the_rest_are_dropped() -> None:
    tokens = tuple(ir.Logprob(token, -0.1) for token in ("ab", " E", "ND", "c"))
    kept, dropped = (ir.Citation("https://a.example", "A", start, start + 2) for start in (0, 2))
    text = ir.Text("ab ENDc", (dropped, kept), tokens)
    assert whole(message(text)).items == (message(ir.Text("ab ", (kept,), tokens[:1])),)
    # Tokens that are parts of characters have no position in the text.
    text = ir.Text("ab ENDc", (), (ir.Logprob("bytes", -0.1),))
    assert whole(message(text)).items == (message(ir.Text("ab ")),)


def test_details_are_kept_with_the_text_that_was_held_back() -> None:
    tokens = tuple(ir.Logprob(token, -0.1) for token in ("ab", " E", "NE"))
    cited = ir.Citation("https://a.example", "A", 0, 6)
    text = message(ir.Text("ab ENE", (cited,), tokens))
    assert whole(text) == ir.Choice((text,), CALLS)


# Other items


def test_reasoning_calls_and_refusals_are_not_cut() -> None:
    items = (THOUGHT, CALL, message(ir.Refusal("No END.")))
    assert whole(*items) == ir.Choice(items, CALLS)


def test_items_after_the_sequence_are_dropped() -> None:
    items = (THOUGHT, message(ir.Text("a ENDb")), CALL, THOUGHT, message(ir.Text("c")))
    assert whole(*items) == ir.Choice((THOUGHT, message(ir.Text("a "))), STOP)


def test_refusal_follows_the_text_that_was_held_back() -> None:
    parts = message(ir.Text("a E"), ir.Refusal("No."), ir.Text("ND"))
    assert whole(parts).items == (parts,)


def test_call_before_the_sequence_is_completed() -> None:
    stage = StopSequenceCutter(("END",))
    call = ir.ToolCall("call_1", "f")
    opened: list[Event] = [
        Opened(0, call),
        Opened(1, ir.Message("assistant")),
        Opened(2, ir.Reasoning()),
    ]
    events = stage.feed_all([*opened, Delta(1, "text", "a END")])
    assert events == [*opened, Delta(1, "text", "a "), Closed(1), Closed(2)]
    assert not stage.done
    rest: list[Event] = [Delta(0, "arguments", '"END"'), Closed(0)]
    ignored: list[Event] = [Delta(1, "text", "b"), Closed(1), Delta(2, "reasoning", "b"), Closed(2)]
    assert stage.feed_all([*rest, *ignored]) == rest
    assert stage.done


def test_nothing_follows_the_end_of_a_cut_stream() -> None:
    stage = StopSequenceCutter(("END",))
    stage.feed_all([Started(), Opened(0, ir.Message("assistant")), Delta(0, "text", "END")])
    assert stage.done
    assert stage.feed(stage.end()) == [Finished((STOP,))]
    assert not stage.passes_deltas
    late: list[Event] = [Delta(0, "text", "a"), Closed(0), Finished((LENGTH,)), truncated_stream()]
    assert stage.feed_all(late) == []


def test_text_that_is_held_back_precedes_a_failure() -> None:
    stage = StopSequenceCutter(("END",))
    stage.feed_all([Started(), Opened(0, ir.Message("assistant")), Delta(0, "text", "a EN")])
    failed = Failed(ir.Error("broken"))
    assert stage.feed(failed) == [Delta(0, "text", "EN"), failed]


def test_each_choice_is_cut_by_itself() -> None:
    texts = ("a END", "b", "c ENDd")
    choices = tuple(ir.Choice((message(ir.Text(text)),), LENGTH) for text in texts)
    stage = StopSequenceCutter(("END",), choices=3)
    cut_reply = stage.reply(ir.Reply(choices=choices))
    assert not stage.done
    assert [choice.finish for choice in cut_reply.choices] == [STOP, LENGTH, STOP]
    kept = [ir.Text(text) for text in ("a ", "b", "c ")]
    assert [choice.items for choice in cut_reply.choices] == [(message(text),) for text in kept]
    stage = StopSequenceCutter(("END",), choices=2)
    stage.feed_all([*to_events(ir.Reply(choices=(choices[0], choices[2])))][:-1])
    assert stage.done
    assert stage.end() == Finished((STOP, STOP))
