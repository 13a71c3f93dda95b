"""A reply becomes one summary item, or gets one item before it."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec import Raw
from msgspec.structs import replace

from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate
from adapters.ir.events import Delta, Event, Failed, Finished, Opened, Started
from adapters.losses import Losses
from adapters.stages.summary_item import ItemPrepender, ReplySummarizer, add_usage
from tests.event_order import check_order
from tests.strategies.replies import replies
from tests.strategies.streams import events
from tests.strategies.values import DIALECT_NAMES

ITEM = ir.OpaqueItem("responses", "compaction", Raw(b'{"type":"compaction","id":"cmp_1"}'), "cmp_1")
STOP = ir.Finish("stop", "stop")
COST = ir.Usage(1, 2, 3, 4, 5, 6)
REPLIES = st.one_of([replies(name) for name in DIALECT_NAMES])


def condensed(text: str) -> ir.OpaqueItem:
    return ir.OpaqueItem("responses", "compaction", Raw(text.encode()), "cmp_1")


def reply_of(*items: ir.Item, finish: ir.Finish = STOP) -> ir.Reply:
    return ir.Reply(choices=(ir.Choice(items, finish),))


def usage_with(**counts: int) -> ir.Usage:
    extras = (ir.ExtraField("chat", name, Raw(b"%d" % count)) for name, count in counts.items())
    return replace(COST, extras=tuple(extras))


def told(stage: ReplySummarizer | ItemPrepender, said: list[Event]) -> ir.Reply:
    """Fold what a stage makes of events, which must be a legal stream again."""
    return accumulate(check_order(stage.feed_all(said)))


@given(REPLIES, st.data())
def test_summary_is_the_same_for_whole_and_stream(reply: ir.Reply, data: DataObject) -> None:
    whole = ReplySummarizer(condensed, Losses(None)).reply(reply)
    said = data.draw(events(reply))
    streamed = told(ReplySummarizer(condensed, Losses(None)), said)
    assert [choice.items for choice in streamed.choices if choice.items] == [
        choice.items for choice in whole.choices
    ]
    assert (streamed.error is None) == (whole.error is None)
    assert streamed.usage == whole.usage


def test_summary_has_no_reasoning_and_calls() -> None:
    first, last = (ir.Message("assistant", (ir.Text(text),)) for text in (" One.", "Two.\n"))
    items = (ir.Reasoning(("hm",)), first, ir.ToolCall("a", "f"), last)
    reply = ReplySummarizer(condensed, Losses(None)).reply(reply_of(*items))
    assert reply.choices == (ir.Choice((condensed("One.\n\nTwo."),), STOP),)


def test_truncated_summary_is_used_and_reported() -> None:
    losses = Losses(None)
    said = (ir.Message("assistant", (ir.Text("One"),)),)
    finish = ir.Finish("length", "length")
    reply = ReplySummarizer(condensed, losses).reply(reply_of(*said, finish=finish))
    assert reply.choices == (ir.Choice((condensed("One"),), STOP),)
    assert [loss.path for loss in losses] == ["output[0]"]
    streamed = Losses(None)
    stage = ReplySummarizer(condensed, streamed)
    for event in (Started(), Opened(0, ir.Message("assistant")), Delta(0, "text", "One")):
        stage.feed(event)
    assert len(stage.feed(Finished((finish,)))) == 3
    assert [*streamed] == [*losses]


def test_empty_summary_is_an_error() -> None:
    empty = replace(reply_of(ir.Message("assistant", (ir.Text(" \n"),))), usage=COST)
    reply = ReplySummarizer(condensed, Losses(None)).reply(empty)
    assert reply.error is not None
    assert (reply.error.code, reply.error.status) == ("empty_summary", 502)
    assert not reply.choices
    (failed,) = ReplySummarizer(condensed, Losses(None)).feed(Finished((STOP,), COST))
    assert failed == Failed(reply.error, COST)


def test_error_is_unchanged() -> None:
    failed = ir.Reply(error=ir.Error("no"))
    assert ReplySummarizer(condensed, Losses(None)).reply(failed) == failed
    event = Failed(ir.Error("no"))
    assert ReplySummarizer(condensed, Losses(None)).feed(event) == [event]


@given(REPLIES, st.data())
def test_prepended_item_is_the_same_for_whole_and_stream(reply: ir.Reply, data: DataObject) -> None:
    said = data.draw(events(reply))
    plain = accumulate(said)
    expected = ItemPrepender(ITEM, COST).reply(plain)
    assert told(ItemPrepender(ITEM, COST), said) == expected
    assert expected.choices[0].items == (ITEM, *plain.choices[0].items)
    assert [*expected.choices[1:]] == [*plain.choices[1:]]


def test_usage_is_added_if_both_are_known() -> None:
    assert add_usage(COST, COST) == ir.Usage(2, 4, 6, 8, 10, 12)
    assert add_usage(COST, None) is None
    assert add_usage(None, COST) is None
    reply = ItemPrepender(ITEM, COST).reply(ir.Reply(error=ir.Error("no"), usage=COST))
    assert reply.usage == ir.Usage(2, 4, 6, 8, 10, 12)


def test_further_counts_are_added() -> None:
    summed = add_usage(usage_with(audio=3, first=1), usage_with(audio=4, second=2))
    assert summed is not None
    counts = {extra.name: int(bytes(extra.value)) for extra in summed.extras}
    assert counts == {"audio": 7, "first": 1, "second": 2}
