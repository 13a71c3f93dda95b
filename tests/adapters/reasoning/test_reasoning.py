"""What carries reasoning through a reply does the same to a whole and to a stream."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Raw
from msgspec.structs import replace

import adapters
from adapters.chat.stream_writer import StreamWriter
from adapters.dialect import ReplyContext
from adapters.ids import deterministic_ids
from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import BlockId, Closed, Event, Opened, Started
from adapters.losses import Losses
from adapters.reasoning.capture import (
    CallReasoningAttacher,
    CallReasoningRecorder,
    ReasoningCapture,
    ReasoningItemSealer,
)
from adapters.reasoning.policy import ReasoningRestorer
from adapters.reasoning.sealed import extra_content_field, split_sealed_extra
from adapters.stages.block_order import BlockSequencer
from tests.adapters.test_loops import ReadableSealer
from tests.event_order import check_order

SEAL = ReadableSealer("here")

words = st.text("ab é\n", min_size=1, max_size=4)


def extra(name: str, value: bytes) -> ir.Extras:
    return (ir.ExtraField("completions", name, Raw(value)),)


def signature(value: str) -> ir.Extras:
    return extra("extra_content", b'{"google":{"thought_signature":"%s"}}' % value.encode())


signed = st.sampled_from([(), signature("s")])
listed = st.sampled_from([(), extra("reasoning_details", b'[{"type":"reasoning.encrypted"}]')])
texts = st.lists(words, max_size=2).map(tuple)


def answers(thoughts: SearchStrategy[ir.Reasoning]) -> SearchStrategy[ir.Reply]:
    said = words.map(lambda text: ir.Message("assistant", (ir.Text(text),), status="completed"))
    called = signed.map(lambda extras: call(extras=extras))
    items = st.lists(st.one_of(thoughts, said, called), max_size=6)
    return items.map(lambda made: reply_of(*map(_with_call_id, made, count())))


def call(call_id: str = "call_0", extras: ir.Extras = ()) -> ir.ToolCall:
    return ir.ToolCall(call_id, "look", "{}", status="completed", extras=extras)


def _with_call_id(item: ir.Item, number: int) -> ir.Item:
    return replace(item, call_id=f"call_{number}") if isinstance(item, ir.ToolCall) else item


def reply_of(*items: ir.Item) -> ir.Reply:
    return ir.Reply(choices=(ir.Choice(items, ir.Finish("calls", "tool_calls")),))


# What a Chat backend thinks, and what a Responses backend does.
completed = st.just("completed")
PLAIN = answers(st.builds(ir.Reasoning, content=texts, status=completed, extras=listed))
SEALED = answers(
    st.builds(
        ir.Reasoning, texts, encrypted=st.none() | words, item_id=st.just("rs_1"), status=completed
    )
)


def items_of(reply: ir.Reply) -> tuple[ir.Item, ...]:
    return reply.choices[0].items


def restored(
    items: Sequence[ir.Item], reasoning: Mapping[str, str] | None = None
) -> Sequence[ir.Item]:
    restorer = ReasoningRestorer(SEAL, Losses(), native=False)
    return restorer.restore(ir.Request(items=tuple(items)), reasoning or {}).items


def assert_restored(items: Sequence[ir.Item], reply: ir.Reply) -> None:
    expected = [_bare(item) for item in items_of(reply) if not _is_empty(item)]
    assert [_bare(item) for item in restored(items)] == expected


def streamed(stage: ReasoningCapture, events: Iterable[Event]) -> ir.Reply:
    return accumulate(check_order(stage.feed_all(list(events))))


@given(PLAIN)
def test_sealed_reasoning_is_the_same_for_whole_and_stream(reply: ir.Reply) -> None:
    whole = ReasoningItemSealer(SEAL).reply(reply)
    assert streamed(ReasoningItemSealer(SEAL), to_events(reply)) == whole
    for item in items_of(whole):
        assert not isinstance(item, ir.Reasoning) or item.encrypted is not None
        assert not isinstance(item, ir.ToolCall | ir.Reasoning) or item.extras == ()


@given(PLAIN)
def test_sealed_reasoning_is_restored(reply: ir.Reply) -> None:
    assert_restored(items_of(ReasoningItemSealer(SEAL).reply(reply)), reply)


def late(events: Iterable[Event]) -> list[Event]:
    """Move the extra content of calls to their ends, as some servers do."""
    extras: dict[BlockId, ir.Extras] = {}
    told: list[Event] = []
    for event in events:
        match event:
            case Opened(item=ir.ToolCall() as call):
                extras[event.index] = call.extras
                told.append(replace(event, item=replace(call, extras=())))
            case Closed() if event.index in extras:
                told.append(replace(event, extras=extras[event.index]))
            case _:
                told.append(event)
    return told


@given(PLAIN)
def test_late_extra_content_is_sealed(reply: ir.Reply) -> None:
    sealed = items_of(streamed(ReasoningItemSealer(SEAL), late(to_events(reply))))
    for item in sealed:
        assert not isinstance(item, ir.ToolCall | ir.Reasoning) or item.extras == ()
    assert_restored(sealed, reply)


@given(PLAIN)
def test_late_extra_content_is_accumulated(reply: ir.Reply) -> None:
    assert accumulate(late(to_events(reply, Losses(None)))) == reply


def test_late_extra_content_of_overlapping_calls() -> None:
    """The second call waits, so its extra content is written with it, like that of the first."""
    losses = Losses()
    stage = BlockSequencer(ir.EMPTY_REQUEST)
    writer = StreamWriter(ReplyContext(ir.EMPTY_REQUEST, deterministic_ids(), losses))
    blocks = ("call_0", "call_1")
    events: list[Event] = [
        Started(model="m"),
        *(Opened(one, ir.ToolCall(one, "look")) for one in blocks),
    ]
    events += (Closed(one, extras=signature("s")) for one in reversed(blocks))
    written = [frame for event in stage.feed_all(events) for frame in writer.feed(event)]
    deltas = [json.loads(frame[6:])["choices"][0]["delta"] for frame in written]
    pieces = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert [(piece["index"], "extra_content" in piece) for piece in pieces] == [
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    ]
    assert list(losses) == []


@pytest.mark.parametrize("carries", [True, False])
def test_calls_of_one_id_in_several_turns_get_back_each_its_own(*, carries: bool) -> None:
    """Some servers count call ids from zero in every turn (fw-ai/fireconnect#16)."""
    turns = [
        replace(call(extras=extras), arguments=f'{{"turn":{number}}}')
        for number, extras in enumerate((signature("a"), signature("b"), ()))
    ]
    items: list[ir.Item] = []
    kept: dict[str, str] = {}
    for turn in turns:
        stage = ReasoningItemSealer(SEAL) if carries else CallReasoningRecorder(SEAL)
        echoed = items_of(stage.reply(reply_of(turn)))
        items += [
            replace(one, extras=()) if isinstance(one, ir.ToolCall) else one for one in echoed
        ]
        kept |= stage.sealed_by_call
        items.append(ir.ToolOutput("call_0", "seen"))
    assert [item for item in restored(items, kept) if isinstance(item, ir.ToolCall)] == turns


def test_late_extra_content_behind_the_output_finds_its_call() -> None:
    made, output = call(extras=signature("a")), ir.ToolOutput("call_0", "seen")
    [carrier, told_call] = items_of(ReasoningItemSealer(SEAL).reply(reply_of(made)))
    assert restored((told_call, output, carrier)) == (made, output)


@pytest.mark.parametrize("encrypted", ["sealed-for-elsewhere {}", "gAAAAABo1"])
def test_nothing_of_what_cannot_be_opened_goes_on(encrypted: str) -> None:
    thought = ir.Reasoning(("Ebb first.",), encrypted=encrypted, item_id="rs_1")
    asked = ir.Request(items=(thought, call()), paths=("input[0]", "input[1]"))
    losses = Losses()
    opened = ReasoningRestorer(SEAL, losses, native=False).restore(asked, {})
    assert opened.items == asked.items[1:]
    assert [loss.path for loss in losses] == ["input[0]"]


def test_native_encrypted_reasoning_is_unchanged() -> None:
    asked = ir.Request(
        items=(ir.Reasoning(("Ebb first.",), encrypted="gAAAAABo1", item_id="rs_1"),)
    )
    assert ReasoningRestorer(SEAL, Losses(), native=True).restore(asked, {}).items == asked.items


def _bare(item: ir.Item) -> object:
    match item:
        case ir.Reasoning():
            return item.content, item.extras
        case ir.ToolCall():
            return item.call_id, item.extras
        case _:
            return item


def _is_empty(item: ir.Item) -> bool:
    return isinstance(item, ir.Reasoning) and not (item.content or item.extras)


@given(reply=SEALED, plain=st.booleans())
def test_stored_reasoning_is_the_same_for_whole_and_stream(*, reply: ir.Reply, plain: bool) -> None:
    stage, stream_stage = (
        CallReasoningAttacher(SEAL, "completions", accepts_unencrypted=plain) for _ in range(2)
    )
    whole = stage.reply(reply)
    assert streamed(stream_stage, to_events(reply)) == whole
    assert stream_stage.sealed_by_call == stage.sealed_by_call
    carried_by = [item for item in items_of(whole) if isinstance(item, ir.ToolCall)]
    found = {one.call_id: split_sealed_extra(one)[0] for one in carried_by}
    assert {name: text for name, text in found.items() if text} == stage.sealed_by_call
    assert all(not isinstance(i, ir.Reasoning) or i.encrypted is None for i in items_of(whole))


@given(PLAIN)
def test_recorded_reasoning_is_the_same_for_whole_and_stream(reply: ir.Reply) -> None:
    stage, stream_stage = CallReasoningRecorder(SEAL), CallReasoningRecorder(SEAL)
    assert stage.reply(reply) == reply
    assert streamed(stream_stage, to_events(reply)) == reply
    assert stream_stage.sealed_by_call == stage.sealed_by_call


@given(st.text(max_size=10), signed)
def test_extra_content_of_a_call_is_removed(text: str, extras: ir.Extras) -> None:
    sealed = (*extras, extra_content_field(text, "completions"))
    assert split_sealed_extra(call(extras=sealed)) == (text, extras)
    assert split_sealed_extra(call(extras=extras)) == (None, extras)


@pytest.mark.parametrize(
    "junk",
    [
        *(b'"dragoman"', b'["dragoman"]', b'{"dragoman":"x"}', b'{"dragoman":{}}'),
        b'{"dragoman":null,"google":{"thought_signature":"s"}}',
        b'{"dragoman":{"sealed":5}}',
        b'{"dragoman":{"sealed":null}}',
        b'{"google":{"dragoman":{"sealed":"sealed-for-here {}"}}}',
    ],
)
def test_foreign_extra_content_is_unchanged(junk: bytes) -> None:
    extras = extra("extra_content", junk)
    assert split_sealed_extra(call(extras=extras)) == (None, extras)


def test_foreign_extra_content_stays_beside_sealed() -> None:
    both = b'{"google":{"thought_signature": "s"},"dragoman":{"sealed":"mine"}}'
    text, left = split_sealed_extra(call(extras=extra("extra_content", both)))
    assert text == "mine"
    assert [bytes(extra.value) for extra in left] == [b'{"google":{"thought_signature": "s"}}']


@pytest.mark.parametrize("summary", [None, "none", ""])
def test_text_of_reasoning_is_hidden_without_a_summary(summary: str | None) -> None:
    request = {"model": "m", "input": "Hi", "reasoning": {"effort": "low", "summary": summary}}
    sent = adapters.translate_request(request, client="responses", backend="chat")
    message = {"role": "assistant", "content": "Hello", "reasoning_content": "A greeting."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    end = adapters.translate_reply({"id": "1", "model": "m", "choices": [choice]}, sent)
    assert b"A greeting." not in end.body


TEXT_DETAIL = {"type": "reasoning.text", "text": "Hm."}
ENCRYPTED_DETAIL = {"type": "reasoning.encrypted", "data": "x"}


@pytest.mark.parametrize(
    ("fields", "replay", "lost"),
    [
        ({"reasoning_details": [TEXT_DETAIL]}, None, []),
        ({"reasoning_details": [ENCRYPTED_DETAIL]}, None, []),
        ({"reasoning_details": [ENCRYPTED_DETAIL]}, "never", ["reasoning_details"]),
        ({"reasoning_details": [TEXT_DETAIL]}, "tool_calls", ["reasoning_details"]),
        (
            {"reasoning_content": "Hm.", "reasoning_details": [TEXT_DETAIL]},
            "never",
            ["reasoning_details", "reasoning_content"],
        ),
        (
            {"reasoning_content": "Hm.", "reasoning_details": [TEXT_DETAIL]},
            None,
            ["reasoning_content"],
        ),
    ],
)
def test_reasoning_that_is_not_sent_is_reported(
    fields: dict[str, object], replay: Literal["never", "tool_calls"] | None, lost: list[str]
) -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello.", **fields},
        {"role": "user", "content": "Go on."},
    ]
    sent = adapters.translate_request(
        {"model": "m", "messages": messages},
        client="chat",
        backend="chat",
        capabilities=adapters.Capabilities(reasoning_replay=replay),
    )
    assert [loss.path for loss in sent.losses] == [f"messages[1].{name}" for name in lost]
    message = json.loads(sent.body)["messages"][1]
    assert [name for name in fields if name in message] == [
        name for name in fields if name not in lost
    ]
