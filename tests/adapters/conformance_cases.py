"""Streams that are changed to violate one rule of the conformance checker."""

import typing
from collections.abc import Callable, Iterator
from itertools import count

import msgspec

from adapters.conformance import Json, Object, Violation

Stream = list[Json]
Edit = Callable[[Stream], None]
# The stream to change, the change, the index of the frame with the violation, and its message.
Case = tuple[str, Edit, int, str]

DONE: Json = "[DONE]"


def write_chat(stream: Stream) -> bytes:
    """Write two lines per frame: frame n has its data in line 2n + 1."""
    return b"".join(b"data: " + frame_data(frame) + b"\n\n" for frame in stream)


def write_responses(stream: Stream) -> bytes:
    """Write three lines per frame: frame n has its data in line 3n + 2."""
    numbers = count()
    return b"".join(_responses_frame(numbers, frame) for frame in stream)


def _responses_frame(numbers: Iterator[int], frame: Json) -> bytes:
    if not isinstance(frame, dict):
        return b": the end\ndata: " + frame_data(frame) + b"\n\n"
    numbered: Object = {"sequence_number": next(numbers), **frame}
    name = numbered.pop("event line", numbered.get("type"))
    return f"event: {name}\n".encode() + b"data: " + frame_data(numbered) + b"\n\n"


def frame_data(frame: Json) -> bytes:
    return frame.encode() if isinstance(frame, str) else msgspec.json.encode(frame)


def fresh(stream: Stream) -> Stream:
    """Copy a stream; unlike deepcopy, shared parts are copied separately."""
    copy: Stream = msgspec.json.decode(msgspec.json.encode(stream))
    return copy


def _parent(stream: Stream, place: int, path: str) -> tuple[Object | Stream, str]:
    *keys, last = path.split("/")
    value = stream[place]
    for key in keys:
        value = value[int(key)] if isinstance(value, list) else typing.cast("Object", value)[key]
    return typing.cast("Object | Stream", value), last


def put(place: int, path: str, value: Json) -> Edit:
    def edit(stream: Stream) -> None:
        parent, key = _parent(stream, place, path)
        if isinstance(parent, list):
            parent[int(key)] = value
        else:
            parent[key] = value

    return edit


def remove(place: int, path: str) -> Edit:
    def edit(stream: Stream) -> None:
        parent, key = _parent(stream, place, path)
        del typing.cast("Object", parent)[key]

    return edit


def drop(place: int, count: int = 1) -> Edit:
    def edit(stream: Stream) -> None:
        del stream[place : place + count]

    return edit


def insert(place: int, *frames: Json) -> Edit:
    def edit(stream: Stream) -> None:
        stream[place:place] = frames

    return edit


def repeat(place: int) -> Edit:
    def edit(stream: Stream) -> None:
        stream.insert(place, stream[place])

    return edit


def swap(place: int) -> Edit:
    def edit(stream: Stream) -> None:
        stream[place], stream[place + 1] = stream[place + 1], stream[place]

    return edit


def put_in_range(start: int, end: int, path: str, value: int) -> Edit:
    """Set a number in each frame of a range; sequence numbers increase from it."""
    is_counter = path == "sequence_number"
    return all_of(
        *(put(n, path, value + (n - start if is_counter else 0)) for n in range(start, end))
    )


def all_of(*edits: Edit) -> Edit:
    def edit(stream: Stream) -> None:
        for change in edits:
            change(stream)

    return edit


def changed(streams: dict[str, Stream], case: Case) -> Stream:
    stream = fresh(streams[case[0]])
    case[1](stream)
    return stream


def expect_one(violations: list[Violation], line: int, piece: str) -> None:
    assert [violation.line for violation in violations] == [line], violations
    assert piece in violations[0].message


def name_of(case: Case) -> str:
    return f"{case[0]}: {case[3]}"
