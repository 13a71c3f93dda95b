"""Input files: JSON Lines, a JSON array or one JSON value, compressed or not.

Records are read in batches of limited size, so that a file may be larger than the memory.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePath
from typing import BinaryIO, Final, Literal, cast

import msgspec
import zstandard
from msgspec import Raw, Struct

from adapters import InvalidRequestError
from adapters.json_text import is_complete_json
from adapters.sse import BYTE_ORDER_MARK

# "value": the file is one record.
Form = Literal["lines", "array", "value"]

GZIP_SUFFIX: Final = ".gz"
ZSTD_SUFFIX: Final = ".zst"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_LINES_SUFFIXES: Final = frozenset((".jsonl", ".ndjson"))
_READ_BYTES: Final = 256 * 1024
# A batch has many records, so that passing it to another process costs little.
_BATCH_BYTES: Final = 512 * 1024
_WHITESPACE: Final = b" \t\r\n"


class Batch(Struct, frozen=True):
    """Neighboring records, with the number of the first one: of its line, or its place from 1."""

    first: int
    records: list[bytes]


class _CountingReader:
    """Counts the bytes that are read from a file."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.position = 0

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.position += len(data)
        return data


class Input:
    """An input file, whose compression and form are detected."""

    def __init__(self, source: BinaryIO, name: str) -> None:
        """Read the beginning of a file; its name may have a suffix of JSON Lines."""
        self._reader = _CountingReader(source)
        self._chunks = _decompressed(self._reader)
        self._head = b""
        self.form: Form = self._detect(name)

    @property
    def position(self) -> int:
        """The number of bytes that were read, before decompression."""
        return self._reader.position

    def batches(self) -> Iterator[Batch]:
        """Yield all records in batches."""
        chunks = chain((self._head,), self._chunks)
        match self.form:
            case "lines":
                return _read_lines(chunks)
            case "array":
                return _read_array(chunks)
            case "value":
                return iter([Batch(1, [b"".join(chunks).strip(_WHITESPACE)])])

    def _detect(self, name: str) -> Form:
        while not self._head.strip(_WHITESPACE) and (chunk := next(self._chunks, b"")):
            self._head = (self._head + chunk).removeprefix(BYTE_ORDER_MARK)
        if _has_lines_suffix(name):
            return "lines"
        return self._detect_array() if self._starts_with(b"[") else self._detect_lines()

    def _starts_with(self, character: bytes) -> bool:
        return self._head.lstrip(_WHITESPACE).startswith(character)

    def _detect_array(self) -> Form:
        """Return "value" for a list of messages, which are converted together."""
        batch = next(_read_array(self._read_ahead()), None)
        first = _fields(batch.records[0]) if batch is not None else frozenset[str]()
        is_whole = "role" in first or "object" in first
        return "value" if is_whole else "array"

    def _detect_lines(self) -> Form:
        """Return "lines" if the first line is complete."""
        while b"\n" not in self._head and (chunk := next(self._chunks, b"")):
            self._head += chunk
        first = self._head.lstrip(_WHITESPACE).partition(b"\n")[0]
        return "lines" if is_complete_json(first.decode(errors="replace")) else "value"

    def _read_ahead(self) -> Iterator[bytes]:
        """Yield chunks, which are kept to be read again."""
        yield self._head
        for chunk in self._chunks:
            self._head += chunk
            yield chunk


def _has_lines_suffix(name: str) -> bool:
    path = PurePath(name)
    if path.suffix in (GZIP_SUFFIX, ZSTD_SUFFIX):
        path = path.with_suffix("")
    return path.suffix.lower() in _LINES_SUFFIXES


def _fields(record: bytes) -> frozenset[str]:
    try:
        return frozenset(msgspec.json.decode(record, type=dict[str, Raw]))
    except msgspec.DecodeError:
        return frozenset()


def _decompressed(reader: _CountingReader) -> Iterator[bytes]:
    """Yield the content of a file, decompressed if it begins as a compressed one."""
    head = reader.read(_READ_BYTES)
    if head.startswith(_GZIP_MAGIC):
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=cast("BinaryIO", _Rest(head, reader))))
    elif head.startswith(_ZSTD_MAGIC):
        stream = zstandard.ZstdDecompressor().stream_reader(
            cast("BinaryIO", _Rest(head, reader)), read_across_frames=True
        )
    else:
        stream = cast("BinaryIO", _Rest(head, reader))
    try:
        while chunk := stream.read(_READ_BYTES):
            yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise InvalidRequestError(None, f"the input cannot be decompressed: {error}") from None


class _Rest:
    """A file whose beginning was read already."""

    def __init__(self, head: bytes, reader: _CountingReader) -> None:
        self._head = head
        self._reader = reader

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._reader.read(size)
        end = len(self._head) if size < 0 else size
        taken, self._head = self._head[:end], self._head[end:]
        return taken


# JSON Lines


def _read_lines(chunks: Iterator[bytes]) -> Iterator[Batch]:
    """Yield batches of lines; a batch may have empty ones, so that the numbers are right."""
    first, parts, size = 1, list[bytes](), 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size < _BATCH_BYTES or b"\n" not in chunk:
            continue
        *lines, rest = b"".join(parts).split(b"\n")
        yield Batch(first, lines)
        first += len(lines)
        parts, size = [rest], len(rest)
    lines = b"".join(parts).split(b"\n")
    if any(lines):
        yield Batch(first, lines)


# Arrays

# A string, whose end may not have been read yet, a bracket or a comma.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("|\Z|\\\Z)|[\[{\]},]', re.DOTALL)
_OPENING = b"[{"


class _ArraySplitter:
    """Splits the text of an array into its elements."""

    def __init__(self) -> None:
        self._buffer = b""
        # The beginning of the current element, and how far the buffer was read.
        self._start = self._position = 0
        self._depth = 0
        self.ended = False

    @property
    def held(self) -> int:
        """The size of the incomplete element at the end."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> list[bytes]:
        """Return the elements that are complete."""
        self._buffer = self._buffer[self._start :] + data
        self._position -= self._start
        self._start = 0
        elements: list[bytes] = []
        for token in _TOKEN.finditer(self._buffer, self._position):
            text = token[0]
            if text.startswith(b'"'):
                if token[1] != b'"':
                    # The rest of the string has not been read.
                    self._position = token.start()
                    return elements
            elif self.ended:
                raise InvalidRequestError(None, "the array is followed by other text")
            else:
                elements += self._read(text, token.start())
            self._position = token.end()
        self._position = len(self._buffer)
        return elements

    def _read(self, text: bytes, place: int) -> list[bytes]:
        if text in _OPENING:
            self._depth += 1
            if self._depth == 1:
                self._start = place + 1
            return []
        if text != b",":
            self._depth -= 1
        if self._depth > 1 or (self._depth == 1 and text != b","):
            return []
        element = self._buffer[self._start : place].strip(_WHITESPACE)
        self._start = place + 1
        self.ended = self._depth == 0
        return [element] if element or text == b"," else []


def _read_array(chunks: Iterator[bytes]) -> Iterator[Batch]:
    """Yield batches of the elements of an array."""
    splitter = _ArraySplitter()
    first, elements, size, unread = 1, list[bytes](), 0, list[bytes]()
    for chunk in chunks:
        unread.append(chunk)
        # A long element is read in ever larger pieces, because its strings are read again.
        if sum(map(len, unread)) * 2 < splitter.held:
            continue
        found = splitter.feed(b"".join(unread))
        unread.clear()
        elements += found
        size += sum(map(len, found))
        if size >= _BATCH_BYTES:
            yield Batch(first, elements)
            first, elements, size = first + len(elements), [], 0
    elements += splitter.feed(b"".join(unread))
    if elements:
        yield Batch(first, elements)
    if not splitter.ended:
        raise InvalidRequestError(None, "the array has no end; the file may be truncated")
