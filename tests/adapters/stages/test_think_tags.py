"""Reasoning in the text of a reply is found in whole replies and streams alike."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ir.accumulator import ReplyAccumulator, accumulate
from adapters.ir.events import (
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    check_order,
    truncated_stream,
)
from adapters.ir.normalize import without_content
from adapters.ir.types import (
    Choice,
    Citation,
    Finish,
    Item,
    Logprob,
    Message,
    Reasoning,
    Refusal,
    Reply,
    Status,
    Text,
    ToolCall,
)
from adapters.losses import Losses
from adapters.stages.think_tags import ThinkTagParser

STOP = Finish("stop", "stop")
CALL = ToolCall("call_1", "look", "{}", status="completed")

# Pieces of which the tags, and what only looks like them, are made.
WORDS = ("<think>", "</think>", "<", "/", "think", ">", " ", "\n", "a", "b</", "<th", "</thin", "é")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


def message(text: str, status: Status = "completed") -> Message:
    return Message("assistant", (Text(text),), status=status)


def whole(*items: Item) -> tuple[Item, ...]:
    reply = ThinkTagParser(Losses(None)).reply(Reply(choices=(Choice(items, STOP),)))
    return reply.choices[0].items


def told(pieces: Sequence[str], status: Status = "completed", *after: Item) -> list[Event]:
    """Return events of a message in fragments, and of a call for each item after it."""
    events: list[Event] = [Started(), Opened(0, Message("assistant"))]
    events += [Delta(0, "text", piece) for piece in pieces]
    events.append(Closed(0, status))
    for number, item in enumerate(after, start=1):
        events += [Opened(number, item), Delta(number, "arguments", "{}"), Closed(number)]
    return [*events, Finished((STOP,))]


def run(events: Sequence[Event], losses: Losses | None = None) -> list[Event]:
    stage = ThinkTagParser(Losses(None) if losses is None else losses)
    return check_order(stage.feed_all(check_order(events)))


def folded(events: Sequence[Event]) -> tuple[Item, ...]:
    gathered = ReplyAccumulator()
    (reply,) = [reply for event in events for reply in gathered.feed(event)]
    return reply.choices[0].items


def cut_up(text: str, places: Sequence[int]) -> list[str]:
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(borders)]


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>\nwhy\n</think>\n\nso", "why", "so"),
        (" \n<think>why</think>so ", "why", "so "),
        ("<think>why</think>", "why", None),
        ("<think>why </th", "why </th", None),
        ("<think> \n </think> so", None, "so"),
        ("<think>", None, ""),
        ("<think></think>", None, ""),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("so <think>why</think>", None, "so <think>why</think>"),
        ("<thinking>so", None, "<thinking>so"),
        ("<thin", None, "<thin"),
        ("", None, ""),
    ],
)
def test_think_tag_is_split_from_text(text: str, thought: str | None, said: str | None) -> None:
    expected: list[Item] = []
    if thought is not None:
        expected.append(Reasoning(content=(thought,), status="completed"))
    if said is not None:
        expected.append(message(said))
    assert whole(message(text)) == tuple(expected)


@pytest.mark.parametrize("status", ["completed", "incomplete"])
@pytest.mark.parametrize("after", [(), (CALL,)])
@given(text=TEXTS, places=st.lists(st.integers(0, 100), max_size=30))
def test_stream_equals_whole_reply(
    status: Status, after: tuple[ToolCall, ...], text: str, places: Sequence[int]
) -> None:
    events = run(told(cut_up(text, places) or [""], status, *map(without_content, after)))
    assert folded(events) == whole(message(text, status), *after)


@given(TEXTS, st.lists(st.integers(0, 100), max_size=30))
def test_no_half_of_a_tag_is_shown(text: str, places: Sequence[int]) -> None:
    text = f"<think>why{text.replace('<', '')}</think>so"
    shown = [event.text for event in run(told(cut_up(text, places))) if isinstance(event, Delta)]
    assert not any("<" in piece for piece in shown)


@pytest.mark.parametrize("begin", ["", "<think>", "<think>why"])
def test_space_without_end_is_read_once(begin: str) -> None:
    """Minutes of work would mean that all of it is looked at again with each piece."""
    pieces = [begin, *[" "] * 100_000, "</think>"]
    assert folded(run(told(pieces))) == whole(message("".join(pieces)))


def test_buffered_text_is_written_when_the_stream_fails() -> None:
    events = [*told(["<think>why ", "</th"])[:-2], truncated_stream()]
    *_, last, failed = run(events)
    assert last == Delta("0.reasoning", "reasoning", " </th")
    assert isinstance(failed, Failed)
    held = run(
        [Started(), Opened(0, Message("assistant")), Delta(0, "text", "<th"), truncated_stream()]
    )
    assert held[2] == Delta(0, "text", "<th")


def test_text_stays_before_the_next_block() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant")),
        Delta(0, "text", " "),
        Opened(1, ToolCall("call_1", "look")),
        Delta(0, "text", "so"),
        Closed(0),
        Delta(1, "arguments", "{}"),
        Closed(1),
        Finished((STOP,)),
    ]
    assert folded(run(events)) == (message(" so"), CALL)


def test_reasoning_goes_on_while_another_block_begins() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant")),
        Delta(0, "text", "<think>why</th"),
        Opened(1, ToolCall("call_1", "look")),
        Delta(1, "arguments", "{}"),
        Closed(1),
        Delta(0, "text", "ink>so"),
        Closed(0),
        Finished((STOP,)),
    ]
    thought = Reasoning(content=("why",), status="completed")
    assert folded(run(events)) == (thought, CALL, message("so"))


@pytest.mark.parametrize("text", ["<think>why", "<think>why</think>", "<think></think>"])
def test_refusal_follows_reasoning(text: str) -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant")),
        Delta(0, "text", text),
        Delta(0, "refusal", "no", part=1),
        Closed(0),
        Finished((STOP,)),
    ]
    both = Message("assistant", (Text(text), Refusal("no")), status="completed")
    assert folded(run(events)) == whole(both)


def test_refusal_alone_passes() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant")),
        Delta(0, "refusal", "no"),
        Closed(0),
        Finished((STOP,)),
    ]
    assert run(events) == events


def test_each_choice_thinks_for_itself() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant"), choice=0),
        Opened(1, Message("assistant"), choice=1),
        Delta(1, "text", "<think>two</think>b"),
        Delta(0, "text", "a"),
        Closed(0),
        Closed(1),
        Finished((STOP, STOP)),
    ]
    opened = [event for event in run(events) if isinstance(event, Opened)]
    assert [(type(event.item), event.choice) for event in opened] == [
        (Reasoning, 1),
        (Message, 1),
        (Message, 0),
    ]


def test_choices_are_parsed_separately() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant"), choice=0),
        Delta(0, "text", "<th"),
        Opened(1, Message("assistant"), choice=1),
        Delta(1, "text", "b"),
        Delta(0, "text", "ink>one</think>a"),
        Closed(0),
        Closed(1),
        Finished((STOP, STOP)),
    ]
    first, second = accumulate(run(events)).choices
    assert first.items == (
        Reasoning(content=("one",), status="completed"),
        Message("assistant", (Text("a"),), status="completed"),
    )
    assert second.items == (Message("assistant", (Text("b"),), status="completed"),)


PROBABLE = (Logprob("x", -0.1),)
CITED = (Citation("https://a.example", "A", 0, 1),)


@pytest.mark.parametrize("pieces", [["<think>why</think>so"], ["<th", "ink>why", "</think>", "so"]])
def test_annotations_of_a_split_text_are_reported(pieces: Sequence[str]) -> None:
    losses = Losses(None)
    events: list[Event] = [Started(), Opened(0, Message("assistant"))]
    events += [Delta(0, "text", one, logprobs=PROBABLE, annotations=CITED) for one in pieces]
    events += [Closed(0), Finished((STOP,))]
    text = Text("".join(pieces), annotations=CITED, logprobs=PROBABLE * len(pieces))
    assert folded(run(events, losses)) == whole(Message("assistant", (text,), status="completed"))
    assert [loss.path for loss in losses] == ["content"]


def test_annotations_of_a_buffered_text_are_kept() -> None:
    losses = Losses(None)
    events: list[Event] = [Started(), Opened(0, Message("assistant"))]
    events += [Delta(0, "text", one, logprobs=PROBABLE) for one in ("<", "b", ">")]
    events += [Closed(0), Finished((STOP,))]
    assert run(events, losses) == events
    assert not losses
