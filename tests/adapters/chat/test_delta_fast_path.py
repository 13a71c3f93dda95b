"""The short way through a stream gives the same events as the long one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.chat import stream_reader as read_stream
from adapters.chat.stream_reader import DeltaFastPath, find_shortcut
from adapters.chat.tool_calls import PartialCall
from adapters.ir.events import Event
from tests.corpus import STREAMS, StreamCase, alone, read_events

COMPLETIONS = [case for case in STREAMS if case.dialect != "responses"]


def _find_none(_data: bytes, _events: list[Event], _slot: PartialCall | None) -> None:
    return None


def _both_ways(case: StreamCase) -> None:
    short = read_events(case, [case.body])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_stream, "find_shortcut", _find_none)
        assert read_events(case, [case.body]) == short


@pytest.mark.parametrize("case", alone(COMPLETIONS))
def test_both_ways_agree(case: StreamCase) -> None:
    _both_ways(case)


PIECES = st.text(max_size=8) | st.sampled_from(
    ("{", "}", "[", '"', "\\", '{"a":1}', '"content":', '"arguments":"', "\x00", "\u2028", " ")
)
# As servers spell it, and as no server should.
SPELLED = st.builds(msgspec.json.encode, PIECES) | st.sampled_from(
    (b"null", b'""', b'"\\ud83d"', b'"\\u00e9"', b'"\xff"', b"{}", b"1", b'"a"}', b'"a","b":"c"')
)
HEADS = st.sampled_from(
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
    opened=st.booleans(), runs=st.lists(st.tuples(HEADS, st.lists(SPELLED, min_size=1)), max_size=6)
)
def test_both_ways_agree_on_anything(
    *, opened: bool, runs: list[tuple[bytes, list[bytes]]]
) -> None:
    chunks = [b"data: %b\n\n" % (head % spelled) for head, texts in runs for spelled in texts]
    body = b"".join([OPENING if opened else b"", *chunks, ENDING])
    _both_ways(StreamCase(name="", body=body, point="x", rows=(), dialect="chat"))


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    long_way: list[bytes] = []

    def find_noted(
        data: bytes, events: list[Event], slot: PartialCall | None
    ) -> DeltaFastPath | None:
        long_way.append(data)
        return find_shortcut(data, events, slot)

    monkeypatch.setattr(read_stream, "find_shortcut", find_noted)
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n'
    body = b"".join(chunk % number for number in range(100)) + ENDING
    read_events(StreamCase(name="", body=body, point="x", rows=(), dialect="chat"), [body])
    # The first opens the message, from the second the rest is learnt.
    assert len(long_way) == 2
