"""The fast path for deltas reads the same events as the decoder."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.chat import stream_reader
from adapters.chat.stream_reader import DeltaFastPath, find_fast_path
from adapters.chat.tool_calls import ToolCallAssembler
from adapters.ir.events import Event
from tests.corpus import STREAMS, StreamCase, case_params, read_events

CHAT_STREAMS = [case for case in STREAMS if case.dialect != "responses"]


def _find_none(_data: bytes, _events: list[Event], _calls: ToolCallAssembler) -> None:
    return None


def check_same_events(case: StreamCase) -> None:
    events = read_events(case, [case.body])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_reader, "find_fast_path", _find_none)
        assert read_events(case, [case.body]) == events


@pytest.mark.parametrize("case", case_params(CHAT_STREAMS))
def test_fast_path_equals_decoder_for_every_case(case: StreamCase) -> None:
    check_same_events(case)


STRINGS = st.text(max_size=8) | st.sampled_from(
    ("{", "}", "[", '"', "\\", '{"a":1}', '"content":', '"arguments":"', "\x00", "\u2028", " ")
)
# Valid strings, and other values that no server should send.
VALUES = st.builds(msgspec.json.encode, STRINGS) | st.sampled_from(
    (b"null", b'""', b'"\\ud83d"', b'"\\u00e9"', b'"\xff"', b"{}", b"1", b'"a"}', b'"a","b":"c"')
)
CHUNKS = st.sampled_from(
    (
        b'{"choices":[{"index":0,"delta":{"content":%b}}]}',
        b'{"choices":[{"index":0,"delta":{"content": %b}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%b}}]}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":%b}}]}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":%b}}]}}]}',
        b'{"choices":[{"index":0,"delta":{"function_call":{"arguments":%b}}}]}',
        b'{"choices":[{"index":1,"delta":{"content":%b}}]}',
    )
)
OPENING = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function",'
    b'"function":{"name":"f","arguments":""}}]}}]}\n\n'
)
ENDING = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@given(
    opened=st.booleans(), runs=st.lists(st.tuples(CHUNKS, st.lists(VALUES, min_size=1)), max_size=6)
)
def test_fast_path_equals_decoder_for_any_chunks(
    *, opened: bool, runs: list[tuple[bytes, list[bytes]]]
) -> None:
    chunks = [b"data: %b\n\n" % (chunk % value) for chunk, values in runs for value in values]
    body = b"".join([OPENING if opened else b"", *chunks, ENDING])
    check_same_events(StreamCase(name="", body=body, point="x", dialect="chat"))


def test_fast_path_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def find(data: bytes, events: list[Event], calls: ToolCallAssembler) -> DeltaFastPath | None:
        decoded.append(data)
        return find_fast_path(data, events, calls)

    monkeypatch.setattr(stream_reader, "find_fast_path", find)
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n'
    body = b"".join(chunk % number for number in range(100)) + ENDING
    read_events(StreamCase(name="", body=body, point="x", dialect="chat"), [body])
    # The first chunk opens the message, and the second one is learned from.
    assert len(decoded) == 2
