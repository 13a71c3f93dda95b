"""What the repair of streams between two sides of the same dialect preserves and guarantees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

import adapters
from adapters.ir.accumulator import accumulate
from adapters.ir.types import Item, OpaqueItem
from tests.adapters.laws import common
from tests.adapters.laws.canonical import canonical_reply
from tests.adapters.laws.common import flat
from tests.judges import sdk
from tests.strategies import streams
from tests.strategies.replies import items_of, replies
from tests.strategies.streams import ResponsesStyle

STYLES = [streams.COMPLETE, *streams.PARTIAL]
IDENTITIES: dict[str, streams.Identity] = {
    "right ids and indices": lambda event, _: event,
    **streams.IDENTITIES,
}


def identifies_items(style: ResponsesStyle) -> bool:
    """Whether items with wrong ids or indices can be identified."""
    return style.ids and style.indices and (style.items or style.deltas)


def items_of_clients() -> SearchStrategy[tuple[Item, ...]]:
    """Return a strategy for items without those of built-in tools."""
    return items_of("responses").map(
        lambda items: tuple(item for item in items if not isinstance(item, OpaqueItem))
    )


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES)
@common.few_examples
@given(data=st.data())
def test_repaired_responses_stream_is_valid_and_means_the_same(
    identity: streams.Identity, data: DataObject
) -> None:
    is_right = identity is IDENTITIES["right ids and indices"]
    style = data.draw(st.sampled_from([one for one in STYLES if is_right or identifies_items(one)]))
    reply = data.draw(replies("responses", items_of_clients()))
    if not style.deltas:
        # Citations and logprobs come with the deltas.
        reply = common.without_annotations(reply)
    body = common.write_reply("responses", reply)
    stream = data.draw(streams.responses_streams(body, style, identity)).stream
    translator = common.exchange("responses", "responses").stream()
    output = translator.feed(stream) + translator.finish(started=True).body
    assert adapters.check("responses", output) == []
    assert output == stream or [*translator.losses]
    sdk.judge_responses_stream(output)
    read = accumulate(common.read_stream("responses", [output]))
    given_reply = common.without_final_whitespace(canonical_reply(reply))
    assert flat(common.without_final_whitespace(canonical_reply(read))) == flat(given_reply)


@pytest.mark.parametrize("style", STYLES, ids=str)
@common.few_examples
@given(data=st.data())
def test_stream_with_hosted_tools_is_repaired(style: ResponsesStyle, data: DataObject) -> None:
    if not style.items:
        # The items of hosted tools are only complete in `output_item.done`.
        return
    reply = data.draw(replies("responses", items_of("responses")))
    body = common.write_reply("responses", reply)
    stream = data.draw(streams.responses_streams(body, style)).stream
    output = common.translate_stream("responses", "responses", [stream])
    assert adapters.check("responses", output) == []
    assert common.translate_stream("responses", "responses", [output]) == output
