"""Corrupted requests, replies and streams of every pair.

Each gives an output or one of our errors, never another exception. A stream that turns to noise or
is truncated ends with the error of the client's dialect, and never looks complete.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec import Raw

import adapters
from adapters.conformance import Json
from adapters.sse import EVENT_LIMIT
from tests import corpus
from tests.adapters.laws.common import each_pair, each_unequal_pair, few_examples, read_stream
from tests.exchange import Exchange
from tests.strategies.mutations import corrupted, with_replaced_event_value, with_replaced_value
from tests.strategies.values import Chunking, chunkings, split

SAMPLE_REQUESTS = {
    "chat": b"""{"model": "m", "messages": [
        {"role": "system", "content": "a"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "b"}]}],
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "g", "format":
            {"type": "grammar", "grammar": {"syntax": "lark", "definition": "d"}}}}],
    "tool_choice": {"type": "allowed_tools", "allowed_tools":
        {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}},
    "stream_options": {"include_usage": true}, "stop": ["."], "web_search_options":
        {"user_location": {"type": "approximate", "approximate": {"city": "Riga"}}}}""",
    "legacy": b"""{"model": "m", "messages": [
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{\\"a\\":1}"}},
        {"role": "function", "name": "f", "content": "b"}],
    "functions": [{"name": "f", "description": "d", "parameters": {"type": "object"}}],
    "function_call": {"name": "f"}}""",
    "responses": b"""{"model": "m", "input": [
        {"role": "user", "content": [{"type": "input_file", "file_id": "i"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a",
            "annotations": [{"type": "url_citation", "url": "u", "end_index": 1}]}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "id": "rs_1"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\\"a\\":1}"},
        {"type": "function_call_output", "call_id": "c", "output":
            [{"type": "input_text", "text": "b"}]},
        {"type": "additional_tools", "tools": [{"type": "function", "name": "h"}]}],
    "tools": [{"type": "function", "name": "f", "parameters": {}}, {"type": "web_search"}],
    "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "low"},
    "text": {"format": {"type": "json_schema", "name": "s", "schema": {}}, "verbosity": "low"},
    "include": ["reasoning.encrypted_content"]}""",
}

_CHAT_REPLY = b"""{"id": "chatcmpl-1", "choices": [{"index": 0, "finish_reason": "stop",
    "logprobs": {"content": [{"token": "a", "logprob": -1.0, "bytes": [97]}]},
    "message": {"content": "a", "reasoning": "r", "refusal": null,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\\"a\\":1}"}}],
        "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]}}],
    "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}}"""
SAMPLE_REPLIES = {
    "chat": _CHAT_REPLY,
    "legacy": _CHAT_REPLY,
    "responses": b"""{"id": "resp_1", "status": "incomplete", "output": [
        {"type": "reasoning", "summary": [{"text": "s"}]},
        {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "a", "annotations": [{"type": "file_path"}],
            "logprobs": [{"token": "a", "logprob": -1.0, "bytes": [97]}]}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\\"a\\":1}"},
        {"type": "web_search_call", "id": "w", "status": "completed"}],
    "incomplete_details": {"reason": "max_output_tokens"},
    "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 1}}}""",
}

SCALARS: list[Json] = [None, True, -1, 1.5, 10**30, "", "x"]
NESTED: list[Json] = [[], {}, [[]], [None], [{}], ["x"], [{"type": "x"}], {"a": 1}, {"type": ""}]


def translate_stream(client: str, backend: str, *chunks: bytes) -> bytes:
    return Exchange(client, backend).translate_stream(chunks)


def assert_failed(client: str, backend: str, stream: bytes) -> None:
    output = translate_stream(client, backend, stream)
    assert not looks_complete(client, output), stream[-300:]


def looks_complete(client: str, stream: bytes) -> bool:
    """Whether a client would take this for a complete reply."""
    if client == "responses":
        return b"event: response.completed" in stream or b"event: response.incomplete" in stream
    return b'"error":' not in stream


def with_wrong_values(value: Json) -> Iterator[Json]:
    """Yield the value with each of its parts, and all of it, replaced by wrong values."""
    yield from SCALARS
    yield from NESTED
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: wrong} for wrong in with_wrong_values(inner))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            for wrong in with_wrong_values(inner):
                yield [*value[:number], wrong, *value[number + 1 :]]


def wrong_bodies(body: bytes) -> Iterator[bytes]:
    return map(msgspec.json.encode, with_wrong_values(msgspec.json.decode(body)))


def assert_only_our_errors(
    translate: Callable[[bytes], adapters.ReplyEnd | adapters.BackendRequest], body: bytes
) -> None:
    try:
        output = translate(body)
    except adapters.DragomanError:
        return
    except Exception as error:
        raise AssertionError(f"{error!r} for {body.decode()}") from error
    assert output.body.startswith((b"{", b"data:", b"event:"))


@each_pair
def test_wrong_value_in_a_request(client: str, backend: str) -> None:
    for body in wrong_bodies(SAMPLE_REQUESTS[client]):
        assert_only_our_errors(Exchange(client, backend).request, body)


@each_pair
def test_wrong_value_in_a_reply(client: str, backend: str) -> None:
    for body in wrong_bodies(SAMPLE_REPLIES[backend]):
        assert_only_our_errors(Exchange(client, backend).reply, body)
        assert_only_our_errors(Exchange(client, backend).reply_as_stream, body)


def sample_stream(backend: str) -> bytes:
    return Exchange(backend, backend).reply_as_stream(SAMPLE_REPLIES[backend]).body


def frames(backend: str) -> list[bytes]:
    """Return the frames of a stream, each without its empty line."""
    return sample_stream(backend).removesuffix(b"\n\n").split(b"\n\n")


@each_pair
def test_wrong_value_in_an_event(client: str, backend: str) -> None:
    """The event ends the stream or is skipped: the output is legal."""
    good = frames(backend)
    for number, frame in enumerate(good[:-1]):
        head, _, data = frame.rpartition(b"data: ")
        # A place has sixteen values, so with every third value each place is tried.
        for body in islice(wrong_bodies(data), 0, None, 3):
            stream = [*good[:number], head + b"data: " + body, *good[number + 1 :]]
            try:
                output = translate_stream(client, backend, b"\n\n".join(stream) + b"\n\n")
            except Exception as error:
                raise AssertionError(f"{error!r} for {body.decode()}") from error
            violations = [] if client == backend else adapters.check(client, output)
            assert not violations, f"{violations} for {body.decode()}"


@each_unequal_pair
def test_wrong_value_in_the_last_event_without_its_empty_line(client: str, backend: str) -> None:
    events = {"responses": b'{"type":"response.completed","response":{"output":[1]}}'}
    event = events.get(backend, b'{"choices":[{"delta":{"content":[1]},"finish_reason":"stop"}]}')
    output = translate_stream(client, backend, b"data: " + event)
    assert output
    assert not looks_complete(client, output)


@each_pair
def test_good_stream_looks_complete(client: str, backend: str) -> None:
    assert looks_complete(client, translate_stream(client, backend, sample_stream(backend)))


NOISE = [
    *(b"data: \x80\x81\xfe\xff", b"data: {\x00\x01\x02", b"data: \x1f\x8b\x08\x00\xff\x00"),
    *(b"data: [1, 2", b'data: {"choices": [{"delta": {"content": "'),
    *(b"data: <html><body>502 Bad Gateway</body></html>", b"data: " + bytes(range(14, 256))),
]


@each_pair
def test_noise_ends_a_stream_as_failed(client: str, backend: str) -> None:
    good = frames(backend)
    for noise, number in product(NOISE, range(len(good) - 2)):
        stream = b"\n\n".join([*good[:number], noise, *good[number:]]) + b"\n\n"
        assert_failed(client, backend, stream)


@each_pair
def test_deep_event_ends_a_stream_as_failed(client: str, backend: str) -> None:
    """Depths around Python's recursion limit are tried one by one."""
    events = {"responses": b'{"type":"response.output_item.done","item":{"type":"x","y":%b}}'}
    event = events.get(backend, b'{"choices":[{"delta":{"content":"a","y":%b}}]}')
    for depth in (500, *range(900, 1010), 100_000):
        assert_failed(client, backend, b"data: " + event % (b"[" * depth + b"]" * depth))


@each_pair
def test_invalid_utf8_in_a_stream_is_replaced(client: str, backend: str) -> None:
    good = sample_stream(backend)
    for invalid in (b"\xff", b"\xc3", b"\xed\xa0\x80"):
        for old, new in ((b'"a"', b'"a%b"'), (b'"r"', b'"r%b"'), (b'{\\"', b'{\\"%b')):
            stream = good.replace(old, new.replace(b"%b", invalid))
            output = translate_stream(client, backend, stream)
            assert looks_complete(client, output), (old, invalid)
            if client != backend:
                output.decode()


@each_pair
def test_event_without_end_is_not_buffered(client: str, backend: str) -> None:
    stream = Exchange(client, backend).stream()
    chunk = b"data: " + b"x" * 1024 * 1024
    for _ in range(EVENT_LIMIT // len(chunk) + 2):
        assert stream.feed(chunk) == b""
    assert stream.ended
    end = stream.finish(started=True)
    assert end.error is not None
    assert not looks_complete(client, end.body)


@each_pair
@few_examples
@given(chunks=st.lists(st.binary(max_size=60)), status=st.integers(400, 599))
def test_any_bytes_are_an_error(
    client: str, backend: str, chunks: list[bytes], status: int
) -> None:
    body = b"".join(chunks)
    with pytest.raises(adapters.InvalidRequestError):
        Exchange(client, backend).request(body)
    for translate in (Exchange.reply, Exchange.reply_as_stream):
        # A body that begins like a stream is read as one.
        with suppress(adapters.InvalidReplyError):
            assert translate(Exchange(client, backend), body).status >= 400
    assert Exchange(client, backend).error(status, body).status == status
    assert not looks_complete(client, translate_stream(client, backend, *chunks))
    assert collect_status(client, backend, chunks) >= 400


def collect_status(client: str, backend: str, chunks: Sequence[bytes]) -> int:
    collector = Exchange(client, backend).collect()
    for chunk in chunks:
        collector.feed(chunk)
    return collector.finish().status


@given(data=st.data(), case=st.sampled_from([*corpus.REQUESTS, *corpus.REPLIES]))
def test_changed_body_gives_only_our_errors(
    data: DataObject, case: corpus.RequestCase | corpus.ReplyCase
) -> None:
    change = data.draw(st.sampled_from([corrupted, with_replaced_value]))
    body = data.draw(change(corpus.on_wire(case.body)))
    for other in adapters.DIALECTS:
        for client, backend in ((case.dialect, other), (other, case.dialect)):
            for translate in (Exchange.request, Exchange.reply, Exchange.reply_as_stream):
                with suppress(adapters.DragomanError):
                    translate(Exchange(client, backend), body)
            Exchange(client, backend).error(500, body)


@given(data=st.data(), case=st.sampled_from(corpus.ERRORS))
def test_changed_error_is_an_error(data: DataObject, case: corpus.ErrorCase) -> None:
    changes = [corrupted] if case.body_text is not None else [corrupted, with_replaced_value]
    body = data.draw(data.draw(st.sampled_from(changes))(case.wire_body()))
    for other in adapters.DIALECTS:
        error = Exchange(other, case.dialect).error(case.status, body)
        if other != case.dialect:
            assert msgspec.json.decode(error.body, type=dict[str, Raw])


@given(data=st.data(), case=st.sampled_from(corpus.STREAMS), chunking=chunkings)
def test_changed_stream_becomes_a_legal_stream(
    data: DataObject, case: corpus.StreamCase, chunking: Chunking
) -> None:
    change = data.draw(st.sampled_from([corrupted, with_replaced_event_value]))
    chunks = split(data.draw(change(case.body)), chunking)
    for other in adapters.DIALECTS:
        collect_status(other, case.dialect, chunks)
        output = translate_stream(other, case.dialect, *chunks)
        if other != case.dialect:
            assert adapters.check(other, output) == []
    read_stream(case.dialect, chunks)
