"""A stream for a client of any dialect amounts to the whole reply for the same client.

The reader of the client's dialect reads both, and so does the openai package, where its stream
helpers support what the stream contains.
"""

from typing import cast

from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate
from tests.adapters.laws import common
from tests.adapters.laws.canonical import canonical_reply, renumber_reply_calls
from tests.adapters.laws.common import flat
from tests.judges import sdk
from tests.judges.reading import JsonObject
from tests.strategies.replies import chat_items, replies
from tests.strategies.streams import CALL_STYLES, COMPLETE, PARTIAL, calls_for
from tests.strategies.values import DialectName


def draw_reply(backend: DialectName, data: DataObject) -> tuple[ir.Reply, bytes]:
    """Draw a reply of a backend and a stream of it, in any of the styles of servers."""
    call_style = data.draw(st.sampled_from([s for s in CALL_STYLES.values() if s.has_ids]))
    style = data.draw(st.sampled_from([COMPLETE, *PARTIAL]))
    items = chat_items(calls_for(call_style)) if backend == "chat" else None
    reply = data.draw(replies(backend, items))
    if not style.deltas:
        # Citations and log probabilities come with the deltas.
        reply = common.without_annotations(reply)
    if not style.items and has_opaque_items(reply):
        style = COMPLETE
    stream = data.draw(common.streams_of(backend, reply, call_style, style)).stream
    return reply, stream


def has_opaque_items(reply: ir.Reply) -> bool:
    items = (item for choice in reply.choices for item in choice.items)
    return any(isinstance(item, ir.OpaqueItem) for item in items)


@common.for_each_pair
def test_accumulated_stream_equals_the_whole_reply(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    reply, stream = draw_reply(backend, data)
    whole = common.exchange(client, backend).reply(common.write_reply(backend, reply)).body
    streamed = common.translate_stream(client, backend, [stream])
    read = renumber_reply_calls(canonical_reply(accumulate(common.read_stream(client, [streamed]))))
    expected = common.read_reply(client, whole)
    # A stream has usage only if the request says so; a response always has it.
    expected = renumber_reply_calls(canonical_reply(replace(expected, usage=read.usage)))
    assert flat(read) == flat(expected)
    # The package requires more fields of these items and of responses than servers send.
    is_complete = backend != "responses" or (client != backend and not has_opaque_items(reply))
    if is_complete:
        assert_same_for_the_sdk(client, whole, streamed)


def assert_same_for_the_sdk(client: DialectName, whole: bytes, streamed: bytes) -> None:
    if client == "responses":
        final = sdk.judge_responses_stream(streamed)
        assert output_of(final) == output_of(sdk.judge_responses_reply(whole))
        return
    completion = sdk.judge_chat_stream(streamed)
    if completion is not None:
        assert choices_of(completion) == choices_of(sdk.judge_chat_reply(whole))


# Generated ids, and what the stream helpers of the package add.
NOT_COMPARED = frozenset(("id", "call_id", "index", "parsed", "parsed_arguments"))


def comparable(value: object) -> object:
    """Return a value without the fields that are not compared."""
    if isinstance(value, list):
        return [comparable(element) for element in cast("list[object]", value)]
    if isinstance(value, dict):
        fields = cast("JsonObject", value).items()
        return {name: comparable(inner) for name, inner in fields if name not in NOT_COMPARED}
    return value


def output_of(response: Response) -> object:
    return comparable(response.to_dict(warnings=False)["output"])


def choices_of(completion: ChatCompletion) -> list[object]:
    """Return what the choices of a completion contain; an empty text is no text."""
    return [
        (
            choice.finish_reason,
            choice.message.content or "",
            choice.message.refusal or "",
            [comparable(call.to_dict()) for call in choice.message.tool_calls or ()],
            choice.message.function_call,
        )
        for choice in completion.choices
    ]
