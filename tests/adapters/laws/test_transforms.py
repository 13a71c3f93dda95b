"""Transforms change streamed and whole replies equally; an identity changes nothing."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace

import adapters
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.types import Error, Finish, Message, Reply
from adapters.losses import Losses
from adapters.stages.stage import Pipeline
from adapters.transforms import RedactText
from adapters.transforms.apply import transform_stages
from tests.adapters.laws import common
from tests.adapters.laws.common import flat
from tests.adapters.transforms.samples import REPLY_TRANSFORMS, HeldIdentity, Identity
from tests.event_order import check_order
from tests.exchange import Exchange
from tests.strategies.replies import replies
from tests.strategies.requests import requests
from tests.strategies.streams import events
from tests.strategies.values import DialectName

each_transform = pytest.mark.parametrize(
    "transforms", REPLY_TRANSFORMS.values(), ids=REPLY_TRANSFORMS.keys()
)


def transformed(
    told: Sequence[Event], transforms: tuple[adapters.Transform, ...]
) -> tuple[list[Event], list[adapters.Loss]]:
    losses = Losses(None)
    stages = transform_stages(transforms, losses)
    changed = Pipeline(*stages).feed_all(list(told))
    assert [fault for stage in stages for fault in stage.faults] == []
    return check_order(changed), list(losses)


@each_transform
@common.few_examples
@given(data=st.data())
def test_streamed_reply_equals_whole_one(
    transforms: tuple[adapters.Transform, ...], data: DataObject
) -> None:
    reply = data.draw(replies(data.draw(st.sampled_from(["chat", "responses"]))))
    whole, whole_losses = transformed(list(to_events(reply)), transforms)
    streamed, losses = transformed(data.draw(events(reply)), transforms)
    assert flat(accumulate(streamed)) == flat(accumulate(whole))
    assert set(losses) == set(whole_losses)


@each_transform
@common.few_examples
@given(data=st.data())
def test_failed_reply_stays_legal(
    transforms: tuple[adapters.Transform, ...], data: DataObject
) -> None:
    told = data.draw(events(data.draw(replies("responses"))))[:-1]
    cut = told[: data.draw(st.integers(1, len(told)))]
    changed, _ = transformed([*cut, Failed(Error("cut"))], transforms)
    assert isinstance(changed[-1], Failed)


@each_transform
@common.few_examples
@given(data=st.data())
def test_deltas_that_skip_a_transform_are_not_changed(
    transforms: tuple[adapters.Transform, ...], data: DataObject
) -> None:
    told = data.draw(events(data.draw(replies("responses"))))
    expected, _ = transformed(told, transforms)
    pipeline, changed = Pipeline(*transform_stages(transforms, Losses(None))), list[Event]()
    for event in told:
        is_delta = type(event).__name__ == "Delta"
        skips = is_delta and pipeline.passes_deltas
        changed += [event] if skips else pipeline.feed_all([event])
    assert flat(accumulate(check_order(changed))) == flat(accumulate(expected))


@pytest.mark.parametrize("identity", [Identity(), HeldIdentity()], ids=["events", "items"])
@common.few_examples
@given(data=st.data())
def test_identity_keeps_replies(identity: adapters.Transform, data: DataObject) -> None:
    reply = data.draw(replies("responses"))
    changed, losses = transformed(data.draw(events(reply)), (identity,))
    assert flat(accumulate(changed)) == flat(reply)
    assert losses == []


@common.for_each_pair
def test_identity_keeps_exchanges(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    body = common.write_request(client, data.draw(requests(client)))
    reply = common.write_reply(backend, data.draw(replies(backend)))

    def results(*transforms: adapters.Transform) -> tuple[object, ...]:
        def exchange() -> Exchange:
            options = common.OPTIONS
            return Exchange(
                client, backend, reply_options=options, rewrite=True, transforms=transforms
            )

        # The drawn reply is not one to the drawn request.
        read = flat(common.read_reply(client, exchange().reply(reply).body))
        try:
            sent = exchange().request(body)
        except adapters.DragomanError as error:
            return read, str(error)
        return read, sent.body, sent.losses

    assert results(Identity(), HeldIdentity()) == results()


@common.for_each_pair
def test_stream_of_any_dialect_equals_whole_reply(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    transforms = data.draw(st.sampled_from(list(REPLY_TRANSFORMS.values())))
    reply = common.without_annotations(data.draw(replies(backend)))
    stream = data.draw(common.streams_of(backend, reply)).stream

    def exchange() -> Exchange:
        return Exchange(client, backend, reply_options=common.OPTIONS, transforms=transforms)

    whole = exchange().reply(common.write_reply(backend, reply))
    collector = exchange().collect()
    collected = collector.feed(stream) + collector.finish().body
    read = [_comparable(common.read_reply(client, body)) for body in (collected, whole.body)]
    assert flat(read[0]) == flat(read[1])
    streamed = exchange().translate_stream([stream])
    assert adapters.check(client, streamed) == []
    assert isinstance(common.read_stream(client, [streamed])[-1], Finished)


@given(st.lists(st.text("ab1\n", max_size=6), min_size=1))
def test_redaction_does_not_depend_on_the_deltas(pieces: list[str]) -> None:
    opened, closed = Opened(0, Message("assistant")), Closed(0)
    finished = Finished((Finish("stop", "stop"),))

    def redacted(deltas: list[str]) -> str:
        told = [Delta(0, "text", text) for text in deltas]
        redact = RedactText(("a+b", "11", "1$", "^a"), "-")
        events, _ = transformed([Started(), opened, *told, closed, finished], (redact,))
        return "".join(event.text for event in events if isinstance(event, Delta))

    text = "".join(pieces)
    assert redacted(pieces) == redacted([text])
    assert not re.search("ab|11|1$|^a", redacted(pieces), re.MULTILINE)


def _comparable(reply: Reply) -> Reply:
    """Return a reply without what streams leave out or name differently."""
    return replace(reply, id="", model="", created=None, usage=None, service_tier=None)
