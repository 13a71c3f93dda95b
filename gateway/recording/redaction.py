"""Redaction of the bodies of a recording.

A secret is replaced by a marker such as `[redacted:1]`, which has the same number wherever the
secret occurs in the recording. Only the strings that contain secrets are written again; all other
bytes stay as they are. The text of a stream is searched as a whole, because a secret may extend
over several of its events.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import AnyStr, Final, cast

import msgspec
from msgspec import Struct

from adapters.json_text import DECODE_ERRORS
from adapters.sse import is_stream
from adapters.wire.json_object import Json
from gateway.recording.secrets import SecretFinder

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LINE: Final = re.compile(rb"[^\r\n]+")
_DATA: Final = re.compile(rb"data: ?")
# The bytes of a token, beside its text.
_TOKEN_BYTES: Final = re.compile(rb'(?<="bytes":)\s*\[[\d,\s]*\]')
_JSON: Final[msgspec.json.Decoder[Json]] = msgspec.json.Decoder()
# The fields that distinguish the blocks of a stream whose events are not nested.
_BLOCK_FIELDS: Final = ("type", "output_index", "content_index", "summary_index")
_ENCODING: Final = ("utf-8", "surrogateescape")
# Between texts that are searched together.
_SEPARATOR: Final = "\0"

_Path = tuple[object, ...]


class RedactedBody(Struct, frozen=True):
    """A redacted body, and the offsets of its reads."""

    data: bytes
    cuts: tuple[int, ...] = ()


class Redactor:
    """Redacts the files of one recording."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._finder = SecretFinder(secrets)
        # The numbers of the secrets that were found.
        self._numbers: dict[str, int] = {}
        # The number of redacted values.
        self.count = 0

    def redact(self, data: bytes, cuts: Sequence[int] = ()) -> RedactedBody | None:
        """Redact a body; `cuts` are the offsets at which it was read.

        Returns None if secrets would remain, or if valid JSON would become invalid.
        """
        groups = [*_group_texts(data)]
        if not self._finder.may_find(_SEPARATOR.join([_decode(data), *map(_join, groups)])):
            return RedactedBody(data, tuple(cuts))
        edits = [edit for group in groups for edit in self._edits(group)]
        if edits:
            edits += ((*match.span(), b"null") for match in _TOKEN_BYTES.finditer(data))
        pieces, moved = _splice(data, sorted(edits), cuts)
        redacted = b"".join(pieces)
        if not self._is_clean(redacted) or _is_json(data) > _is_json(redacted):
            return None
        return RedactedBody(redacted, moved)

    def redact_text(self, text: str) -> str:
        """Redact a text that is not part of a body."""
        [redacted] = self._redact_joined([text])
        return redacted

    def _edits(self, group: Sequence["_Text"]) -> Iterator[tuple[int, int, bytes]]:
        redacted = self._redact_joined([one.value for one in group])
        for one, value in zip(group, redacted, strict=True):
            if value != one.value:
                yield one.start, one.end, _quote(value) if one.quoted else _encode(value)

    def _redact_joined(self, values: Sequence[str]) -> list[str]:
        """Redact the parts of a text; the marker is in the part in which the secret begins."""
        joined = "".join(values)
        edits = [(one.start, one.end, self._mark(one.secret)) for one in self._finder.find(joined)]
        if not edits:
            return [*values]
        pieces, ends = _splice(joined, edits, [*accumulate(map(len, values))])
        redacted = "".join(pieces)
        return [redacted[start:end] for start, end in pairwise((0, *ends))]

    def _mark(self, secret: str) -> str:
        self.count += 1
        return f"[redacted:{self._numbers.setdefault(secret, len(self._numbers) + 1)}]"

    def _is_clean(self, redacted: bytes) -> bool:
        joined = (_decode(redacted), *map(_join, _group_texts(redacted)))
        return not any(map(self._finder.find, joined))


def _splice(
    text: AnyStr, edits: Iterable[tuple[int, int, AnyStr]], cuts: Sequence[int]
) -> tuple[list[AnyStr], tuple[int, ...]]:
    """Replace parts of a text; return its pieces, and where its cuts are then.

    A cut inside of a replaced part is moved to the end of the replacement.
    """
    pieces: list[AnyStr] = []
    moved: list[int] = []
    place = shift = 0
    for start, end, replacement in edits:
        while len(moved) < len(cuts) and cuts[len(moved)] <= start:
            moved.append(cuts[len(moved)] + shift)
        shift += len(replacement) - (end - start)
        while len(moved) < len(cuts) and cuts[len(moved)] < end:
            moved.append(end + shift)
        pieces += (text[place:start], replacement)
        place = end
    pieces.append(text[place:])
    moved += [cut + shift for cut in cuts[len(moved) :]]
    return pieces, tuple(moved)


def _decode(data: bytes) -> str:
    return data.decode(*_ENCODING)


def _encode(text: str) -> bytes:
    return text.encode(*_ENCODING)


def _unquote(data: bytes) -> str:
    text = _decode(data)
    return cast("str", json.loads(text, strict=False)) if "\\" in text else text[1:-1]


def _quote(value: str) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair can only be escaped.
        return json.dumps(value).encode()


def _is_json(data: bytes) -> bool:
    try:
        _JSON.decode(data)
    except DECODE_ERRORS:
        return False
    return True


# Strings of a body, in groups that form one text


class _Text(Struct, frozen=True):
    """A string in a body."""

    start: int
    end: int
    value: str
    # Whether it is a string of JSON with its quotes.
    quoted: bool


_Keyed = Iterator[tuple[_Path | None, _Text]]


def _group_texts(data: bytes) -> Iterable[list[_Text]]:
    """Return the strings of a body; those with the same path are one group."""
    groups: dict[object, list[_Text]] = {}
    for path, one in _stream_texts(data) if is_stream(data) else _texts(data, 0):
        groups.setdefault(one.start if path is None else path, []).append(one)
    return groups.values()


def _join(group: Iterable[_Text]) -> str:
    return "".join([one.value for one in group])


def _stream_texts(data: bytes) -> _Keyed:
    for line in _LINE.finditer(data):
        field = _DATA.match(data, *line.span())
        if field is None:
            yield None, _Text(*line.span(), _decode(line.group()), quoted=False)
        else:
            yield from _texts(data[field.end() : line.end()], field.end())


def _texts(data: bytes, offset: int) -> _Keyed:
    """Yield the strings of JSON with their paths, or a text of another form."""
    strings = [*_STRING.finditer(data)]
    try:
        value = _JSON.decode(data)
        paths = [*_walk(value, _block(value))]
        values = [_unquote(one.group()) for one in strings]
    except (*DECODE_ERRORS, ValueError):
        paths, values = [], []
    if not values:
        yield (), _Text(offset, offset + len(data), _decode(data), quoted=False)
        return
    if len(paths) != len(values):
        # Fields are repeated, which a decoder drops.
        paths = [None] * len(values)
    for path, one, decoded in zip(paths, strings, values, strict=True):
        yield path, _Text(offset + one.start(), offset + one.end(), decoded, quoted=True)


def _block(value: Json) -> _Path:
    if not isinstance(value, dict):
        return ()
    return tuple(one for one in map(value.get, _BLOCK_FIELDS) if isinstance(one, str | int))


def _walk(value: Json, path: _Path) -> Iterator[_Path | None]:
    """Yield the paths of all strings in the order of the text; that of a name is None."""
    match value:
        case str():
            yield path
        case list():
            for inner in value:
                index = inner.get("index") if isinstance(inner, dict) else None
                yield from _walk(inner, (*path, index if isinstance(index, int) else "*"))
        case dict():
            for name, inner in value.items():
                yield None
                yield from _walk(inner, (*path, name))
        case _:
            return
