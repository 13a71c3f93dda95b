"""Good requests, replies and streams, each spoiled in every place.

What comes out is an answer or one clear error, never another exception. A stream that turns to
noise or breaks off ends with its dialect's own word for failure, and never looks whole.
"""

from collections.abc import Callable, Iterator
from itertools import islice, product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adapters
from adapters.sse import EVENT_LIMIT
from tests.exchange import Exchange

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

PAIRS = list(product(adapters.DIALECTS, adapters.DIALECTS))
every_pair = pytest.mark.parametrize(("client", "backend"), PAIRS)
every_other_pair = pytest.mark.parametrize(
    ("client", "backend"), [pair for pair in PAIRS if pair[0] != pair[1]]
)

REQUESTS = {
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

CHAT_REPLY = b"""{"id": "chatcmpl-1", "choices": [{"index": 0, "finish_reason": "stop",
    "logprobs": {"content": [{"token": "a", "logprob": -1.0, "bytes": [97]}]},
    "message": {"content": "a", "reasoning": "r", "refusal": null,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\\"a\\":1}"}}],
        "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]}}],
    "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}}"""
REPLIES = {
    "chat": CHAT_REPLY,
    "legacy": CHAT_REPLY,
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


def begin(client: str, backend: str) -> Exchange:
    return Exchange(client, backend, ids=adapters.deterministic_ids())


# Anything anywhere

SCALARS: list[Json] = [None, True, -1, 1.5, 10**30, "", "x"]
NESTED: list[Json] = [[], {}, [[]], [None], [{}], ["x"], [{"type": "x"}], {"a": 1}, {"type": ""}]


def spoiled(value: Json) -> Iterator[Json]:
    """Give the value with each of its parts, and the whole, replaced by anything."""
    yield from SCALARS
    yield from NESTED
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: bad} for bad in spoiled(inner))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from ([*value[:number], bad, *value[number + 1 :]] for bad in spoiled(inner))


def all_spoiled(body: bytes) -> Iterator[bytes]:
    return map(msgspec.json.encode, spoiled(msgspec.json.decode(body)))


def assert_only_our_errors(
    run: Callable[[bytes], adapters.ReplyEnd | adapters.BackendRequest], body: bytes
) -> None:
    try:
        told = run(body)
    except adapters.DragomanError:
        return
    except Exception as error:
        raise AssertionError(f"{error!r} for {body.decode()}") from error
    assert told.body.startswith((b"{", b"data:", b"event:"))


@every_pair
def test_spoiled_request(client: str, backend: str) -> None:
    for body in all_spoiled(REQUESTS[client]):
        assert_only_our_errors(begin(client, backend).request, body)


@every_pair
def test_spoiled_reply(client: str, backend: str) -> None:
    for body in all_spoiled(REPLIES[backend]):
        assert_only_our_errors(begin(client, backend).reply, body)
        assert_only_our_errors(begin(client, backend).reply_as_stream, body)


# Streams


def frames(backend: str) -> list[bytes]:
    """Tell a reply as the frames that a backend would send, each without its empty line."""
    told = begin(backend, backend).reply_as_stream(REPLIES[backend]).body
    return told.removesuffix(b"\n\n").split(b"\n\n")


def run_stream(client: str, backend: str, *reads: bytes) -> bytes:
    stream = begin(client, backend).stream()
    return b"".join([*map(stream.feed, reads), stream.finish(started=True).body])


def looks_whole(client: str, told: bytes) -> bool:
    """Tell whether a client would take this for an answer that came to its end."""
    if client == "responses":
        return b"event: response.completed" in told or b"event: response.incomplete" in told
    return b'"error":' not in told


@every_pair
def test_good_stream_looks_whole(client: str, backend: str) -> None:
    assert looks_whole(client, run_stream(client, backend, b"\n\n".join(frames(backend)) + b"\n\n"))


@every_pair
def test_spoiled_event(client: str, backend: str) -> None:
    """An event with anything in it ends the stream, or is passed over: what comes out is legal."""
    good = frames(backend)
    for number, frame in enumerate(good[:-1]):
        head, _, data = frame.rpartition(b"data: ")
        # A third is enough: sixteen values to a place, so that every place gets its share.
        for body in islice(all_spoiled(data), 0, None, 3):
            bad = [*good[:number], head + b"data: " + body, *good[number + 1 :]]
            try:
                told = run_stream(client, backend, b"\n\n".join(bad) + b"\n\n")
            except Exception as error:
                raise AssertionError(f"{error!r} for {body.decode()}") from error
            breaches = [] if client == backend else adapters.check(client, told)
            assert not breaches, f"{breaches} for {body.decode()}"


@every_other_pair
def test_spoiled_last_event_without_its_empty_line(client: str, backend: str) -> None:
    place = {"responses": b'{"type":"response.completed","response":{"output":[%b]}}'}
    event = place.get(backend, b'{"choices":[{"delta":{"content":[%b]},"finish_reason":"stop"}]}')
    told = run_stream(client, backend, b"data: " + event % b"1")
    assert told
    assert not looks_whole(client, told)


NOISE = [
    b"data: \x80\x81\xfe\xff",
    b"data: {\x00\x01\x02",
    b'data: {"choices": [{"delta": {"content": "',
    b"data: \x1f\x8b\x08\x00\xff\x00",
    b"data: <html><body>502 Bad Gateway</body></html>",
    b"data: [1, 2",
    b"data: " + bytes(range(14, 256)),
]


@every_pair
@pytest.mark.parametrize("noise", NOISE)
def test_noise_ends_a_stream_as_failed(client: str, backend: str, noise: bytes) -> None:
    good = frames(backend)
    for number in range(len(good) - 2):
        bad = b"\n\n".join([*good[:number], noise, *good[number:]]) + b"\n\n"
        assert not looks_whole(client, run_stream(client, backend, bad)), bad[-300:]


@every_pair
def test_deep_event(client: str, backend: str) -> None:
    """Depths about the one at which Python gives up are tried one by one."""
    place = {"responses": b'{"type":"response.output_item.done","item":{"type":"x","y":%b}}'}
    event = place.get(backend, b'{"choices":[{"delta":{"content":"a","y":%b}}]}')
    for depth in (500, *range(900, 1010), 100_000):
        told = run_stream(client, backend, b"data: " + event % (b"[" * depth + b"]" * depth))
        assert not looks_whole(client, told)


@every_pair
def test_stream_that_breaks_off_is_failed(client: str, backend: str) -> None:
    whole = b"\n\n".join(frames(backend)) + b"\n\n"
    # The last event of substance may lack its empty line: that much is forgiven.
    end = max(whole.rfind(b'"finish_reason":'), whole.rfind(b"event: response."))
    for length in range(0, end, 7):
        assert not looks_whole(client, run_stream(client, backend, whole[:length])), length


@every_pair
def test_text_that_is_not_utf8_is_replaced(client: str, backend: str) -> None:
    """One broken character is no reason to lose an answer, wherever in an event it stands."""
    good = b"\n\n".join(frames(backend)) + b"\n\n"
    for byte in (b"\xff", b"\xc3", b"\xed\xa0\x80"):
        for old, new in ((b'"a"', b'"a%b"'), (b'"r"', b'"r%b"'), (b'{\\"', b'{\\"%b')):
            told = run_stream(client, backend, good.replace(old, new.replace(b"%b", byte)))
            assert looks_whole(client, told), (old, byte)
            if client != backend:
                told.decode()


@every_pair
@settings(deadline=None, derandomize=True)
@given(reads=st.lists(st.binary()))
def test_any_bytes_are_a_failed_stream(client: str, backend: str, reads: list[bytes]) -> None:
    told = run_stream(client, backend, *reads)
    assert not looks_whole(client, told)
    collector = begin(client, backend).collect()
    for read in reads:
        collector.feed(read)
    assert collector.finish().status >= 400


@every_pair
def test_event_without_end_is_not_kept(client: str, backend: str) -> None:
    stream = begin(client, backend).stream()
    piece = b"data: " + b"x" * 1024 * 1024
    for _ in range(EVENT_LIMIT // len(piece) + 2):
        assert stream.feed(piece) == b""
    assert stream.ended
    end = stream.finish(started=True)
    assert end.error is not None
    assert not looks_whole(client, end.body)
