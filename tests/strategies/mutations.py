"""Strategies for corrupted bodies and streams."""

from collections.abc import Iterator
from contextlib import suppress
from typing import cast

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec import Raw

from tests.strategies.values import Json

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
    match value:
        case dict():
            for name, inner in cast("Json", value).items():
                yield from _paths(inner, (*path, name))
        case list():
            for number, inner in enumerate(cast("list[object]", value)):
                yield from _paths(inner, (*path, number))
        case _:
            return


def _replaced(value: object, path: Path, new: Raw) -> object:
    if not path:
        return new
    first, *rest = path
    match value:
        case dict():
            fields = cast("Json", value)
            return fields | {str(first): _replaced(fields[str(first)], tuple(rest), new)}
        case list():
            items = list(cast("list[object]", value))
            items[int(first)] = _replaced(items[int(first)], tuple(rest), new)
            return items
        case _:
            raise AssertionError(path)
