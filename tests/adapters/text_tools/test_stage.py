"""Calls in the text of whole and streamed replies."""

from collections.abc import Sequence

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
from tests.adapters.text_tools.scanning import ALL, cut_up

STOP = Finish("stop", "stop")
TOOLS = (FunctionTool("look"), FunctionTool("time"))
LOOK = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'
TIME = "[TOOL_CALLS]time{}"
NATIVE = ToolCall("call_x", "look", "{}", status="completed")
REASONING = Reasoning(content=("why",), status="completed")

TOKENS = (LOOK, TIME, "<tool_call>", "</tool_call>", "{", "}", "<", " ", "\n", "a", "b <t", "é")
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=10).map("".join)
POSITIONS = st.lists(st.integers(0, 300), max_size=30)


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


def stream(*deltas: Delta) -> list[Event]:
    """Return the events of a reply with one message."""
    return [Started(), Opened(0, Message("assistant")), *deltas, Closed(0), Finished((STOP,))]


def text_stream(pieces: Sequence[str], status: Status = "completed", *others: Item) -> list[Event]:
    """Return the events of some items, then of one message in pieces."""
    events: list[Event] = [Started()]
    for number, item in enumerate(others):
        delta = Delta(number, "arguments", "{}")
        if isinstance(item, Reasoning):
            delta = Delta(number, "reasoning", "why")
        events += [Opened(number, without_content(item)), delta, Closed(number)]
    index = len(others)
    events.append(Opened(index, Message("assistant")))
    events += [Delta(index, "text", piece) for piece in pieces]
    return [*events, Closed(index, status), Finished((STOP,))]


def run(events: Sequence[Event], losses: Losses | None = None) -> list[Event]:
    return check_order(stage(losses).feed_all(check_order(events)))


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
def test_text_is_split(text: str, items: tuple[Item, ...]) -> None:
    assert whole(message(text)).items == items
    assert accumulate(run(text_stream(list(text) or [""]))).choices[0].items == items


def test_reply_with_calls_finishes_with_calls() -> None:
    assert whole(message(LOOK)).finish == Finish("calls", "stop")
    assert accumulate(run(text_stream([LOOK]))).choices[0].finish == Finish("calls", "stop")
    assert whole(message("So.")).finish == STOP
    truncated = Reply(choices=(Choice((message(LOOK, "incomplete"),), Finish("length", "length")),))
    assert stage().reply(truncated).choices[0].finish == Finish("length", "length")


def test_reply_without_calls_is_unchanged() -> None:
    reply = Reply(choices=(Choice((message("a <b> {}"), NATIVE), STOP),))
    assert stage().reply(reply) == reply


@pytest.mark.parametrize("status", ["completed", "incomplete"])
@pytest.mark.parametrize("others", [(), (REASONING,), (REASONING, NATIVE)])
@given(text=TEXTS, positions=POSITIONS)
def test_stream_equals_whole_reply(
    status: Status, others: tuple[Item, ...], text: str, positions: Sequence[int]
) -> None:
    events = run(text_stream(cut_up(text, positions) or [""], status, *others))
    assert accumulate(events).choices[0] == whole(*others, message(text, status))


@given(positions=POSITIONS)
def test_markup_is_never_emitted(positions: Sequence[int]) -> None:
    text = f"a {LOOK} b {TIME} c"
    events = run(text_stream(cut_up(text, positions)))
    emitted = [
        event.text for event in events if isinstance(event, Delta) and event.channel == "text"
    ]
    assert "".join(emitted) == "a b c"


def test_text_is_emitted_at_once() -> None:
    events = text_stream(["So ", "it ", "is: ", LOOK, " and ", "on"])
    parser = stage()
    emitted = [
        [out.text for out in parser.feed(event) if isinstance(out, Delta)]
        for event in events
        if isinstance(event, Delta | Opened | Started)
    ]
    arguments = '{"city": "Rome"}'
    assert emitted == [[], [], ["So "], ["it "], ["is: "], [arguments], ["and "], ["on"]]


def test_missing_arguments_become_an_empty_object() -> None:
    losses = Losses(None)
    text = '<tool_call>{"name": "time"}</tool_call>'
    assert accumulate(run(text_stream([text]), losses)).choices[0].items == (time(),)
    assert [str(loss) for loss in losses] == [
        "changed call time (call_0001): empty arguments are replaced with {}"
    ]


def test_held_text_is_emitted_when_the_stream_is_truncated() -> None:
    events = [*text_stream(["So: ", "<tool_call>{"])[:-2], truncated_stream()]
    *_, last, failed = run(events)
    assert last == Delta(0, "text", "<tool_call>{")
    assert isinstance(failed, Failed)


def test_held_text_precedes_the_next_block() -> None:
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


def test_choices_are_parsed_independently() -> None:
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
def test_refusal_follows_the_text(text: str) -> None:
    deltas = [Delta(0, "text", piece) for piece in (list(text) or [""])]
    events = stream(*deltas, Delta(0, "refusal", "no", part=1))
    both = Message("assistant", (Text(text), Refusal("no")), status="completed")
    assert accumulate(run(events)).choices[0] == whole(both)


def test_content_parts_are_parsed_independently() -> None:
    parts = Message("assistant", (Text("a <tool"), Text(f"_call> {LOOK}")), status="completed")
    kept = Message("assistant", (Text("a <tool"), Text("_call> ")), status="completed")
    assert whole(parts).items == (kept, look())
    # JSON is the whole reply only in the first part.
    bare_call = '{"name": "time", "arguments": {}}'
    parts = Message("assistant", (Text("So: "), Text(bare_call)), status="completed")
    assert whole(parts).items == (parts,)


def test_first_message_keeps_its_id() -> None:
    named = Message("assistant", (Text(f"a{LOOK}b"),), item_id="msg_1", status="completed")
    first, _, last = whole(named).items
    assert isinstance(first, Message)
    assert isinstance(last, Message)
    assert (first.item_id, last.item_id) == ("msg_1", None)


def logprobs_of(text: str) -> tuple[Logprob, ...]:
    return tuple(Logprob(token, -0.5) for token in text)


@given(text=st.lists(st.sampled_from(["a", " ", "<", LOOK, TIME]), max_size=6).map("".join))
def test_logprobs_stay_with_the_remaining_text(text: str) -> None:
    losses = Losses(None)
    events = stream(*(Delta(0, "text", one, logprobs=logprobs_of(one)) for one in text))
    items = accumulate(run(events, losses)).choices[0].items
    for item in items:
        for part in item.content if isinstance(item, Message) else ():
            assert isinstance(part, Text)
            assert part.logprobs == logprobs_of(part.text)
    assert [loss.path for loss in losses] == (["content"] if LOOK in text or TIME in text else [])
    if text:
        message_ = Message("assistant", (Text(text, (), logprobs_of(text)),), status="completed")
        assert whole(message_).items == items


@pytest.mark.parametrize(("before", "after"), [("a", ""), ("", "a"), ("b", "a")])
def test_logprobs_without_tokens_are_dropped(before: str, after: str) -> None:
    losses = Losses(None)
    text = Text(before + LOOK + after, logprobs=(Logprob("x", -0.1), Logprob("y", -0.2)))
    reply = Reply(choices=(Choice((Message("assistant", (text,)),), STOP),))
    items = stage(losses).reply(reply).choices[0].items
    kept = [message(one) for one in (before, after) if one]
    assert [item for item in items if isinstance(item, Message)] == kept
    assert [loss.path for loss in losses] == ["content"]


def test_annotations_of_split_text_are_dropped_and_reported() -> None:
    losses = Losses(None)
    citation = Delta(0, "text", "", annotations=(Citation("https://a.example", "A", 0, 1),))
    events = stream(Delta(0, "text", f"a{LOOK}b"), citation)
    assert accumulate(run(events, losses)).choices[0].items == (message("a"), look(), message("b"))
    assert [loss.path for loss in losses] == ["content"]
    unsplit = stream(Delta(0, "text", "a"), citation)
    assert run(unsplit) == unsplit
