"""Input files: JSON Lines, a JSON array or one JSON value, compressed or not.

Records are read in batches of limited size, so that a file may be larger than the memory.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, count
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
_ZSTD_READ_BYTES: Final = 512
# A batch has many records, so that passing it to another process costs little.
_BATCH_BYTES: Final = 512 * 1024
_WHITESPACE: Final = b" \t\r\n"


class Place(Struct, frozen=True, omit_defaults=True):
    """The place of a record in its file."""

    line: int
    # The number of an element of an array, from 1.
    record: int | None = None

    def __str__(self) -> str:
        element = "" if self.record is None else f", record {self.record}"
        return f"line {self.line}{element}"


class Batch(Struct, frozen=True):
    """Neighboring records, with the number of the first one: of its line, or its place from 1."""

    first: int
    records: list[bytes]
    # The lines in which the elements of an array begin.
    lines: list[int] | None = None

    def places(self) -> Iterator[Place]:
        """Yield the places of the records."""
        if self.lines is None:
            yield from map(Place, count(self.first))
        else:
            yield from map(Place, self.lines, count(self.first))


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
        # The beginning of the file, which was read to detect its form.
        self._kept: list[bytes] = []
        self.form: Form = self._detect(name)

    @property
    def position(self) -> int:
        """The number of bytes that were read, before decompression."""
        return self._reader.position

    def batches(self) -> Iterator[Batch]:
        """Yield all records in batches."""
        chunks = chain(self._kept, self._chunks)
        match self.form:
            case "lines":
                return _read_lines(chunks)
            case "array":
                return _read_array(chunks)
            case "value":
                return iter([Batch(1, [b"".join(chunks).strip(_WHITESPACE)])])

    def _detect(self, name: str) -> Form:
        beginning = next((chunk for chunk in self._keep() if chunk.strip(_WHITESPACE)), b"")
        if _has_lines_suffix(name):
            return "lines"
        is_array = beginning.lstrip(_WHITESPACE).startswith(b"[")
        return self._detect_array() if is_array else self._detect_lines()

    def _detect_array(self) -> Form:
        """Return "value" for a list of messages, which are converted together."""
        batch = next(_read_array(chain(self._kept, self._keep())), None)
        is_whole = batch is not None and _is_part_of_a_record(batch.records[0])
        return "value" if is_whole else "array"

    def _detect_lines(self) -> Form:
        """Return "lines" if the first line is complete."""
        for chunk in chain(self._kept, self._keep()):
            if b"\n" in chunk.lstrip(_WHITESPACE):
                break
        first = b"".join(self._kept).lstrip(_WHITESPACE).partition(b"\n")[0]
        return "lines" if is_complete_json(first.decode(errors="replace")) else "value"

    def _keep(self) -> Iterator[bytes]:
        """Yield further chunks, which are kept to be read again."""
        for chunk in self._chunks:
            kept = chunk if self._kept else chunk.removeprefix(BYTE_ORDER_MARK)
            self._kept.append(kept)
            yield kept


def _has_lines_suffix(name: str) -> bool:
    path = PurePath(name)
    if path.suffix in (GZIP_SUFFIX, ZSTD_SUFFIX):
        path = path.with_suffix("")
    return path.suffix.lower() in _LINES_SUFFIXES


class _Element(Struct, frozen=True):
    role: Raw = Raw()
    object: str = ""


def _is_part_of_a_record(element: bytes) -> bool:
    """Whether an element of an array is a message, or an object of a thread."""
    try:
        found = msgspec.json.decode(element, type=_Element)
    except msgspec.DecodeError:
        return False
    return bool(found.role) or found.object.startswith("thread")


def _decompressed(reader: _CountingReader) -> Iterator[bytes]:
    """Yield the content of a file, decompressed if it begins as a compressed one."""
    head = reader.read(_READ_BYTES)
    source = cast("BinaryIO", _Rest(head, reader))
    try:
        if head.startswith(_ZSTD_MAGIC):
            yield from _zstd_chunks(source)
        else:
            is_gzip = head.startswith(_GZIP_MAGIC)
            stream = cast("BinaryIO", gzip.GzipFile(fileobj=source)) if is_gzip else source
            while chunk := stream.read(_READ_BYTES):
                yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise InvalidRequestError(None, f"the input cannot be decompressed: {error}") from None


def _zstd_chunks(source: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all frames; the stream reader of the library ignores a missing end."""
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    parts, size = list[bytes](), 0
    # Little is read at once, because the size of its content has no other limit.
    while data := source.read(_ZSTD_READ_BYTES):
        while data:
            if frame.eof:
                frame = decompressor.decompressobj()
            parts.append(frame.decompress(data))
            size += len(parts[-1])
            data = frame.unused_data
        if size >= _READ_BYTES:
            yield from _slices(b"".join(parts))
            parts, size = [], 0
    if not frame.eof:
        raise EOFError("the file ended before the end of its last frame")
    if size:
        yield b"".join(parts)


def _slices(data: bytes) -> Iterator[bytes]:
    """Yield data in pieces; repeated text is compressed so well that there may be much of it."""
    return (data[at : at + _READ_BYTES] for at in range(0, len(data), _READ_BYTES))


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

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PLAIN = rb'[^"\[\]{}]++'
_FLAT_OBJECT = rb"\{(?:%b|%b)*+\}" % (_PLAIN, _STRING)
# The next bracket; objects without inner brackets are skipped, as each match costs time.
_BRACKET = re.compile(rb"(?:%b|%b|%b)*+([\[\]{}])" % (_PLAIN, _STRING, _FLAT_OBJECT), re.DOTALL)
# The next bracket or comma between two elements.
_BOUNDARY = re.compile(rb'(?:[^"\[\]{},]++|%b)*+([\[\]{},])' % _STRING, re.DOTALL)
_OPENING = b"[{"


class _ArraySplitter:
    """Splits the text of an array into its elements."""

    def __init__(self) -> None:
        self._buffer = b""
        # The beginning of the current element, and how far the buffer was read.
        self._start = self._position = 0
        self._depth = 0
        # The line of the text after the last element.
        self._line = 1
        self.ended = False

    @property
    def held(self) -> int:
        """The size of the incomplete element at the end."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the elements that are complete, and the lines in which they begin."""
        self._buffer = self._buffer[self._start :] + data
        self._position -= self._start
        self._start = 0
        elements: list[tuple[int, bytes]] = []
        while not self.ended:
            pattern = _BOUNDARY if self._depth == 1 else _BRACKET
            token = pattern.match(self._buffer, self._position)
            if token is None:
                # The rest of a string or of an element has not been read.
                return elements
            self._position = token.end()
            if self._ends_element(token[1]):
                elements += self._take(is_followed=token[1] == b",")
        if self._buffer[self._position :].strip(_WHITESPACE):
            raise InvalidRequestError(None, "the array is followed by other text")
        self._start = self._position = len(self._buffer)
        return elements

    def _ends_element(self, token: bytes) -> bool:
        """Whether a bracket or a comma ends an element of the array."""
        if token in _OPENING:
            self._depth += 1
            if self._depth == 1:
                self._start = self._position
            return False
        if token != b",":
            self._depth -= 1
        self.ended = self._depth == 0
        return self.ended or token == b","

    def _take(self, *, is_followed: bool) -> Iterator[tuple[int, bytes]]:
        """Yield the element before the current position; an array may have none before its end."""
        text = self._buffer[self._start : self._position - 1]
        element = text.lstrip(_WHITESPACE)
        line = self._line + text.count(b"\n", 0, len(text) - len(element))
        self._line += text.count(b"\n")
        self._start = self._position
        if element or is_followed:
            yield line, element.rstrip(_WHITESPACE)


def _read_array(chunks: Iterator[bytes]) -> Iterator[Batch]:
    """Yield batches of the elements of an array."""
    splitter = _ArraySplitter()
    first, unread = 1, list[bytes]()
    found, size = list[tuple[int, bytes]](), 0
    for chunk in chunks:
        unread.append(chunk)
        # A long element is read in ever larger pieces, because its beginning is read again.
        if sum(map(len, unread)) * 2 < splitter.held:
            continue
        new = splitter.feed(b"".join(unread))
        unread.clear()
        found += new
        size += sum(len(element) for _, element in new)
        if size >= _BATCH_BYTES:
            yield _array_batch(first, found)
            first, found, size = first + len(found), [], 0
    found += splitter.feed(b"".join(unread))
    if found:
        yield _array_batch(first, found)
    if not splitter.ended:
        raise InvalidRequestError(None, "the array has no end; the file may be truncated")


def _array_batch(first: int, found: Sequence[tuple[int, bytes]]) -> Batch:
    return Batch(first, [element for _, element in found], [line for line, _ in found])
