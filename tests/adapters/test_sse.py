"""Server-sent events are decoded as the standard requires, however they are split."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.errors import InvalidReplyError
from adapters.sse import Decoder, Frame
from tests.strategies.values import Chunking, chunkings, split

MARK = b"\xef\xbb\xbf"
ENDS = (b"\n", b"\r\n", b"\r")
# Lines of streams, and lines that only resemble them.
LINES = (
    *(b"", b"", b"", b"data: one", b"data:two", b"data:  three", b"data: ", b"data:", b"data"),
    *(b"event: name", b"event:other", b"event", b"id: 7", b"retry: 10", b": comment", b":"),
    *(b":x:y", b"dataset: no", b" data: no", b"data : no", b"Data: no", b"nothing", b"data: a:b"),
    b"\xff\xfe",
    *(b"data: " + text.encode() for text in ("\u2028x", "a\x85b", "é🦜", "\x0b\x0c\x1c", "\0")),
)

BODY = b'{"error": {"message": "no"}}'
SEPARATORS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode()

DATA = b"data: a\n\n"
STREAMS_OF_A = (
    *(DATA, b"data:a\n\n", b"event: x\n\ndata: a\n\n", b": ping\n\n: ping\n\ndata: a\n\n"),
    *(b"\n\n\n\ndata: a\n\n\n\n\n", b"id: 1\nretry: 2\nfoo: 3\ndata: a\n\n"),
    *(MARK + DATA, DATA + MARK + b"data: b\n\n"),
)

each_end = pytest.mark.parametrize("end", ENDS, ids=["LF", "CRLF", "CR"])


def decode(pieces: Sequence[bytes]) -> list[Frame]:
    decoder = Decoder()
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    return [*frames, *decoder.flush()]


def reference(stream: bytes) -> Iterator[Frame]:
    """Read a stream line by line, as the standard describes it."""
    *lines, rest = re.split(rb"\r\n|\r|\n", stream.removeprefix(MARK))
    event: list[bytes] = []
    for line in lines:
        if line:
            event.append(line)
        else:
            yield from reference_event(event, whole=True)
            event = []
    yield from reference_event([*event, rest], whole=False)


def reference_event(lines: Sequence[bytes], *, whole: bool) -> Iterator[Frame]:
    fields = [[*line.split(b":", 1), b""][:2] for line in lines]
    named = [(name, value.removeprefix(b" ")) for name, value in fields]
    data = b"\n".join(value for name, value in named if name == b"data")
    names = [value for name, value in named if name == b"event"]
    if data:
        yield Frame(names[-1] if names else b"", data, whole)


@given(
    lines=st.lists(st.sampled_from(LINES), max_size=12),
    ends=st.lists(st.sampled_from(ENDS), min_size=12, max_size=12),
    mark=st.sampled_from([b"", MARK]),
    chunking=chunkings,
)
def test_any_stream_is_read_as_by_the_standard(
    lines: list[bytes], ends: list[bytes], mark: bytes, chunking: Chunking
) -> None:
    stream = mark + b"".join(line + end for line, end in zip(lines, ends, strict=False))
    assert decode(split(stream, chunking)) == list(reference(stream))


@given(stream=st.binary(max_size=40), chunking=chunkings)
def test_noise_does_not_depend_on_chunks(stream: bytes, chunking: Chunking) -> None:
    assert decode(split(stream, chunking)) == decode([stream])


@each_end
def test_event_is_complete_with_its_last_byte(end: bytes) -> None:
    decoder = Decoder()
    *before, last = split(b"data: x" + end + end[:1], 1)
    assert [frame for piece in before for frame in decoder.feed(piece)] == []
    assert decoder.feed(last) == [Frame(b"", b"x")]


@pytest.mark.parametrize(
    ("stream", "meant"),
    [
        *((stream, [Frame(b"", b"a")]) for stream in STREAMS_OF_A),
        (b"data:  a\n\n", [Frame(b"", b" a")]),
        (b"data: a\ndata: b\ndata:\n\n", [Frame(b"", b"a\nb\n")]),
        (b"event: x\ndata: a\n\n", [Frame(b"x", b"a")]),
        (b"data: a\nevent: x\nevent: y\n\n", [Frame(b"y", b"a")]),
        *((stream, []) for stream in (b"data:\n\n", b"", MARK, b"dat", MARK + MARK + DATA)),
        (b"data: a\n\ndata: b", [Frame(b"", b"a"), Frame(b"", b"b", whole=False)]),
        (b"data: a\n", [Frame(b"", b"a", whole=False)]),
        (b"data: a\r\rdata: b\n\ndata: c\r\n\r\n", [Frame(b"", one) for one in (b"a", b"b", b"c")]),
        (b"data: a\r\n\ndata: b\n\r\n", [Frame(b"", b"a"), Frame(b"", b"b")]),
        # Other separators stay in the data.
        (b"data: " + SEPARATORS + b"\n\n", [Frame(b"", SEPARATORS)]),
        # A body that is no stream is one frame.
        (BODY, [Frame(b"", BODY, whole=False)]),
    ],
)
def test_one_rule(stream: bytes, meant: list[Frame]) -> None:
    assert decode([stream]) == meant
    assert decode(split(stream, 1)) == meant


def test_endless_event_is_refused() -> None:
    decoder = Decoder(limit=20)
    decoder.feed(b"data: 0123456789")
    decoder.feed(b"0123")
    with pytest.raises(InvalidReplyError, match="exceeds 20 bytes"):
        decoder.feed(b"4")


@each_end
def test_many_events_are_never_too_many(end: bytes) -> None:
    decoder = Decoder(limit=40)
    stream = (b"data: 0123456789" + end + b": a" + end + end) * 50
    assert sum(len(decoder.feed(piece)) for piece in split(stream, 7)) == 50


def watched(action: Callable[[], object]) -> tuple[int, int]:
    """Count the joins, and the bytes of all that was searched or split, while something is done."""
    joins = visited = 0

    def watch(_frame: FrameType, event: str, called: object) -> None:
        nonlocal joins, visited
        if event != "c_call" or not isinstance(called, BuiltinFunctionType):
            return
        owner: object = called.__self__
        if isinstance(owner, bytes):
            joins += called.__name__ == "join"
            visited += len(owner)

    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
    return joins, visited


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("count", [100, 1000])
def test_long_event_in_small_chunks_is_joined_once(count: int, end: bytes) -> None:
    decoder = Decoder()
    pieces = [b"data: ", *[b"0123456789" + end + b"data: "] * count, end, end]
    frames: list[Frame] = []

    def feed_all() -> None:
        for piece in pieces:
            frames.extend(decoder.feed(piece))

    joins, visited = watched(feed_all)
    assert [len(frame.data) for frame in frames] == [11 * count]
    assert joins <= 4
    assert visited <= 12 * sum(map(len, pieces))


@pytest.mark.parametrize("count", [100, 1000])
def test_many_events_in_one_chunk_are_scanned_once(count: int) -> None:
    stream = b"event: e\ndata: 0123456789\n\n" * count
    joins, visited = watched(lambda: decode([stream]))
    assert joins <= 2 * count + 4
    assert visited <= 12 * len(stream)
