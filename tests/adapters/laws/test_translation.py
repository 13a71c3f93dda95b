"""What a translation preserves, reports and guarantees."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from msgspec.structs import replace

import adapters
from adapters.ir.accumulator import accumulate
from adapters.ir.events import Channel, Delta, Failed, Finished, Opened, Started
from adapters.ir.normalize import without_content
from adapters.ir.types import FunctionTool, Item, Message, Request, Text, ToolCall, ToolOutput
from adapters.responses.repair_check import OVERLAPPING_CALLS_REASON
from tests.adapters.laws import common
from tests.adapters.laws.canonical import (
    canonical_reply,
    canonical_request,
    renumber_calls,
    renumber_reply_calls,
)
from tests.adapters.laws.common import flat
from tests.corpus import REPLIES, REQUESTS, ReplyCase, RequestCase, on_wire
from tests.judges import passable
from tests.strategies import values
from tests.strategies.mutations import corrupted
from tests.strategies.replies import calls, chat_items, replies
from tests.strategies.requests import requests
from tests.strategies.streams import CALL_STYLES, COMPLETE, PARTIAL, calls_for
from tests.strategies.values import DialectName


def draw_stream(name: DialectName, data: DataObject) -> bytes:
    return data.draw(common.streams_of(name, data.draw(replies(name)))).stream


@common.each_pair
@common.few_examples
@given(data=st.data(), chunking=values.chunkings, endings=values.line_endings)
def test_chunk_boundaries_do_not_change_the_output(
    client: str,
    backend: DialectName,
    data: DataObject,
    chunking: values.Chunking,
    endings: tuple[bytes, ...],
) -> None:
    stream = draw_stream(backend, data)
    chunks = values.split(values.with_line_endings(stream, endings), chunking)
    translator = common.exchange(client, backend).stream()
    output = translator.feed(stream) + translator.finish(started=True).body
    assert common.translate_stream(client, backend, chunks) == output
    if client == backend and not adapters.check(client, stream):
        # A valid stream passes, unless its calls overlap.
        changes = {loss.reason for loss in translator.losses}
        assert changes <= {OVERLAPPING_CALLS_REASON}
        assert output == stream or changes


@common.for_each_pair
def test_whole_reply_as_a_stream_equals_the_whole_reply(
    client: str, backend: DialectName, data: DataObject
) -> None:
    body = common.write_reply(backend, common.without_annotations(data.draw(replies(backend))))
    streamed = common.exchange(client, backend).reply_as_stream(body)
    assert adapters.check(client, streamed.body) == []
    read = canonical_reply(accumulate(common.read_stream(client, [streamed.body])))
    whole = common.exchange(client, backend).reply(body)
    expected = common.read_reply(client, whole.body)
    # A stream must have a usage, so it may be invented.
    expected = canonical_reply(replace(expected, usage=expected.usage or read.usage))
    assert flat(read) == flat(expected)
    assert set(whole.losses) <= {*streamed.losses}


@common.for_each_pair
def test_collected_stream_equals_the_whole_reply(
    client: str, backend: DialectName, data: DataObject
) -> None:
    reply = data.draw(replies(backend))
    collector = common.exchange(client, backend).collect()
    collector.feed(data.draw(common.streams_of(backend, reply)).stream)
    collected = collector.finish()
    whole = common.exchange(client, backend).reply(common.write_reply(backend, reply))
    assert collected.status == whole.status
    read = canonical_reply(common.read_reply(client, collected.body))
    assert flat(read) == flat(canonical_reply(common.read_reply(client, whole.body)))
    assert set(whole.losses) <= {*collected.losses}


@common.for_each_unequal_pair
def test_request_survives_or_losses_are_reported(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    body = common.write_request(client, data.draw(requests(client)))
    assert_request_survives(client, backend, body)


@common.for_each_unequal_pair
def test_reply_survives_or_losses_are_reported(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    assert_reply_survives(client, backend, common.write_reply(backend, data.draw(replies(backend))))


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_request_case_survives_or_losses_are_reported(case: RequestCase) -> None:
    for other in case.others():
        assert_request_survives(case.dialect, other, on_wire(case.body))


@pytest.mark.parametrize("case", REPLIES, ids=lambda case: case.name)
def test_reply_case_survives_or_losses_are_reported(case: ReplyCase) -> None:
    for other in case.others():
        assert_reply_survives(other, case.dialect, on_wire(case.body))


def assert_request_survives(client: str, backend: str, body: bytes) -> None:
    try:
        sent = common.exchange(client, backend).request(body)
        returned = common.exchange(backend, client).request(sent.body)
    except adapters.DragomanError:
        # A refused request loses nothing silently.
        return
    before = canonical_request(common.read_request(client, body))
    after = canonical_request(common.read_request(client, returned.body))
    if "legacy" in (client, backend):
        before = replace(before, items=tuple(renumber_calls(before.items)))
        after = replace(after, items=tuple(renumber_calls(after.items)))
    if "legacy" in (client, backend) and before.parallel_tool_calls is None:
        # Legacy has one call at a time, so one is requested.
        after = replace(after, parallel_tool_calls=None)
    assert_equal_or_lost(before, after, (*sent.losses, *returned.losses))


def assert_reply_survives(client: str, backend: str, body: bytes) -> None:
    try:
        reply = common.exchange(client, backend).reply(body)
    except adapters.InvalidReplyError:
        return
    if reply.status != 200:
        return
    returned = common.exchange(backend, client).reply(reply.body)
    before = canonical_reply(common.read_reply(backend, body))
    after = canonical_reply(common.read_reply(backend, returned.body))
    if "legacy" in (client, backend):
        before, after = renumber_reply_calls(before), renumber_reply_calls(after)
    # A missing id or time is filled in.
    before = replace(before, id=before.id or after.id, created=before.created or after.created)
    assert_equal_or_lost(before, after, (*reply.losses, *returned.losses))


def assert_equal_or_lost(before: object, after: object, losses: Sequence[adapters.Loss]) -> None:
    one, other = flat(before), flat(after)
    if one != other and not losses:
        paths = [path for path in one | other if one.get(path) != other.get(path)]
        lines = (f"{path}: {one.get(path)!r} -> {other.get(path)!r}" for path in paths)
        pytest.fail("\n".join(lines))


@common.for_each_unequal_pair
def test_every_stream_is_legal(client: DialectName, backend: DialectName, data: DataObject) -> None:
    call_style = data.draw(st.sampled_from(list(CALL_STYLES.values())))
    items = chat_items(calls_for(call_style)) if backend == "chat" else None
    style = data.draw(st.sampled_from([COMPLETE, *PARTIAL]))
    reply = data.draw(replies(backend, items))
    stream = data.draw(common.streams_of(backend, reply, call_style, style)).stream
    assert adapters.check(client, common.translate_stream(client, backend, [stream])) == []


REPAIRED = [name for name in values.DIALECT_NAMES if adapters.get_dialect(name).repairs]


@pytest.mark.parametrize("name", REPAIRED)
@common.few_examples
@given(data=st.data())
def test_every_stream_is_readable_in_its_own_dialect(name: DialectName, data: DataObject) -> None:
    call_style = data.draw(st.sampled_from(list(CALL_STYLES.values())))
    items = chat_items(calls_for(call_style)) if name == "chat" else None
    style = data.draw(st.sampled_from([COMPLETE, *PARTIAL]))
    reply = data.draw(replies(name, items))
    stream = data.draw(common.streams_of(name, reply, call_style, style)).stream
    output = common.translate_stream(name, name, [stream])
    assert passable.violations(name, output) == []
    assert common.translate_stream(name, name, [output]) == output
    read = canonical_reply(accumulate(common.read_stream(name, [output])))
    assert flat(read) == flat(canonical_reply(accumulate(common.read_stream(name, [stream]))))


# Responses clients ignore events of unknown types, so these pass.
@pytest.mark.parametrize("name", ["chat", "legacy"])
@common.few_examples
@given(data=st.data())
def test_corrupted_stream_is_readable_in_its_own_dialect(
    name: DialectName, data: DataObject
) -> None:
    stream = draw_stream(name, data)
    broken = data.draw(corrupted(stream[: data.draw(st.integers(0, len(stream)))]))
    assert passable.violations(name, common.translate_stream(name, name, [broken])) == []


@common.for_each_unequal_pair
def test_corrupted_stream_becomes_a_legal_stream(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    stream = draw_stream(backend, data)
    broken = data.draw(corrupted(stream[: data.draw(st.integers(0, len(stream)))]))
    assert adapters.check(client, common.translate_stream(client, backend, [broken])) == []


@pytest.mark.parametrize("client", values.DIALECT_NAMES)
@pytest.mark.parametrize(
    "choices",
    [
        [
            b'"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}',
            b'"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}',
            b'"index":0,"delta":{},"finish_reason":"length"',
        ],
        [
            b'"index":0,"delta":{"content":"one"},"finish_reason":"length"',
            b'"index":1,"delta":{"content":"two"},"finish_reason":"length"',
        ],
    ],
    ids=["calls", "choices"],
)
def test_two_truncated_parts_are_legal(client: str, choices: list[bytes]) -> None:
    stream = b"".join(b'data: {"choices":[{%b}]}\n\n' % choice for choice in choices)
    for backend in {"chat", "legacy"} - {client}:
        assert adapters.check(client, common.translate_stream(client, backend, [stream])) == []


@common.each_unequal_pair
@common.few_examples
@given(arguments=values.any_arguments.filter(str.strip))
def test_arguments_of_a_request_are_unchanged(
    client: DialectName, backend: DialectName, arguments: str
) -> None:
    call, output = ToolCall("call_1", "f", arguments), ToolOutput("call_1", "done")
    items = (Message("user", (Text("go"),)), call, output)
    request = Request(model="m", items=items, tools=(FunctionTool("f"),))
    sent = common.exchange(client, backend).request(common.write_request(client, request))
    assert arguments_of(common.read_request(backend, sent.body).items) == [arguments]


@common.for_each_unequal_pair
def test_arguments_of_a_reply_are_unchanged(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    reply = data.draw(replies(backend, one_call(backend)))
    expected = arguments_of(reply.choices[0].items)
    whole = common.exchange(client, backend).reply(common.write_reply(backend, reply))
    assert arguments_of(common.read_reply(client, whole.body).choices[0].items) == expected
    stream = data.draw(common.streams_of(backend, reply)).stream
    stream = common.translate_stream(client, backend, [stream])
    streamed = accumulate(common.read_stream(client, [stream]))
    assert arguments_of(streamed.choices[0].items) == expected


def one_call(name: DialectName) -> SearchStrategy[tuple[Item, ...]]:
    item_id = "fc_1" if name == "responses" else None
    several = calls(kinds=("function",))
    return several.map(lambda calls: (replace(calls[0], item_id=item_id),))


def arguments_of(items: Sequence[Item]) -> list[str]:
    return [item.arguments for item in items if isinstance(item, ToolCall)]


@common.for_each_pair
def test_only_a_complete_stream_succeeds(
    client: str, backend: DialectName, data: DataObject
) -> None:
    sample = data.draw(common.streams_of(backend, data.draw(replies(backend))))
    length = data.draw(st.integers(0, len(sample.stream)))
    stream = common.translate_stream(client, backend, [sample.stream[:length]])
    is_complete = length >= sample.complete_at
    last = common.read_stream(client, [stream])[-1]
    assert isinstance(last, Finished if is_complete else Failed)
    if not is_complete:
        types = [payload.get("type") for payload in common.payloads(stream)]
        assert not {"response.completed", "response.incomplete"} & {*types}


@common.for_each_pair
def test_each_delta_is_written_at_once(
    client: DialectName, backend: DialectName, data: DataObject
) -> None:
    content = data.draw(values.non_empty_texts)
    channel: Channel = "text"
    item: Item = Message("assistant", (Text(content),), status="completed")
    if data.draw(st.booleans()):
        channel, content = "arguments", "{" + content
        item = ToolCall("call_0001", "f", content, status="completed")
    writer = adapters.get_dialect(backend).write_stream(common.reply_context())
    translator = common.exchange(client, backend).stream()
    reader = adapters.get_dialect(client).read_stream(common.reply_context())
    opened = Opened(0, without_content(item))
    start = [*writer.feed(Started("x", "m", 0)), *writer.feed(opened)]
    common.read_frames(reader, translator.feed(b"".join(start)))
    for fragment in data.draw(values.fragments(content)):
        frames = writer.feed(Delta(0, channel, fragment))
        (frame,) = (frame for frame in frames if b"part.added" not in frame)
        written = common.read_frames(reader, translator.feed(frame))
        assert [event.text for event in written if isinstance(event, Delta)] == [fragment]
