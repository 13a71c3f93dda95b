"""Rules of server-sent events, and input of any kind for all checkers."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.chat.conformance import check_stream as check_chat
from adapters.conformance import Json, Violation
from adapters.legacy.conformance import check_stream as check_legacy
from adapters.responses.conformance import check_stream as check_responses
from tests.adapters.chat.test_conformance import CHAT, LEGACY
from tests.adapters.conformance_cases import (
    Stream,
    expect_one,
    frame_data,
    fresh,
    put,
    write_chat,
    write_responses,
)
from tests.adapters.responses.test_conformance import RESPONSES

CHECKS = (check_chat, check_legacy, check_responses)
TEXT_CHUNKS = [frame_data(frame).decode() for frame in CHAT["text"]]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_any_line_end_comments_and_split_data_are_valid(end: str) -> None:
    first, *others = TEXT_CHUNKS
    head, tail = first.split(",", 1)
    lines = [": hello", "retry: 5", "id: 1", f"data: {head},", f"data:{tail}", ""]
    for other in others:
        lines += [":", "", f"data: {other}", ""]
    data = "".join(line + end for line in lines).encode()
    assert check_chat(data) == []
    assert check_chat(b"\xef\xbb\xbf" + data) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "piece"),
    [
        ("data: [DONE]\n\n", "data: [DONE]\n", 7, "is not terminated by an empty line"),
        ("data: [DONE]\n\n", "data: [DONE]", 7, "is not terminated by an empty line"),
        ("data: [DONE]\n\n", "data: [DONE]\n\nevent: x", 9, "is not terminated by an empty line"),
        ("data: [DONE]", "date: x\ndata: [DONE]", 7, 'unknown SSE field "date"'),
        ("data: [DONE]", "event: ping\n\ndata: [DONE]", 7, 'event "ping" has no data: line'),
        ("data: [DONE]", ": \udcff\ndata: [DONE]", 7, "the line is not UTF-8"),
        ("data: [DONE]", "data: {}}\n\ndata: [DONE]", 7, "the data is not JSON"),
    ],
)
def test_violation_of_sse_is_reported(old: str, new: str, line: int, piece: str) -> None:
    data = write_chat(CHAT["text"]).decode().replace(old, new)
    expect_one(check_chat(data.encode(errors="surrogateescape")), line, piece)


def test_truncated_event_is_reported() -> None:
    data = write_chat(CHAT["text"])
    violations = check_chat(data[: data.index(b'"finish_reason":"stop"')])
    assert [violation.line for violation in violations] == [3, 3, 5]
    assert "is not terminated" in violations[2].message


@pytest.mark.parametrize("check", CHECKS)
def test_empty_stream_is_reported(check: Callable[[bytes], list[Violation]]) -> None:
    expect_one(check(b""), 1, "the stream ends without")
    assert check(b"[" * 100_000)
    assert check(b"data: " + b'{"a":' * 100_000 + b"\n\n")


def paths_in(value: Json, way: str = "") -> list[str]:
    match value:
        case dict():
            pairs = list(value.items())
        case list():
            pairs = [(str(number), entry) for number, entry in enumerate(value)]
        case _:
            pairs = []
    below = [path for key, entry in pairs for path in paths_in(entry, f"{way}/{key}")]
    return below + [f"{way}/{key}"[1:] for key, _ in pairs]


ODD: list[Json] = [None, True, -1, 0.5, "", "x", [], {}, [None], [[]], {"type": 3}, [{"id": []}]]
PATHS = [
    (streams, name, place, path)
    for streams in (CHAT, LEGACY, RESPONSES)
    for name, stream in streams.items()
    for place, frame in enumerate(stream)
    for path in paths_in(frame)
]


@given(st.sampled_from(PATHS), st.sampled_from(ODD))
@settings(deadline=None, derandomize=True, max_examples=500)
def test_odd_values_do_not_crash(
    target: tuple[dict[str, Stream], str, int, str], value: Json
) -> None:
    streams, name, place, path = target
    stream = fresh(streams[name])
    put(place, path, value)(stream)
    check_chat(write_chat(stream))
    check_legacy(write_chat(stream))
    check_responses(write_responses(stream))


PIECES = [
    b"data:",
    b"event: x",
    b"\n",
    b"\r",
    b"\n\n",
    b"{",
    b"}",
    b"[DONE]",
    b'"a":',
    b"\xff",
    b":",
]


@given(st.binary() | st.lists(st.sampled_from(PIECES)).map(b"".join))
@settings(deadline=None, derandomize=True)
def test_noise_is_reported(data: bytes) -> None:
    for check in CHECKS:
        assert check(data)
