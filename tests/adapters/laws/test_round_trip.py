"""What a dialect writes, it reads back; a stream and the whole reply are equal.

Requests that are rewritten in their own dialect lose only what the capabilities require.
"""

import json
from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

import adapters
from adapters.chat import wire as chat_wire
from adapters.dialect import translate_error_param
from adapters.ir import types as ir
from adapters.ir.accumulator import accumulate, to_events
from adapters.json_text import is_complete_json
from adapters.legacy import reply_writer as legacy_writer
from adapters.responses import wire as responses_wire
from tests.adapters.laws import common
from tests.adapters.laws.canonical import canonical_reply, canonical_request
from tests.adapters.laws.common import flat
from tests.corpus import REQUESTS, STREAMS, RequestCase, StreamCase, case_params, on_wire
from tests.exchange import Exchange
from tests.strategies import streams, values
from tests.strategies.replies import FINISH_REASONS, chat_items, items_of, replies
from tests.strategies.requests import requests
from tests.strategies.values import DialectName

# A backend that accepts everything that its dialect has.
FULL = replace(values.FULL_CAPABILITIES, multimodal_tool_outputs=True, reasoning_items="text")

# Fields that may be written differently: a tool in another form, another name, a default.
REWRITTEN_FIELDS = {
    *("messages", "input", "tools", "functions", "tool_choice", "function_call", "include"),
    *("parallel_tool_calls", "max_tokens", "max_completion_tokens", "response_format", "text"),
    *("stop", "store", "stream_options", "web_search_options"),
}


def style_name(style: streams.ResponsesStyle) -> str:
    return " ".join(f"no-{name}" for name, sent in asdict(style).items() if not sent)


@common.each_dialect
@given(data=st.data())
def test_request_is_read_as_written(name: DialectName, data: DataObject) -> None:
    request = data.draw(requests(name))
    assert flat(common.read_request(name, common.write_request(name, request))) == flat(request)


@common.each_dialect
@given(data=st.data())
def test_reply_is_read_as_written(name: DialectName, data: DataObject) -> None:
    reply = data.draw(replies(name))
    assert flat(common.read_reply(name, common.write_reply(name, reply))) == flat(reply)


@common.each_dialect
@given(data=st.data())
def test_stream_is_read_as_written(name: DialectName, data: DataObject) -> None:
    reply = common.without_annotations(data.draw(replies(name)))
    request = ir.Request(include_usage=reply.usage is not None)
    # Chat has one message, which is written before the calls.
    overlapping = Struct if name == "responses" else ir.ToolCall
    stream = common.write_stream(name, data.draw(streams.events(reply, overlapping)), request)
    assert adapters.check(name, stream) == []
    assert flat(accumulate(common.read_stream(name, [stream]))) == flat(reply)


@pytest.mark.parametrize("name", ["chat", "legacy"])
def test_citation_stays_with_its_text(name: DialectName) -> None:
    cited = ir.Text("text", (ir.Citation("https://example.com", "Example", 0, 4),))
    message = ir.Message("assistant", (cited, ir.Refusal("no")), status="completed")
    call = ir.ToolCall("call_0001", "f", "{}", status="completed")
    finish = ir.Finish("calls", FINISH_REASONS[name]["calls"])
    reply = ir.Reply("chatcmpl-1", "m", 0, (ir.Choice((message, call), finish),))
    stream = common.write_stream(name, list(to_events(reply)), ir.Request())
    assert flat(accumulate(common.read_stream(name, [stream]))) == flat(reply)


@common.each_dialect
def test_placeholder_of_templates_is_a_legal_text(name: DialectName) -> None:
    message = ir.Message("assistant", (ir.Text("text"),), item_id="\0", status="completed")
    call = ir.ToolCall("call_0001", "\0", "{}", item_id="\0\0", status="completed")
    choice = ir.Choice((message, call), ir.Finish("stop", FINISH_REASONS[name]["stop"]))
    reply = ir.Reply("", "\0", 0, (choice,), usage=ir.Usage(1, 1, 2), service_tier="\0")
    body = common.write_reply("responses", reply)
    stream = common.exchange(name, "responses").reply_as_stream(body).body
    assert adapters.check(name, stream) == []
    read = canonical_reply(accumulate(common.read_stream(name, [stream])))
    assert flat(read) == flat(canonical_reply(replace(reply, id=read.id)))


@common.each_dialect
@given(data=st.data())
def test_stream_accumulates_to_the_whole_reply(name: DialectName, data: DataObject) -> None:
    reply = data.draw(replies(name))
    sample = data.draw(common.streams_of(name, reply))
    streamed = canonical_reply(accumulate(common.read_stream(name, [sample.stream])))
    whole = common.read_reply(name, common.write_reply(name, reply))
    assert flat(streamed) == flat(canonical_reply(whole))


@pytest.mark.parametrize("style", streams.CALL_STYLES.values(), ids=streams.CALL_STYLES)
@common.few_examples
@given(data=st.data(), chunking=values.chunkings, endings=values.line_endings)
def test_calls_of_every_style_are_distinguished(
    style: streams.CallStyle,
    data: DataObject,
    chunking: values.Chunking,
    endings: tuple[bytes, ...],
) -> None:
    reply = data.draw(replies("chat", chat_items(streams.calls_for(style))))
    stream = values.with_line_endings(data.draw(streams.chat_streams(reply, style)).stream, endings)
    read = accumulate(common.read_stream("chat", values.split(stream, chunking)))
    items, expected = read.choices[0].items, reply.choices[0].items
    if not style.has_ids:
        items, expected = without_call_ids(items), without_call_ids(expected)
    assert flat(items) == flat(expected)


def without_call_ids(items: tuple[ir.Item, ...]) -> tuple[ir.Item, ...]:
    return tuple(
        replace(item, call_id="") if isinstance(item, ir.ToolCall) else item for item in items
    )


@pytest.mark.parametrize("style", [streams.COMPLETE, *streams.PARTIAL], ids=style_name)
@common.few_examples
@given(data=st.data(), chunking=values.chunkings, endings=values.line_endings)
def test_missing_responses_events_lose_nothing(
    style: streams.ResponsesStyle,
    data: DataObject,
    chunking: values.Chunking,
    endings: tuple[bytes, ...],
) -> None:
    items = items_of("responses")
    if not style.items:
        items = items.map(
            lambda items: tuple(item for item in items if not isinstance(item, ir.OpaqueItem))
        )
    reply = data.draw(replies("responses", items))
    if not style.deltas:
        # Citations and logprobs come with the deltas.
        reply = common.without_annotations(reply)
    sample = data.draw(streams.responses_streams(common.write_reply("responses", reply), style))
    stream = values.with_line_endings(sample.stream, endings)
    events = common.read_stream("responses", values.split(stream, chunking))
    assert flat(common.without_final_whitespace(accumulate(events))) == flat(
        common.without_final_whitespace(reply)
    )


@pytest.mark.parametrize("identity", streams.IDENTITIES.values(), ids=streams.IDENTITIES)
@pytest.mark.parametrize("style", [streams.COMPLETE, *streams.PARTIAL], ids=style_name)
@common.few_examples
@given(data=st.data())
def test_wrong_ids_and_indices_of_items_lose_nothing(
    style: streams.ResponsesStyle, identity: streams.Identity, data: DataObject
) -> None:
    if not (style.ids and style.indices and (style.items or style.deltas)):
        # Nothing would identify the items.
        return
    items = items_of("responses")
    items = items.map(
        lambda items: tuple(item for item in items if not isinstance(item, ir.OpaqueItem))
    )
    reply = data.draw(replies("responses", items))
    assume(not any(map(has_rest, reply.choices[0].items)))
    if not style.deltas:
        # Citations and logprobs come with the deltas.
        reply = common.without_annotations(reply)
    body = common.write_reply("responses", reply)
    stream = data.draw(streams.responses_streams(body, style, identity)).stream
    read = common.without_final_whitespace(accumulate(common.read_stream("responses", [stream])))
    expected = common.without_final_whitespace(reply)
    assert flat(without_item_ids(read)) == flat(without_item_ids(expected))


def has_rest(item: ir.Item) -> bool:
    """Whether a call has text after complete arguments, which is dropped if another call began."""
    arguments = item.arguments.strip() if isinstance(item, ir.ToolCall) else ""
    return any(is_complete_json(arguments[:end]) for end in range(1, len(arguments)))


def without_item_ids(reply: ir.Reply) -> ir.Reply:
    [choice] = reply.choices
    items = (replace(item, item_id="") for item in choice.items)
    return replace(reply, choices=(replace(choice, items=tuple(items)),))


@given(case=st.sampled_from(STREAMS), chunking=values.chunkings, endings=values.line_endings)
def test_stream_case_is_read_the_same_however_it_is_split(
    case: StreamCase, chunking: values.Chunking, endings: tuple[bytes, ...]
) -> None:
    stream = case.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    chunks = values.split(values.with_line_endings(stream, endings), chunking)
    whole = common.read_stream(case.dialect, [stream])
    assert flat(common.read_stream(case.dialect, chunks)) == flat(whole)


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (chat_wire.READ_FINISH_REASON, chat_wire.WRITE_FINISH_REASON),
        (chat_wire.READ_FINISH_REASON, legacy_writer.WRITE_FINISH_REASON),
        (responses_wire.READ_INCOMPLETE, responses_wire.WRITE_INCOMPLETE),
        (responses_wire.CALL_KINDS, {k: w.item for k, w in responses_wire.CALLS.items()}),
        (responses_wire.OUTPUT_KINDS, {k: w.output for k, w in responses_wire.CALLS.items()}),
    ],
)
def test_tables_invert(read: Mapping[str, str], write: Mapping[str, str]) -> None:
    assert {key: read[value] for key, value in write.items()} == {key: key for key in write}


@common.each_unequal_pair
def test_parameter_is_renamed_and_back(client: str, backend: str) -> None:
    one, other = adapters.get_dialect(client), adapters.get_dialect(backend)
    for field in one.names.keys() & other.names.keys():
        param = one.names[field]
        translated = translate_error_param(param, one, other)
        assert translate_error_param(translated, other, one) == param


@common.each_dialect
def test_parameter_names_are_unique(name: DialectName) -> None:
    params = list(adapters.get_dialect(name).names.values())
    assert len(params) == len(set(params))


def rewriting_exchange(dialect: str, capabilities: adapters.Capabilities = FULL) -> Exchange:
    return Exchange(dialect, dialect, capabilities=capabilities, rewrite=True)


def assert_rewritten(dialect: str, body: bytes) -> None:
    """Check that a request stays equal, unless it is refused or losses are reported."""
    try:
        rewritten = rewriting_exchange(dialect).request(body)
    except adapters.DragomanError:
        return
    if rewritten.losses:
        return
    assert flat(comparable(dialect, rewritten.body)) == flat(comparable(dialect, body))
    assert settings(body) == settings(rewritten.body)


def comparable(dialect: str, body: bytes) -> adapters.Request:
    """Read a request without what may be written differently."""
    request = canonical_request(common.read_request(dialect, body))
    return replace(
        request,
        # Chat declares a web search apart from other tools.
        tools=tuple(sorted(request.tools, key=lambda tool: isinstance(tool, ir.HostedTool))),
        metadata=None if request.metadata == Raw(b"{}") else request.metadata,
        # Its default is written.
        extras=tuple(extra for extra in request.extras if extra.name != "store"),
    )


def settings(body: bytes) -> dict[str, object]:
    """Return the fields that must be equal; empty ones may be omitted."""
    return {
        name: value
        for name, value in cast("dict[str, object]", json.loads(body)).items()
        if name not in REWRITTEN_FIELDS and value is not None and value not in ([], {})
    }


@pytest.mark.parametrize("case", case_params(REQUESTS))
def test_rewritten_case_is_equal(case: RequestCase) -> None:
    assert_rewritten(case.dialect, on_wire(case.body))


@common.each_dialect
@common.few_examples
@given(data=st.data())
def test_rewritten_request_is_equal(name: DialectName, data: DataObject) -> None:
    assert_rewritten(name, common.write_request(name, data.draw(requests(name))))


@common.each_dialect
def test_most_cases_have_no_losses(name: str) -> None:
    cases = [case for case in REQUESTS if case.dialect == name]
    without_losses = 0
    for case in cases:
        try:
            without_losses += not rewriting_exchange(name).request(on_wire(case.body)).losses
        except adapters.DragomanError:
            continue
    assert without_losses > len(cases) * 2 / 3


@pytest.mark.parametrize("case", case_params(REQUESTS))
def test_rewriting_twice_changes_nothing_more(case: RequestCase) -> None:
    try:
        once = rewriting_exchange(case.dialect, case.capabilities).request(on_wire(case.body)).body
    except adapters.DragomanError:
        return
    assert rewriting_exchange(case.dialect, case.capabilities).request(once).body == once
