"""Strategies for texts, JSON, and ways to split bytes."""

from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import Raw

from adapters.capabilities import Capabilities

T = TypeVar("T")
Json = dict[str, object]
DialectName = Literal["chat", "responses", "legacy"]
DIALECT_NAMES: tuple[DialectName, ...] = ("chat", "responses", "legacy")

# A backend that accepts everything that its dialect can express.
FULL_CAPABILITIES = Capabilities(
    developer_role=True,
    reasoning_field="reasoning_content",
    custom_tools=True,
    allowed_tools=True,
    web_search_options=True,
    penalties=True,
)

# Texts that break framing, escaping, templates or `splitlines`.
SPECIAL_TEXTS = (
    *("\0", "\u2028", "\u2029", "\x85", "\x1f", "\x7f", "\ufeff", "\U0010ffff", "é", "🦜"),
    *("\r\n", "\n\n", "\r", '"', "\\", "\\u0000", "\\n", "data: ", "[DONE]"),
)
non_empty_texts = st.one_of(
    st.sampled_from(
        [variant for text in SPECIAL_TEXTS for variant in (text, f"a{text}b", text * 2)]
    ),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6),
)
texts = st.just("") | non_empty_texts
names = st.text("abcdef_", min_size=1, max_size=5)
id_suffixes = st.text("0123456789abcdef", min_size=1, max_size=6)
counts = st.integers(0, 10**6)
floats = st.floats(-2, 2)


def optional(strategy: SearchStrategy[T]) -> SearchStrategy[T | None]:
    return st.none() | strategy


def tuples_of(
    strategy: SearchStrategy[T], max_size: int = 3, min_size: int = 0
) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, min_size=min_size, max_size=max_size).map(tuple)


_spaces = st.sampled_from(["", "", " ", "\n", "\t ", " \r\n  "])
_scalars = st.sampled_from([
    *("1", "-0", "1.0", "1e400", "12345678901234567890123", "0.1000000000000000055"),
    *("null", "true", '""', '"\\u2603"', '"\\ud83d\\ude00"', '"\u2028\u2029"', '"\\u0000"'),
    *('"a\\"b\\\\"', '"{"', '"\\/"', '"é🦜"'),
])  # fmt: skip


def _json_objects(values: SearchStrategy[str]) -> SearchStrategy[str]:
    """Return a strategy for objects with unusual spacing and repeated keys."""

    def encode(values: list[str], before: str, after: str) -> str:
        fields = ",".join(f'{before}"k"{after}:{before}{value}{after}' for value in values)
        return f"{{{fields or before}}}"

    return st.builds(encode, st.lists(values, max_size=3), _spaces, _spaces)


def _json_containers(inner: SearchStrategy[str]) -> SearchStrategy[str]:
    arrays = st.lists(inner, max_size=2).map(lambda values: f"[{', '.join(values)}]")
    return _json_objects(inner) | arrays


# One JSON object, and anything else that a model may write as arguments.
json_arguments = _json_objects(st.recursive(_scalars, _json_containers, max_leaves=4))
any_arguments = st.one_of(
    json_arguments,
    texts,
    st.tuples(_spaces, json_arguments, _spaces).map("".join),
    st.sampled_from(["", "{", "{}{", "[1][2]", '{"a":', "null", "12"]),
)
raw_objects = json_arguments.map(lambda text: Raw(text.replace("\r", "").encode()))


# Chunks of one size, or boundaries anywhere.
Chunking = int | list[int]
chunkings: SearchStrategy[Chunking] = st.integers(1, 70) | st.lists(st.integers(0, 5000))
# CR before LF would be one line ending instead of two, so these two are never combined.
line_endings = st.sampled_from([
    (b"\n",), (b"\r\n",), (b"\r",), (b"\n", b"\r\n"), (b"\r", b"\r\n"), (b"\r\n", b"\r\n", b"\n"),
])  # fmt: skip


def split(data: bytes, chunking: Chunking) -> list[bytes]:
    """Split bytes as a network might."""
    if isinstance(chunking, int):
        return [data[start : start + chunking] for start in range(0, len(data), chunking)]
    boundaries = sorted({0, len(data), *(place % (len(data) + 1) for place in chunking)})
    return [data[start:end] for start, end in pairwise(boundaries)]


def with_line_endings(data: bytes, endings: Sequence[bytes]) -> bytes:
    """Replace the LFs of a stream by other line endings, in turn."""
    *lines, last = data.split(b"\n")
    ended = (line + ending for line, ending in zip(lines, cycle(endings), strict=False))
    return b"".join([*ended, last])


@st.composite
def fragments(draw: DrawFn, text: str) -> list[str]:
    """Split a text into fragments that are not empty."""
    boundaries = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=4))})
    return [text[start:end] for start, end in pairwise(boundaries)]
