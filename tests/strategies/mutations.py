"""Strategies for corrupted bodies and streams."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import cast

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec import Raw

Path = tuple[str | int, ...]

_UNEXPECTED_VALUES = st.sampled_from([
    *(b"null", b"true", b"0", b"-1", b"1.5", b"1e999", b"123456789012345678901234567890"),
    *(b'""', b'"x"', b"[]", b"{}", b"[[]]", b"[null]", b'{"type":"x"}', b'[{"type":"x"}]'),
    *(b'"\\ud800"', b'"\\u0000"', b'[{"type":"text","text":null}]', b'{"name":null}', b"[0, {}]"),
])  # fmt: skip


@st.composite
def corrupted(draw: DrawFn, data: bytes) -> bytes:
    """Draw bytes with a few of them replaced, removed or inserted."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 3))
        new = draw(st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"\\", b"\n\n", b"\xff"]))
        data = data[:start] + new + data[end:]
    return data


@st.composite
def with_replaced_value(draw: DrawFn, body: bytes) -> bytes:
    """Draw a body with another JSON value somewhere in it."""
    value = msgspec.json.decode(body)
    path = draw(st.sampled_from(list(_paths(value))))
    return msgspec.json.encode(_replaced(value, path, Raw(draw(_UNEXPECTED_VALUES))))


@st.composite
def with_replaced_event_value(draw: DrawFn, stream: bytes) -> bytes:
    """Draw a stream with another JSON value somewhere in one of its events."""
    blocks = stream.replace(b"\r\n", b"\n").split(b"\n\n")
    number = draw(st.integers(0, len(blocks) - 1))
    before, label, data = blocks[number].partition(b"data: ")
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        blocks[number] = before + label + draw(with_replaced_value(data))
    return b"\n\n".join(blocks)


def _paths(value: object, path: Path = ()) -> Iterator[Path]:
    yield path
    members: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        members = cast("dict[str | int, object]", value).items()
    elif isinstance(value, list):
        members = enumerate(cast("list[object]", value))
    for name, inner in members:
        yield from _paths(inner, (*path, name))


def _replaced(value: object, path: Path, new: Raw) -> object:
    if not path:
        return new
    *steps, last = path
    # The steps index lists and objects alike.
    parent = cast("dict[str | int, object]", value)
    for step in steps:
        parent = cast("dict[str | int, object]", parent[step])
    parent[last] = new
    return value
