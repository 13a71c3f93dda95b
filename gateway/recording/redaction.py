"""Redaction of the bodies of a recording.

A secret is replaced by a marker such as `[redacted:1]`, which has the same number wherever the
secret occurs in the recording. Only the strings that contain secrets are written again; all other
bytes stay as they are. The text of a stream is searched as a whole, because a secret may extend
over several of its events.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, cast

import msgspec
from msgspec import Struct

from adapters.json_text import DECODE_ERRORS
from adapters.sse import is_stream
from adapters.wire.json_object import Json
from gateway.recording.secrets import Occurrence, SecretFinder

# A marker of a redacted value.
MARKER: Final = re.compile(r"\[redacted:\d+\]")

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LINE = re.compile(r"[^\r\n]+")
_DATA = re.compile(r"data: ?")
# The bytes of a token, beside its text.
_TOKEN_BYTES = re.compile(r'(?<="bytes":)\s*\[[\d,\s]*\]')
_JSON: msgspec.json.Decoder[Json] = msgspec.json.Decoder()
# The fields that distinguish the blocks of a stream whose events are not nested.
_BLOCK_FIELDS: Final = ("type", "output_index", "content_index", "summary_index")
_ENCODING: Final = ("utf-8", "surrogateescape")
# Enough characters to recognize a stream.
_SNIFFED: Final = 64

# Between texts that are searched together.
_SEPARATOR: Final = "\0"

Path = tuple[object, ...]


class _Text(Struct, frozen=True):
    """A string in a body."""

    start: int
    end: int
    value: str
    # Whether it is a string of JSON with its quotes.
    quoted: bool


class _Edit(Struct, frozen=True):
    start: int
    end: int
    replacement: str


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
        text = data.decode(*_ENCODING)
        groups = [*_group_texts(text)]
        if not self._finder.may_find(_SEPARATOR.join([text, *map(_join, groups)])):
            return RedactedBody(data, tuple(cuts))
        edits = sorted(chain.from_iterable(map(self._edits, groups)), key=lambda edit: edit.start)
        if edits:
            edits = _merge_token_bytes(text, edits)
        redacted = _apply(text, edits)
        if not self._is_clean(text, redacted):
            return None
        return RedactedBody(redacted.encode(*_ENCODING), _move(cuts, text, edits))

    def redact_text(self, text: str) -> str:
        """Redact a text that is not part of a body."""
        [redacted] = self._redact_joined([text])
        return redacted

    def _edits(self, group: Sequence[_Text]) -> Iterator[_Edit]:
        redacted = self._redact_joined([one.value for one in group])
        for one, value in zip(group, redacted, strict=True):
            if value != one.value:
                yield _Edit(one.start, one.end, _quote(value) if one.quoted else value)

    def _redact_joined(self, values: Sequence[str]) -> list[str]:
        """Redact the parts of a text; the marker is in the part in which the secret begins."""
        found = self._finder.find("".join(values))
        if not found:
            return [*values]
        markers = [self._mark(one.secret) for one in found]
        redacted: list[str] = []
        start = 0
        for value in values:
            redacted.append(_redact_part(value, start, found, markers))
            start += len(value)
        return redacted

    def _mark(self, secret: str) -> str:
        self.count += 1
        return f"[redacted:{self._numbers.setdefault(secret, len(self._numbers) + 1)}]"

    def _is_clean(self, text: str, redacted: str) -> bool:
        """Whether a redacted text has no secret, and is JSON if it was before."""
        joined = (redacted, *map(_join, _group_texts(redacted)))
        return not any(map(self._finder.find, joined)) and _is_json(text) <= _is_json(redacted)


def _join(group: Iterable[_Text]) -> str:
    return "".join([one.value for one in group])


def _redact_part(
    value: str, start: int, found: Sequence[Occurrence], markers: Sequence[str]
) -> str:
    """Return the part of a text that begins at `start`."""
    pieces: list[str] = []
    place, end = start, start + len(value)
    for one, marker in zip(found, markers, strict=True):
        if one.end <= start or one.start >= end:
            continue
        pieces.append(value[place - start : max(one.start - start, 0)])
        if one.start >= start:
            pieces.append(marker)
        place = one.end
    pieces.append(value[max(place - start, 0) :])
    return "".join(pieces)


def _unquote(text: str) -> str:
    return cast("str", json.loads(text, strict=False)) if "\\" in text else text[1:-1]


def _quote(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


# Strings of a body, in groups that form one text


def _group_texts(text: str) -> Iterator[list[_Text]]:
    groups: dict[object, list[_Text]] = {}
    for key, one in (
        _stream_texts(text) if is_stream(text[:_SNIFFED].encode(*_ENCODING)) else _texts(text, 0)
    ):
        groups.setdefault(one.start if key is None else key, []).append(one)
    yield from groups.values()


_Keyed = Iterator[tuple[Path | None, _Text]]


def _stream_texts(text: str) -> _Keyed:
    for line in _LINE.finditer(text):
        data = _DATA.match(text, *line.span())
        if data is None:
            yield None, _Text(*line.span(), line.group(), quoted=False)
        else:
            yield from _texts(text[data.end() : line.end()], data.end())


def _texts(text: str, offset: int) -> _Keyed:
    """Yield the strings of JSON with their paths, or a text of another form."""
    strings = [*_STRING.finditer(text)]
    try:
        value = _JSON.decode(text)
        paths = [*_walk(value, _block(value))]
        values = [_unquote(one.group()) for one in strings]
    except (*DECODE_ERRORS, ValueError):
        paths, values = [], []
    if not values:
        yield (), _Text(offset, offset + len(text), text, quoted=False)
        return
    if len(paths) != len(values):
        # Fields are repeated, which a decoder drops.
        paths = [None] * len(values)
    for path, one, decoded in zip(paths, strings, values, strict=True):
        yield path, _Text(offset + one.start(), offset + one.end(), decoded, quoted=True)


def _block(value: Json) -> Path:
    if not isinstance(value, dict):
        return ()
    return tuple(one for one in map(value.get, _BLOCK_FIELDS) if isinstance(one, str | int))


def _walk(value: Json, path: Path) -> Iterator[Path | None]:
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


def _is_json(text: str) -> bool:
    try:
        _JSON.decode(text)
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return False
    return True


# Edits


def _merge_token_bytes(text: str, edits: list[_Edit]) -> list[_Edit]:
    """Add edits that remove the bytes of tokens, which show secrets as numbers."""
    tokens = [_Edit(*match.span(), "null") for match in _TOKEN_BYTES.finditer(text)]
    return sorted([*edits, *tokens], key=lambda edit: edit.start)


def _apply(text: str, edits: Sequence[_Edit]) -> str:
    pieces: list[str] = []
    place = 0
    for edit in edits:
        pieces += (text[place : edit.start], edit.replacement)
        place = edit.end
    return "".join([*pieces, text[place:]])


def _move(cuts: Sequence[int], text: str, edits: Sequence[_Edit]) -> tuple[int, ...]:
    """Return where the offsets are after the edits; inside of an edit, it is its end."""
    moved: list[int] = []
    remaining = iter(
        [(*_byte_span(text, edit), len(edit.replacement.encode(*_ENCODING))) for edit in edits]
    )
    current = next(remaining, None)
    shift = 0
    for cut in cuts:
        while current is not None and current[1] <= cut:
            shift += current[2] - (current[1] - current[0])
            current = next(remaining, None)
        if current is not None and current[0] < cut:
            moved.append(current[0] + shift + current[2])
        else:
            moved.append(cut + shift)
    return tuple(moved)


def _byte_span(text: str, edit: _Edit) -> tuple[int, int]:
    start = len(text[: edit.start].encode(*_ENCODING))
    return start, start + len(text[edit.start : edit.end].encode(*_ENCODING))
