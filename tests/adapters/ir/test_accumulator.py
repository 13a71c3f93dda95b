"""From a whole reply to events and back, and which orders of events the grammar refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn
from msgspec import Raw
from msgspec.structs import replace

from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.event_order import EventOrderError
from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.losses import Losses
from tests.event_order import check_order
from tests.strategies.replies import items_of, replies
from tests.strategies.streams import events
from tests.strategies.values import DIALECT_NAMES

SAID = ir.Message("assistant")
CALL = ir.ToolCall("a", "f")
STOP = ir.Finish("stop", "stop")
STARTED = Started("id", "model")
FINISHED = Finished((STOP,))
FAILED = Failed(ir.Error("broken"))


EXTRA = ir.ExtraField("completions", "stop_reason", Raw(b"7"))
PICTURE = ir.OtherPart("completions", "image_url", Raw(b'{"type":"image_url"}'))
PARTS: tuple[ir.Part, ...] = (
    ir.Text("a"),
    ir.Text("b", logprobs=(ir.Logprob("b", -0.1),), extras=(EXTRA,)),
    ir.Refusal("c"),
    ir.Refusal("", (EXTRA,)),
    PICTURE,
)
ANY_MESSAGES = st.lists(st.sampled_from(PARTS), max_size=4).map(
    lambda parts: ir.Message("assistant", tuple(parts), status="completed")
)


@st.composite
def any_replies(draw: DrawFn) -> ir.Reply:
    """Replies of any dialect, with several choices, extras, or an error after what came."""
    reply = draw(st.one_of([replies(name) for name in DIALECT_NAMES]))
    more = draw(st.lists(st.one_of([items_of(name) for name in DIALECT_NAMES]), max_size=2))
    extras = (ir.ExtraField("completions", "system_fingerprint", Raw(b'"fp"'), None),)
    more.append((draw(ANY_MESSAGES),))
    choices = (*reply.choices, *(ir.Choice(items, STOP, (EXTRA,)) for items in more))
    if draw(st.booleans()):
        # A failed reply has no finish and no empty choices.
        heard = tuple(replace(choice, finish=None, extras=()) for choice in choices if choice.items)
        return replace(reply, choices=heard, error=ir.Error("broken", code="x"), extras=extras)
    return replace(reply, choices=choices, extras=extras)


@given(reply=any_replies())
def test_events_of_a_reply_accumulate_to_it(reply: ir.Reply) -> None:
    assert accumulate(check_order(list(to_events(reply)))) == reply


@given(reply=any_replies(), data=st.data())
def test_any_order_of_events_accumulates_to_the_reply(reply: ir.Reply, data: DataObject) -> None:
    assert accumulate(check_order(data.draw(events(reply)))) == reply


def test_parts_that_cannot_be_streamed_are_reported() -> None:
    choice = ir.Choice((ir.Message("assistant", (PICTURE,)),), STOP, (EXTRA,))
    losses = Losses(None)
    assert list(to_events(ir.Reply(choices=(choice,)), losses))
    assert [loss.path for loss in losses] == ["choices[0].stop_reason", "content"]


def test_stream_without_end_is_refused() -> None:
    with pytest.raises(AssertionError, match="without Finished or Failed"):
        accumulate([STARTED])


@pytest.mark.parametrize(
    "told",
    [
        [],
        [STARTED],
        [FINISHED],
        [Opened(0, SAID)],
        [Delta(0, "text", "x")],
        [STARTED, STARTED],
        [STARTED, FINISHED, FINISHED],
        [STARTED, FINISHED, FAILED],
        [FAILED, STARTED],
        [STARTED, Delta(0, "text", "x")],
        [STARTED, Closed(0)],
        [STARTED, Opened(0, SAID), Opened(0, SAID)],
        [STARTED, Opened(0, SAID), FINISHED],
        [STARTED, Opened(0, SAID), Closed(0), Closed(0)],
        [STARTED, Opened(0, SAID), Closed(0), Delta(0, "text", "x")],
        [STARTED, Opened(0, SAID), Delta(0, "arguments", "x")],
        [STARTED, Opened(0, CALL), Delta(0, "text", "x")],
        [STARTED, Opened(0, ir.Reasoning()), Delta(0, "refusal", "x")],
        [STARTED, Opened(0, SAID), Delta(0, "text", "x", 1)],
        [STARTED, Opened(0, SAID), Delta(0, "text", "x"), Delta(0, "refusal", "x")],
        [STARTED, Opened(0, SAID), *(Delta(0, "text", "x", part) for part in (0, 1, 0))],
    ],
)
def test_illegal_order(told: list[Event]) -> None:
    with pytest.raises(EventOrderError):
        check_order(told)
