"""Reasoning and tool calls in the text of whole and streamed replies."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace

from adapters.ids import deterministic_ids
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
from adapters.ir.normalize import without_content
from adapters.losses import Losses
from adapters.stages.think_tags import ThinkTagParser
from adapters.text_tools.scanner import Scanner
from adapters.text_tools.stage import TextToolCallParser
from tests.adapters.text_tools.test_scanner import ALL, cut_up
from tests.event_order import check_order

STOP = ir.Finish("stop", "stop")
LOOK = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'
TIME = "[TOOL_CALLS]time{}"
HARMONY_TIME = "<|channel|>commentary to=functions.time json<|message|>{}<|call|>"
NATIVE = ir.ToolCall("call_x", "look", "{}", status="completed")

# Pieces of which markup, and what only looks like it, is made.
TAGS = ("<think>", "</think>", "<", "/", "think", ">", " ", "\n", "a", "b</", "<th", "</thin", "é")
CALLS = (
    *(LOOK, TIME, "<tool_call>", "</tool_call>", "{", "}", "<", " ", "\n", "a", "b <t", "é"),
    *(HARMONY_TIME, "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|end|>"),
    "to=functions.time {}",
)
TAGGED_TEXTS = st.lists(st.sampled_from(TAGS), max_size=12).map("".join)
TEXTS_WITH_CALLS = st.lists(st.sampled_from(CALLS), max_size=10).map("".join)
POSITIONS = st.lists(st.integers(0, 300), max_size=30)

Parser = Callable[[Losses], ThinkTagParser | TextToolCallParser]

OPENED = Opened(0, ir.Message("assistant"))
OTHER_CHOICE = Opened(1, ir.Message("assistant"), choice=1)

PROBABLE = (ir.Logprob("x", -0.1),)
CITED = (ir.Citation("https://a.example", "A", 0, 1),)


def parse_tags(losses: Losses) -> ThinkTagParser:
    return ThinkTagParser(losses)


def parse_calls(losses: Losses) -> TextToolCallParser:
    tools = (ir.FunctionTool("look"), ir.FunctionTool("time"))
    return TextToolCallParser(ALL, tools, deterministic_ids(), losses)


def assistant(*parts: ir.Part, status: ir.Status = "completed") -> ir.Message:
    return ir.Message("assistant", parts, status=status)


def message(text: str, status: ir.Status = "completed") -> ir.Message:
    return assistant(ir.Text(text), status=status)


def thought(text: str) -> ir.Reasoning:
    return ir.Reasoning(content=(text,), status="completed")


def look(number: int = 1) -> ir.ToolCall:
    return ir.ToolCall(f"call_{number:04}", "look", '{"city": "Rome"}', status="completed")


def time(number: int = 1) -> ir.ToolCall:
    return ir.ToolCall(f"call_{number:04}", "time", "{}", status="completed")


def whole(parser: Parser, *items: ir.Item) -> ir.Choice:
    return parser(Losses(None)).reply(ir.Reply(choices=(ir.Choice(items, STOP),))).choices[0]


def message_events(*deltas: Delta) -> list[Event]:
    return [Started(), OPENED, *deltas, Closed(0), Finished((STOP,))]


def choices_events(*between: Event) -> list[Event]:
    return [Started(), OPENED, *between, Closed(0), Closed(1), Finished((STOP, STOP))]


def text_events(
    pieces: Sequence[str],
    status: ir.Status = "completed",
    before: Sequence[ir.Item] = (),
    after: Sequence[ir.Item] = (),
) -> list[Event]:
    """Return the events of a message in pieces, and of other items before and after it."""
    items = (*before, message("".join(pieces), status), *after)
    events: list[Event] = []
    for event in to_events(ir.Reply(choices=(ir.Choice(items, STOP),))):
        if isinstance(event, Delta) and event.channel == "text":
            events += [replace(event, text=piece) for piece in pieces]
        else:
            events.append(event)
    return events


def run(parser: Parser, events: Sequence[Event], losses: Losses | None = None) -> list[Event]:
    stage = parser(Losses(None) if losses is None else losses)
    return check_order(stage.feed_all(check_order(events)))


def streamed(parser: Parser, events: Sequence[Event], losses: Losses | None = None) -> ir.Choice:
    return accumulate(run(parser, events, losses)).choices[0]


@pytest.mark.parametrize(
    ("parser", "text", "items"),
    [
        (parse_tags, "<think>\nwhy\n</think>\n\nso", (thought("why"), message("so"))),
        (parse_tags, " \n<think>why</think>so ", (thought("why"), message("so "))),
        (parse_tags, "<think>why</think>", (thought("why"),)),
        (parse_tags, "<think>why </th", (thought("why </th"),)),
        (parse_tags, "<think> \n </think> so", (message("so"),)),
        (parse_tags, "<think>", (message(""),)),
        (parse_tags, "<think></think>", (message(""),)),
        (
            parse_tags,
            "<think>a</think>b<think>c</think>",
            (thought("a"), message("b<think>c</think>")),
        ),
        (parse_tags, "so <think>why</think>", (message("so <think>why</think>"),)),
        (parse_tags, "<thinking>so", (message("<thinking>so"),)),
        (parse_tags, "<thin", (message("<thin"),)),
        (parse_tags, "", (message(""),)),
        (parse_calls, LOOK, (look(),)),
        (parse_calls, f"\n\n{LOOK}\n", (look(),)),
        (parse_calls, f"So.\n{LOOK}", (message("So.\n"), look())),
        (parse_calls, f"{LOOK}\n\nDone. ", (look(), message("Done. "))),
        (parse_calls, f"{LOOK}\n{TIME}", (look(1), time(2))),
        (
            parse_calls,
            f" a {LOOK} b {TIME}{LOOK} c",
            (message(" a "), look(1), message("b "), time(2), look(3), message("c")),
        ),
        (parse_calls, "<tool_call>", (message("<tool_call>"),)),
        (parse_calls, " \n", (message(" \n"),)),
        (parse_calls, "", (message(""),)),
    ],
)
def test_markup_is_split_from_text(parser: Parser, text: str, items: tuple[ir.Item, ...]) -> None:
    assert whole(parser, message(text)).items == items
    assert streamed(parser, text_events(list(text) or [""])).items == items


@pytest.mark.parametrize("status", ["completed", "incomplete"])
@pytest.mark.parametrize(
    ("parser", "before", "after"),
    [
        (parse_tags, (), ()),
        (parse_tags, (), (NATIVE,)),
        (parse_calls, (), ()),
        (parse_calls, (thought("why"),), ()),
        (parse_calls, (thought("why"), NATIVE), ()),
    ],
)
@given(data=st.data(), positions=POSITIONS)
def test_stream_equals_whole_reply(
    parser: Parser,
    before: tuple[ir.Item, ...],
    after: tuple[ir.Item, ...],
    status: ir.Status,
    data: DataObject,
    positions: Sequence[int],
) -> None:
    text = data.draw(TAGGED_TEXTS if parser is parse_tags else TEXTS_WITH_CALLS)
    events = text_events(cut_up(text, positions) or [""], status, before, after)
    assert streamed(parser, events) == whole(parser, *before, message(text, status), *after)


@pytest.mark.parametrize(
    ("parser", "pieces", "rest"),
    [
        (parse_tags, ["<th"], Delta(0, "text", "<th")),
        (parse_tags, ["<think>why ", "</th"], Delta("0.reasoning", "reasoning", " </th")),
        (parse_calls, ["So: ", "<tool_call>{"], Delta(0, "text", "<tool_call>{")),
    ],
)
def test_held_text_is_emitted_when_the_stream_is_truncated(
    parser: Parser, pieces: list[str], rest: Delta
) -> None:
    *_, last, failed = run(parser, [*text_events(pieces)[:-2], truncated_stream()])
    assert last == rest
    assert isinstance(failed, Failed)


@pytest.mark.parametrize(
    ("parser", "pieces"), [(parse_tags, (" ", "so")), (parse_calls, (" <tool", "_call>"))]
)
def test_held_text_precedes_the_next_block(parser: Parser, pieces: tuple[str, str]) -> None:
    events: list[Event] = [
        Started(),
        OPENED,
        Delta(0, "text", pieces[0]),
        Opened(1, without_content(NATIVE)),
        Delta(0, "text", pieces[1]),
        Closed(0),
        Delta(1, "arguments", "{}"),
        Closed(1),
        Finished((STOP,)),
    ]
    assert streamed(parser, events).items == (message("".join(pieces)), NATIVE)


@pytest.mark.parametrize(
    ("parser", "pieces", "items"),
    [
        (parse_tags, ("<th", "ink>one</think>a"), (thought("one"), message("a"))),
        (parse_calls, (LOOK[:20], LOOK[20:]), (look(),)),
    ],
)
def test_choices_are_parsed_independently(
    parser: Parser, pieces: tuple[str, str], items: tuple[ir.Item, ...]
) -> None:
    events = choices_events(
        Delta(0, "text", pieces[0]),
        OTHER_CHOICE,
        Delta(1, "text", "So."),
        Delta(0, "text", pieces[1]),
    )
    finish = STOP if parser is parse_tags else ir.Finish("calls", "stop")
    first, second = accumulate(run(parser, events)).choices
    assert first == ir.Choice(items, finish)
    assert second == ir.Choice((message("So."),), STOP)


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        *((parse_tags, text) for text in ("<think>why", "<think>why</think>", "<think></think>")),
        *((parse_calls, text) for text in ("", " ", "a", LOOK, f"{LOOK} a", "<tool_call>")),
    ],
)
def test_refusal_follows_the_text(parser: Parser, text: str) -> None:
    both = assistant(ir.Text(text), ir.Refusal("no"))
    for pieces in ([text], list(text) or [""]):
        deltas = [Delta(0, "text", piece) for piece in pieces]
        events = message_events(*deltas, Delta(0, "refusal", "no", part=1))
        assert streamed(parser, events) == whole(parser, both)


# Reasoning


@pytest.mark.parametrize("begin", ["", "<think>", "<think>why"])
def test_space_without_end_is_read_once(begin: str) -> None:
    """Minutes of work would mean that all of it is looked at again with each piece."""
    pieces = [begin, *[" "] * 100_000, "</think>"]
    expected = whole(parse_tags, message("".join(pieces)))
    assert streamed(parse_tags, text_events(pieces)) == expected


def test_reasoning_goes_on_while_another_block_begins() -> None:
    events: list[Event] = [
        Started(),
        OPENED,
        Delta(0, "text", "<think>why</th"),
        Opened(1, without_content(NATIVE)),
        Delta(1, "arguments", "{}"),
        Closed(1),
        Delta(0, "text", "ink>so"),
        Closed(0),
        Finished((STOP,)),
    ]
    assert streamed(parse_tags, events).items == (thought("why"), NATIVE, message("so"))


def test_refusal_alone_passes() -> None:
    events = message_events(Delta(0, "refusal", "no"))
    assert run(parse_tags, events) == events


def test_each_choice_thinks_for_itself() -> None:
    deltas = (Delta(1, "text", "<think>two</think>b"), Delta(0, "text", "a"))
    events = choices_events(OTHER_CHOICE, *deltas)
    opened = [event for event in run(parse_tags, events) if isinstance(event, Opened)]
    types = [(type(event.item), event.choice) for event in opened]
    assert types == [(ir.Reasoning, 1), (ir.Message, 1), (ir.Message, 0)]


@pytest.mark.parametrize("pieces", [["<think>why</think>so"], ["<th", "ink>why", "</think>", "so"]])
def test_annotations_of_a_split_text_are_reported(pieces: Sequence[str]) -> None:
    losses = Losses(None)
    deltas = [Delta(0, "text", one, logprobs=PROBABLE, annotations=CITED) for one in pieces]
    text = ir.Text("".join(pieces), annotations=CITED, logprobs=PROBABLE * len(pieces))
    expected = whole(parse_tags, assistant(text))
    assert streamed(parse_tags, message_events(*deltas), losses) == expected
    assert [loss.path for loss in losses] == ["content"]


def test_annotations_of_a_buffered_text_are_kept() -> None:
    losses = Losses(None)
    events = message_events(*(Delta(0, "text", one, logprobs=PROBABLE) for one in "<b>"))
    assert run(parse_tags, events, losses) == events
    assert not losses


# Tool calls


def test_reply_with_calls_finishes_with_calls() -> None:
    assert whole(parse_calls, message(LOOK)).finish == ir.Finish("calls", "stop")
    assert streamed(parse_calls, text_events([LOOK])).finish == ir.Finish("calls", "stop")
    assert whole(parse_calls, message("So.")).finish == STOP
    truncated = ir.Choice((message(LOOK, "incomplete"),), ir.Finish("length", "length"))
    (choice,) = parse_calls(Losses(None)).reply(ir.Reply(choices=(truncated,))).choices
    assert choice.finish == truncated.finish


def test_reply_without_calls_is_unchanged() -> None:
    reply = ir.Reply(choices=(ir.Choice((message("a <b> {}"), NATIVE), STOP),))
    assert parse_calls(Losses(None)).reply(reply) == reply


def test_text_is_emitted_at_once() -> None:
    parser = parse_calls(Losses(None))
    *events, _closed, _finished = text_events(["So ", "it ", "is: ", LOOK, " and ", "on"])
    emitted = [
        [out.text for out in parser.feed(event) if isinstance(out, Delta)] for event in events
    ]
    arguments = '{"city": "Rome"}'
    assert emitted == [[], [], ["So "], ["it "], ["is: "], [arguments], ["and "], ["on"]]


def _skip_nothing(_scanner: Scanner, _text: str) -> bool:
    return False


@given(text=TEXTS_WITH_CALLS, positions=POSITIONS)
def test_skipped_deltas_equal_buffered_ones(text: str, positions: Sequence[int]) -> None:
    events = text_events(cut_up(text, positions))
    skipped = run(parse_calls, events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scanner, "skip", _skip_nothing)
        buffered = run(parse_calls, events)
    assert accumulate(skipped) == accumulate(buffered)


def test_missing_arguments_become_an_empty_object() -> None:
    losses = Losses(None)
    text = '<tool_call>{"name": "time"}</tool_call>'
    assert streamed(parse_calls, text_events([text]), losses).items == (time(),)
    assert [str(loss) for loss in losses] == [
        "changed call time (call_0001): empty arguments are replaced with {}"
    ]


def test_content_parts_are_parsed_independently() -> None:
    parts = assistant(ir.Text("a <tool"), ir.Text(f"_call> {LOOK}"))
    kept = assistant(ir.Text("a <tool"), ir.Text("_call> "))
    assert whole(parse_calls, parts).items == (kept, look())
    # JSON is the whole reply only in the first part.
    bare_call = '{"name": "time", "arguments": {}}'
    parts = assistant(ir.Text("So: "), ir.Text(bare_call))
    assert whole(parse_calls, parts).items == (parts,)


def test_first_message_keeps_its_id() -> None:
    first, _, last = whole(parse_calls, replace(message(f"a{LOOK}b"), item_id="msg_1")).items
    assert isinstance(first, ir.Message)
    assert isinstance(last, ir.Message)
    assert (first.item_id, last.item_id) == ("msg_1", None)


def logprobs_of(text: str) -> tuple[ir.Logprob, ...]:
    return tuple(ir.Logprob(token, -0.5) for token in text)


@given(text=st.lists(st.sampled_from(["a", " ", "<", LOOK, TIME]), max_size=6).map("".join))
def test_logprobs_stay_with_the_remaining_text(text: str) -> None:
    losses = Losses(None)
    events = message_events(*(Delta(0, "text", one, logprobs=logprobs_of(one)) for one in text))
    items = streamed(parse_calls, events, losses).items
    for item in items:
        for part in item.content if isinstance(item, ir.Message) else ():
            assert isinstance(part, ir.Text)
            assert part.logprobs == logprobs_of(part.text)
    assert [loss.path for loss in losses] == (["content"] if LOOK in text or TIME in text else [])
    if text:
        whole_text = assistant(ir.Text(text, (), logprobs_of(text)))
        assert whole(parse_calls, whole_text).items == items


@pytest.mark.parametrize(("before", "after"), [("a", ""), ("", "a"), ("b", "a")])
def test_logprobs_without_tokens_are_dropped(before: str, after: str) -> None:
    losses = Losses(None)
    text = ir.Text(before + LOOK + after, logprobs=(ir.Logprob("x", -0.1), ir.Logprob("y", -0.2)))
    reply = ir.Reply(choices=(ir.Choice((ir.Message("assistant", (text,)),), STOP),))
    items = parse_calls(losses).reply(reply).choices[0].items
    kept = [message(one) for one in (before, after) if one]
    assert [item for item in items if isinstance(item, ir.Message)] == kept
    assert [loss.path for loss in losses] == ["content"]


def test_annotations_of_split_text_are_dropped_and_reported() -> None:
    losses = Losses(None)
    citation = Delta(0, "text", "", annotations=CITED)
    events = message_events(Delta(0, "text", f"a{LOOK}b"), citation)
    items = streamed(parse_calls, events, losses).items
    assert items == (message("a"), look(), message("b"))
    assert [loss.path for loss in losses] == ["content"]
    unsplit = message_events(Delta(0, "text", "a"), citation)
    assert run(parse_calls, unsplit) == unsplit
