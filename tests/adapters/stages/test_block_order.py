"""Calls whose pieces alternate reach every client one after another."""

from collections.abc import Iterable
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace

from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import (
    BlockId,
    Closed,
    Delta,
    Event,
    Opened,
    Started,
    truncated_stream,
)
from adapters.stages.block_order import BlockSequencer
from tests.adapters.laws import common
from tests.event_order import check_order
from tests.judges.reading import JsonObject, object_in, objects_in
from tests.judges.samples import encoded
from tests.strategies import streams
from tests.strategies.replies import replies
from tests.strategies.values import DialectName

CALLS = [Opened(0, ir.ToolCall("a", "f")), Opened(1, ir.ToolCall("b", "f"))]


def arguments(block: BlockId, text: str) -> Delta:
    return Delta(block, "arguments", text)


def feed(events: Iterable[Event]) -> list[list[Event]]:
    """Return what the stage returns for each event."""
    stage = BlockSequencer(ir.EMPTY_REQUEST)
    return [stage.feed(event) for event in events]


@given(data=st.data())
def test_blocks_of_one_type_do_not_overlap(data: DataObject) -> None:
    reply = data.draw(replies("responses"))
    overlapping = data.draw(streams.events(reply))
    ordered = check_order([one for events in feed(overlapping) for one in events])
    assert accumulate(ordered) == accumulate(overlapping)
    opened: dict[BlockId, type[ir.Item]] = {}
    for event in ordered:
        if isinstance(event, Opened):
            assert type(event.item) not in opened.values()
            opened[event.index] = type(event.item)
        elif isinstance(event, Closed):
            del opened[event.index]


@given(data=st.data())
def test_blocks_that_do_not_overlap_are_not_held(data: DataObject) -> None:
    events = list(to_events(data.draw(replies("responses"))))
    assert feed(events) == [[event] for event in events]


def test_first_call_is_not_delayed_and_the_second_follows_it() -> None:
    opened, waiting = CALLS
    held: list[Event] = [waiting, arguments(1, "{"), arguments(1, "}"), Closed(1)]
    sent: list[Event] = [Started(), opened, arguments(0, "{"), *held, arguments(0, "}")]
    assert feed(sent) == [[sent[0]], [sent[1]], [sent[2]], [], [], [], [], [sent[7]]]
    *_, released = feed([*sent, Closed(0)])
    assert released == [Closed(0), waiting, arguments(1, "{}"), Closed(1)]


def test_no_block_begins_after_an_incomplete_one() -> None:
    cut = [Closed(0, "incomplete"), Closed(1, "incomplete")]
    *_, ends, last = feed([*CALLS, arguments(1, "{"), *cut])
    assert [*ends, *last] == [CALLS[1], arguments(1, "{"), *cut]
    third = Opened(2, ir.ToolCall("c", "f"))
    *_, released, end = feed([*CALLS, third, cut[1], Closed(0), Closed(2)])
    assert [*released, *end] == [Closed(0), CALLS[1], third, cut[1], Closed(2)]


def test_later_blocks_keep_their_order_behind_a_waiting_call() -> None:
    message = Opened(2, ir.Message("assistant"))
    events: list[Event] = [Started(), *CALLS, message, Closed(0), Delta(2, "text", "a"), Closed(1)]
    *_, released, text, end = feed(events)
    assert released == [Closed(0), CALLS[1], message]
    assert text == [Delta(2, "text", "a")]
    assert end == [Closed(1)]


def test_deltas_of_the_only_open_call_skip_the_stage() -> None:
    stage = BlockSequencer(ir.EMPTY_REQUEST)
    passes: list[bool] = []
    for event in (CALLS[0], CALLS[1], Closed(0), Closed(1)):
        stage.feed(event)
        passes.append(stage.passes_deltas)
    assert passes == [True, False, True, True]


def test_choices_wait_for_each_other_only_if_they_are_merged() -> None:
    second = replace(CALLS[1], choice=1)
    assert feed([CALLS[0], second]) == [[CALLS[0]], []]
    separate = BlockSequencer(ir.Request(choices=2))
    assert separate.feed_all([CALLS[0], second]) == [CALLS[0], second]


def test_held_blocks_precede_a_failure() -> None:
    failed = truncated_stream()
    held: list[Event] = [CALLS[1], arguments(1, "{")]
    events: list[Event] = [Started(), CALLS[0], *held, failed]
    assert feed(events)[-1] == [*held, failed]


def call_chunk(index: int, fragment: str, name: str | None = None) -> bytes:
    identity = {"id": f"call_{name}", "type": "function"} if name else {}
    function = {"arguments": fragment} | ({"name": name} if name else {})
    call = {"index": index, "function": function, **identity}
    return b"data: %b\n\n" % encoded({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})


@pytest.mark.parametrize("client", ["chat", "responses", "legacy"])
def test_later_call_begins_with_the_last_piece_of_the_first_one(client: str) -> None:
    translator = common.exchange(client, "chat").stream()
    translator.feed(call_chunk(0, '{"a":', "f"))
    assert translator.feed(call_chunk(1, "", "g")) == b""
    assert translator.feed(call_chunk(1, "{}")) == b""
    assert b'[\\"}' in translator.feed(call_chunk(0, '["}'))
    assert b'\\"]}' in (written := translator.feed(call_chunk(0, '"]}')))
    if client != "legacy":
        assert b'"name":"g"' in written


@common.for_each_pair
def test_pieces_of_calls_do_not_alternate(
    client: str, backend: DialectName, data: DataObject
) -> None:
    style = streams.CALL_STYLES["standard, interleaved"]
    reply = data.draw(replies(backend))
    stream = data.draw(common.streams_of(backend, reply, style)).stream
    written = common.payloads(common.translate_stream(client, backend, [stream]))
    groups = [key for key, _ in groupby(filter(None, map(called_item, written)))]
    assert len(groups) == len(set(groups))


def called_item(payload: JsonObject) -> str | None:
    """Return the call that the arguments in an event belong to."""
    if str(payload.get("type")).endswith(("arguments.delta", "input.delta")):
        return str(payload["output_index"])
    for choice in objects_in(payload, "choices") if "choices" in payload else []:
        delta = object_in(choice, "delta")
        for call in objects_in(delta, "tool_calls") if "tool_calls" in delta else []:
            return str(call["index"])
    return None
