"""What carries reasoning through a reply does the same to a whole and to a stream."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Raw
from msgspec.structs import replace

from adapters.chat.frames import Frames
from adapters.chat.write_calls import CallsWriter
from adapters.conversation import (
    Call,
    Choice,
    Extra,
    Extras,
    Finish,
    Item,
    Message,
    Output,
    Reasoning,
    Reply,
    Request,
    Text,
)
from adapters.events import Closed, Delta, Event, Opened
from adapters.fold import Fold, fold, replay
from adapters.grammar import Grammar
from adapters.loss import Losses
from adapters.noting import Noting
from adapters.remembering import Remembering
from adapters.seal import carried, take_carried
from adapters.sealing import Sealing
from adapters.stage import AnyStage, Pipeline
from adapters.unsealing import Opening
from tests.test_loops import ReadableSeal

SEAL = ReadableSeal("here")
FINISH = Finish("calls", "tool_calls")

words = st.text("ab é\n", min_size=1, max_size=4)
signed: SearchStrategy[Extras] = st.sampled_from(
    [(), (Extra("completions", "extra_content", Raw(b'{"google":{"thought_signature":"s"}}')),)]
)
listed: SearchStrategy[Extras] = st.sampled_from(
    [(), (Extra("completions", "reasoning_details", Raw(b'[{"type":"reasoning.encrypted"}]')),)]
)
texts = st.lists(words, max_size=2).map(tuple)


def numbered(items: Sequence[Item]) -> tuple[Item, ...]:
    """Give each call an id of its own."""
    return tuple(
        Call(f"call_{number}", item.name, item.arguments, status="completed", extras=item.extras)
        if isinstance(item, Call)
        else item
        for number, item in enumerate(items)
    )


def answers(thoughts: SearchStrategy[Reasoning]) -> SearchStrategy[Reply]:
    said = words.map(lambda text: Message("assistant", (Text(text),), status="completed"))
    called = st.builds(Call, st.just(""), st.just("look"), st.just("{}"), extras=signed)
    items = st.lists(st.one_of(thoughts, said, called), max_size=6).map(numbered)
    return items.map(lambda made: Reply(choices=(Choice(made, FINISH),)))


# What a Chat backend thinks, and what a Responses backend does.
PLAIN = answers(st.builds(Reasoning, content=texts, status=st.just("completed"), extras=listed))
SEALED = answers(
    st.builds(
        Reasoning,
        texts,
        st.just(()),
        st.none() | words,
        st.just("rs_1"),
        status=st.just("completed"),
    )
)


def told(reply: Reply, stage: AnyStage) -> Reply:
    """Pass a reply through a stage as events, and gather it again."""
    pipeline = Pipeline(stage, Grammar(), Fold())
    events: list[Event] = list(replay(reply, Losses(None)))
    [gathered] = [reply for event in events for reply in pipeline.feed(event)]
    assert pipeline.flush() == []
    assert isinstance(gathered, Reply)
    return gathered


def items_of(reply: Reply) -> tuple[Item, ...]:
    return reply.choices[0].items


@given(PLAIN)
def test_seals_are_the_same_on_a_whole_and_on_a_stream(reply: Reply) -> None:
    whole = Sealing(SEAL).reply(reply)
    assert told(reply, Sealing(SEAL)) == whole
    for item in items_of(whole):
        assert not isinstance(item, Reasoning) or item.encrypted is not None
        assert not isinstance(item, Call | Reasoning) or item.extras == ()


@given(PLAIN)
def test_what_was_sealed_comes_back_as_it_was(reply: Reply) -> None:
    sealed = items_of(Sealing(SEAL).reply(reply))
    opened = Opening(SEAL, Losses(), native=False).open(Request(items=sealed), {})
    assert [_bare(item) for item in opened.items] == [
        _bare(item) for item in items_of(reply) if not _is_empty(item)
    ]


def late(events: Sequence[Event]) -> list[Event]:
    """Tell what comes with calls with their ends, as some servers do."""
    extras: dict[int, Extras] = {}
    told: list[Event] = []
    for event in events:
        match event:
            case Opened(item=Call() as call):
                extras[event.index] = call.extras
                told.append(replace(event, item=replace(call, extras=())))
            case Closed() if event.index in extras:
                told.append(replace(event, extras=extras[event.index]))
            case _:
                told.append(event)
    return told


@given(PLAIN)
def test_what_comes_late_with_a_call_is_sealed_too(reply: Reply) -> None:
    stage = Pipeline(Sealing(SEAL), Grammar(), Fold())
    events = late(list(replay(reply, Losses(None))))
    [gathered] = [told for event in events for told in stage.feed(event)]
    assert isinstance(gathered, Reply)
    assert all(not isinstance(i, Call | Reasoning) or i.extras == () for i in items_of(gathered))
    opened = Opening(SEAL, Losses(), native=False).open(Request(items=items_of(gathered)), {})
    assert [_bare(item) for item in opened.items] == [
        _bare(item) for item in items_of(reply) if not _is_empty(item)
    ]


@given(PLAIN)
def test_what_comes_late_with_a_call_is_gathered(reply: Reply) -> None:
    assert fold(late(list(replay(reply, Losses(None))))) == reply


SIGNED: Extras = (Extra("completions", "extra_content", Raw(b'{"google":{}}')),)


@pytest.mark.parametrize(
    ("order", "told", "lost"),
    [
        # The second waits for the first, and has begun when it ends.
        ("first ends, second ends", [0, 1], []),
        ("second ends, first ends", [0, 1], []),
        # The second began behind the whole arguments of the first.
        ("first fills, first ends, second ends", [1], ["call look (call_0).extra_content"]),
    ],
)
def test_what_comes_late_with_calls_that_overlap(
    order: str, told: list[int], lost: list[str]
) -> None:
    losses = Losses()
    writer = CallsWriter(Frames({}, with_usage=False), 0, losses)
    first, begun = writer.open(Call("call_0", "look"))
    second, waiting = writer.open(Call("call_1", "look"))
    assert waiting == []
    lanes = {"first": first, "second": second}
    written = [*begun]
    for lane, step in (words.split() for words in order.split(", ")):
        if step == "fills":
            written += writer.fill(lanes[lane], Delta(0, "arguments", "{}"))
        else:
            written += writer.close(lanes[lane], SIGNED)
    pieces = [json.loads(frame[6:])["choices"][0]["delta"]["tool_calls"][0] for frame in written]
    assert [piece["index"] for piece in pieces if "extra_content" in piece] == told
    assert [loss.path for loss in losses] == lost


def _signed(signature: str) -> Extras:
    value = json.dumps({"google": {"thought_signature": signature}})
    return (Extra("completions", "extra_content", Raw(value.encode())),)


@pytest.mark.parametrize("carries", [True, False])
def test_calls_of_one_id_in_several_turns_get_back_each_its_own(*, carries: bool) -> None:
    """Some servers count their calls from nought in every turn (P056)."""
    turns = [
        Call("call_0", "look", f'{{"turn":{number}}}', status="completed", extras=extras)
        for number, extras in enumerate((_signed("a"), _signed("b"), ()))
    ]
    items: list[Item] = []
    kept: dict[str, str] = {}
    for call in turns:
        reply = Reply(choices=(Choice((call,), FINISH),))
        told_items = items_of((Sealing(SEAL) if carries else Noting(SEAL, kept)).reply(reply))
        echoed = [replace(one, extras=()) if isinstance(one, Call) else one for one in told_items]
        items += [*echoed, Output("call_0", "seen")]
    opened = Opening(SEAL, Losses(), native=False).open(Request(items=tuple(items)), kept)
    assert [item for item in opened.items if isinstance(item, Call)] == turns


def test_what_came_late_finds_its_call_behind_the_output_too() -> None:
    call = Call("call_0", "look", "{}", status="completed", extras=_signed("a"))
    [carrier, told_call] = items_of(Sealing(SEAL).reply(Reply(choices=(Choice((call,), FINISH),))))
    items = (told_call, Output("call_0", "seen"), carrier)
    opened = Opening(SEAL, Losses(), native=False).open(Request(items=items), {})
    assert opened.items == (call, Output("call_0", "seen"))


@pytest.mark.parametrize("encrypted", ["sealed-for-elsewhere {}", "gAAAAABo1"])
def test_nothing_of_what_cannot_be_opened_goes_on(encrypted: str) -> None:
    thought = Reasoning(("Ebb first.",), encrypted=encrypted, item_id="rs_1")
    asked = Request(items=(thought, Call("call_1", "look", "{}")), paths=("input[0]", "input[1]"))
    losses = Losses()
    opened = Opening(SEAL, losses, native=False).open(asked, {})
    assert opened.items == asked.items[1:]
    assert [loss.path for loss in losses] == ["input[0]"]


def test_what_a_backend_sealed_itself_goes_back_to_it() -> None:
    asked = Request(items=(Reasoning(("Ebb first.",), encrypted="gAAAAABo1", item_id="rs_1"),))
    assert Opening(SEAL, Losses(), native=True).open(asked, {}).items == asked.items


def _bare(item: Item) -> object:
    match item:
        case Reasoning():
            return item.content, item.extras
        case Call():
            return item.call_id, item.extras
        case _:
            return item


def _is_empty(item: Item) -> bool:
    return isinstance(item, Reasoning) and not (item.content or item.extras)


@given(SEALED, st.booleans())
def test_what_is_kept_is_the_same_of_a_whole_and_of_a_stream(
    reply: Reply,
    plain: bool,  # noqa: FBT001 - hypothesis gives it by its place
) -> None:
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    whole = Remembering(SEAL, first, plain=plain).reply(reply)
    assert told(reply, Remembering(SEAL, second, plain=plain)) == whole
    assert first == second
    carried_by = [item for item in items_of(whole) if isinstance(item, Call)]
    found = {call.call_id: take_carried(call)[0] for call in carried_by}
    assert {name: text for name, text in found.items() if text} == first
    assert all(not isinstance(i, Reasoning) or i.encrypted is None for i in items_of(whole))


@given(PLAIN)
def test_what_is_noted_is_the_same_of_a_whole_and_of_a_stream(reply: Reply) -> None:
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    assert Noting(SEAL, first).reply(reply) is reply
    assert told(reply, Noting(SEAL, second)) == reply
    assert first == second


@given(st.text(max_size=10), signed)
def test_what_a_call_carries_is_taken_out_again(text: str, extras: Extras) -> None:
    call = Call("call_1", "look", extras=(*extras, carried(text)))
    assert take_carried(call) == (text, extras)
    assert take_carried(Call("call_1", "look", extras=extras)) == (None, extras)


@pytest.mark.parametrize(
    "junk",
    [
        b'"dragoman"',
        b'["dragoman"]',
        b'{"dragoman":"x"}',
        b'{"dragoman":null,"google":{"thought_signature":"s"}}',
        b'{"dragoman":{}}',
        b'{"dragoman":{"sealed":5}}',
        b'{"dragoman":{"sealed":null}}',
        b'{"google":{"dragoman":{"sealed":"sealed-for-here {}"}}}',
    ],
)
def test_what_others_carry_in_the_same_field_stays_as_it_is(junk: bytes) -> None:
    extras = (Extra("completions", "extra_content", Raw(junk)),)
    assert take_carried(Call("call_1", "look", extras=extras)) == (None, extras)


def test_what_others_carry_stays_beside_what_was_sealed() -> None:
    both = Raw(b'{"google":{"thought_signature": "s"},"dragoman":{"sealed":"mine"}}')
    text, left = take_carried(
        Call("call_1", "look", extras=(Extra("completions", "extra_content", both),))
    )
    assert text == "mine"
    assert [bytes(extra.value) for extra in left] == [b'{"google":{"thought_signature": "s"}}']
