"""Calls in the text of an answer: whole and streamed they are found alike."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ids import deterministic_ids
from adapters.ir.accumulator import accumulate
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
    FunctionTool,
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
from adapters.text_tools.stage import TextToolCallParser
from tests.adapters.text_tools.test_formats import ALL

STOP = Finish("stop", "stop")
TOOLS = (FunctionTool("look"), FunctionTool("time"))
LOOK = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'
TIME = "[TOOL_CALLS]time{}"
NATIVE = ToolCall("call_x", "look", "{}", status="completed")
THOUGHT = Reasoning(content=("why",), status="completed")

WORDS = (LOOK, TIME, "<tool_call>", "</tool_call>", "{", "}", "<", " ", "\n", "a", "b <t", "é")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=10).map("".join)
PLACES = st.lists(st.integers(0, 300), max_size=30)


def stage(losses: Losses | None = None) -> TextToolCallParser:
    return TextToolCallParser(
        ALL, TOOLS, deterministic_ids(), Losses(None) if losses is None else losses
    )


def message(text: str, status: Status = "completed") -> Message:
    return Message("assistant", (Text(text),), status=status)


def look(number: int = 1) -> ToolCall:
    return ToolCall(f"call_{number:04}", "look", '{"city": "Rome"}', status="completed")


def time(number: int = 1) -> ToolCall:
    return ToolCall(f"call_{number:04}", "time", "{}", status="completed")


def whole(*items: Item) -> Choice:
    return stage().reply(Reply(choices=(Choice(items, STOP),))).choices[0]


def told(pieces: Sequence[str], status: Status = "completed", *others: Item) -> list[Event]:
    """Tell some items, then one message in pieces."""
    events: list[Event] = [Started()]
    for number, item in enumerate(others):
        events.append(Opened(number, without_content(item)))
        if isinstance(item, Reasoning):
            events.append(Delta(number, "thought", "why"))
        else:
            events.append(Delta(number, "arguments", "{}"))
        events.append(Closed(number))
    index = len(others)
    events.append(Opened(index, Message("assistant")))
    events += [Delta(index, "text", piece) for piece in pieces]
    return [*events, Closed(index, status), Finished((STOP,))]


def run(events: Sequence[Event], losses: Losses | None = None) -> list[Event]:
    return check_order(stage(losses).feed_all(check_order(events)))


def cut_up(text: str, places: Sequence[int]) -> list[str]:
    borders = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(borders)] or [""]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (LOOK, (look(),)),
        (f"\n\n{LOOK}\n", (look(),)),
        (f"So.\n{LOOK}", (message("So.\n"), look())),
        (f"{LOOK}\n\nDone. ", (look(), message("Done. "))),
        (f"{LOOK}\n{TIME}", (look(1), time(2))),
        (
            f" a {LOOK} b {TIME}{LOOK} c",
            (message(" a "), look(1), message("b "), time(2), look(3), message("c")),
        ),
        ("<tool_call>", (message("<tool_call>"),)),
        (" \n", (message(" \n"),)),
        ("", (message(""),)),
    ],
)
def test_a_text_is_split(text: str, items: tuple[Item, ...]) -> None:
    assert whole(message(text)).items == items
    assert accumulate(run(told(list(text) or [""]))).choices[0].items == items


def test_an_answer_with_calls_ends_with_calls() -> None:
    assert whole(message(LOOK)).finish == Finish("calls", "stop")
    assert accumulate(run(told([LOOK]))).choices[0].finish == Finish("calls", "stop")
    assert whole(message("So.")).finish == STOP
    cut_off = Reply(choices=(Choice((message(LOOK, "incomplete"),), Finish("length", "length")),))
    assert stage().reply(cut_off).choices[0].finish == Finish("length", "length")


def test_a_reply_without_calls_is_given_back_itself() -> None:
    reply = Reply(choices=(Choice((message("a <b> {}"), NATIVE), STOP),))
    assert stage().reply(reply) == reply


@pytest.mark.parametrize("status", ["completed", "incomplete"])
@pytest.mark.parametrize("others", [(), (THOUGHT,), (THOUGHT, NATIVE)])
@given(text=TEXTS, places=PLACES)
def test_a_stream_folds_to_its_whole_twin(
    status: Status, others: tuple[Item, ...], text: str, places: Sequence[int]
) -> None:
    events = run(told(cut_up(text, places), status, *others))
    assert accumulate(events).choices[0] == whole(*others, message(text, status))


@given(places=PLACES)
def test_markup_is_never_shown_half(places: Sequence[int]) -> None:
    text = f"a {LOOK} b {TIME} c"
    events = run(told(cut_up(text, places)))
    shown = [event.text for event in events if isinstance(event, Delta) and event.channel == "text"]
    assert "".join(shown) == "a b c"


def test_text_passes_at_once() -> None:
    events = told(["So ", "it ", "is: ", LOOK, " and ", "on"])
    machine = stage()
    shown = [
        [out.text for out in machine.feed(event) if isinstance(out, Delta)]
        for event in events
        if isinstance(event, Delta | Opened | Started)
    ]
    arguments = '{"city": "Rome"}'
    assert shown == [[], [], ["So "], ["it "], ["is: "], [arguments], ["and "], ["on"]]


def test_calls_without_arguments_get_some_that_can_be_parsed() -> None:
    losses = Losses(None)
    text = '<tool_call>{"name": "time"}</tool_call>'
    assert accumulate(run(told([text]), losses)).choices[0].items == (time(),)
    assert [str(loss) for loss in losses] == [
        "changed call time (call_0001): empty arguments become {}, which can be parsed"
    ]


def test_what_was_held_back_is_told_when_the_stream_breaks_off() -> None:
    events = [*told(["So: ", "<tool_call>{"])[:-2], truncated_stream()]
    *_, last, failed = run(events)
    assert last == Delta(0, "text", "<tool_call>{")
    assert isinstance(failed, Failed)


def test_a_text_keeps_its_place_before_a_block_that_begins() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant")),
        Delta(0, "text", " <tool"),
        Opened(1, without_content(NATIVE)),
        Delta(0, "text", "_call>"),
        Closed(0),
        Delta(1, "arguments", "{}"),
        Closed(1),
        Finished((STOP,)),
    ]
    assert accumulate(run(events)).choices[0].items == (message(" <tool_call>"), NATIVE)


def test_each_choice_is_read_for_itself() -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant"), choice=0),
        Delta(0, "text", LOOK[:20]),
        Opened(1, Message("assistant"), choice=1),
        Delta(1, "text", "So."),
        Delta(0, "text", LOOK[20:]),
        Closed(0),
        Closed(1),
        Finished((STOP, STOP)),
    ]
    first, second = accumulate(run(events)).choices
    assert first == Choice((look(),), Finish("calls", "stop"))
    assert second == Choice((message("So."),), STOP)


@pytest.mark.parametrize("text", ["", " ", "a", LOOK, f"{LOOK} a", "<tool_call>"])
def test_a_refusal_follows_the_text(text: str) -> None:
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant")),
        *(Delta(0, "text", piece) for piece in (list(text) or [""])),
        Delta(0, "refusal", "no", part=1),
        Closed(0),
        Finished((STOP,)),
    ]
    both = Message("assistant", (Text(text), Refusal("no")), status="completed")
    assert accumulate(run(events)).choices[0] == whole(both)


def test_parts_of_a_text_are_read_apart() -> None:
    parts = Message("assistant", (Text("a <tool"), Text(f"_call> {LOOK}")), status="completed")
    said = Message("assistant", (Text("a <tool"), Text("_call> ")), status="completed")
    assert whole(parts).items == (said, look())
    # JSON is the whole answer only in the first of them.
    bare_call = '{"name": "time", "arguments": {}}'
    parts = Message("assistant", (Text("So: "), Text(bare_call)), status="completed")
    assert whole(parts).items == (parts,)


def test_a_message_keeps_its_name() -> None:
    named = Message("assistant", (Text(f"a{LOOK}b"),), item_id="msg_1", status="completed")
    first, _, last = whole(named).items
    assert isinstance(first, Message)
    assert isinstance(last, Message)
    assert (first.item_id, last.item_id) == ("msg_1", None)


CITED = (Citation("https://a.example", "A", 0, 1),)


def probable(text: str) -> tuple[Logprob, ...]:
    return tuple(Logprob(token, -0.5) for token in text)


@given(text=st.lists(st.sampled_from(["a", " ", "<", LOOK, TIME]), max_size=6).map("".join))
def test_probabilities_stay_with_the_text_that_stays(text: str) -> None:
    losses = Losses(None)
    events: list[Event] = [Started(), Opened(0, Message("assistant"))]
    events += [Delta(0, "text", one, logprobs=(Logprob(one, -0.5),)) for one in text]
    events += [Closed(0), Finished((STOP,))]
    items = accumulate(run(events, losses)).choices[0].items
    for item in items:
        for part in item.content if isinstance(item, Message) else ():
            assert isinstance(part, Text)
            assert part.logprobs == probable(part.text)
    assert [loss.path for loss in losses] == (["content"] if LOOK in text or TIME in text else [])
    if text:
        message_ = Message("assistant", (Text(text, (), probable(text)),), status="completed")
        assert whole(message_).items == items


@pytest.mark.parametrize(("before", "after"), [("a", ""), ("", "a"), ("b", "a")])
def test_probabilities_that_tell_no_tokens_are_dropped(before: str, after: str) -> None:
    losses = Losses(None)
    text = Text(before + LOOK + after, logprobs=(Logprob("x", -0.1), Logprob("y", -0.2)))
    reply = Reply(choices=(Choice((Message("assistant", (text,)),), STOP),))
    items = stage(losses).reply(reply).choices[0].items
    said = [message(one) for one in (before, after) if one]
    assert [item for item in items if isinstance(item, Message)] == said
    assert [loss.path for loss in losses] == ["content"]


def test_places_in_a_text_that_was_split_are_dropped_and_reported() -> None:
    losses = Losses(None)
    events: list[Event] = [
        Started(),
        Opened(0, Message("assistant")),
        Delta(0, "text", f"a{LOOK}b"),
        Delta(0, "text", "", annotations=CITED),
        Closed(0),
        Finished((STOP,)),
    ]
    assert accumulate(run(events, losses)).choices[0].items == (message("a"), look(), message("b"))
    assert [loss.path for loss in losses] == ["content"]
    kept: list[Event] = [*events[:2], Delta(0, "text", "a"), *events[3:]]
    assert run(kept) == kept
