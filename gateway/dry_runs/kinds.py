"""Tells what a body is, where nobody said: a request, a reply, an error or a stream."""

from typing import Literal

import msgspec
from msgspec import Raw, Struct

Kind = Literal["request", "reply", "stream", "error"]

# A file saved on Windows may begin with it. The stream readers skip it themselves.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
# So much of the beginning tells a stream from JSON.
ENOUGH = max(map(len, _FIELDS))

_ABSENT = Raw()
_NULL = Raw(b"null")


class Outline(Struct):
    """The fields by which bodies are told apart; the rest is not looked at."""

    model: Raw = _ABSENT
    choices: Raw = _ABSENT
    object: Raw = _ABSENT
    error: Raw = _ABSENT


_OUTLINE = msgspec.json.Decoder(Outline)


def outline(body: bytes) -> Outline:
    """Look over a body. One that cannot be read has no features: its reader says what is wrong."""
    try:
        return _OUTLINE.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return Outline()


def is_stream(head: bytes) -> bool:
    """Tell by its beginning whether something is a stream of server-sent events."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(_FIELDS)


def detect_kind(seen: Outline, otherwise: Kind) -> Kind:
    """Tell what a JSON body is."""
    if seen.choices or seen.object == Raw(b'"response"'):
        return "reply"
    if seen.error and seen.error != _NULL:
        return "error"
    return otherwise
