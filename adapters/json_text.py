"""Checks of JSON text that is not parsed, and replacement of invalid characters."""

import re
from typing import Literal

import msgspec
from msgspec import Raw

# All errors of decoding; the last one is for text that is not UTF-8.
DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

_RAW = msgspec.json.Decoder(Raw)

# The escape of one half of a surrogate pair, without the other half next to it.
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def is_complete_json(text: str | bytes) -> bool:
    """Whether the text is one complete object or array, which cannot continue.

    Other values may be incomplete: `12` may become `123`.
    """
    stripped = text.strip()
    if stripped[-1:] not in ("}", "]", b"}", b"]") or stripped[:1] not in ("{", "[", b"{", b"["):
        return False
    try:
        _RAW.decode(text)
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return False
    return True


# Characters that begin or end a string, an object or an array, and those that matter in a string.
_STRUCTURE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')


class JsonCompleteness:
    """Checks whether a growing list of fragments is one complete object or array.

    `is_complete()` is always the same as `is_complete_json("".join(fragments))`, but each fragment
    is scanned only once, and all of them are parsed only once.
    """

    __slots__ = ("_depth", "_escaped", "_fragments", "_in_string", "_scanned", "_state")

    def __init__(self, fragments: list[str]) -> None:
        self._fragments = fragments
        # The number of fragments that were scanned.
        self._scanned = 0
        # The number of open objects and arrays.
        self._depth = 0
        self._in_string = False
        # Whether the next character belongs to an escape.
        self._escaped = False
        # "ended": the outermost value ended, but was not parsed; "invalid": it cannot be complete.
        self._state: Literal["open", "ended", "complete", "invalid"] = "open"

    def is_complete(self) -> bool:
        """Whether the fragments so far are a complete value, which cannot continue."""
        fragments = self._fragments
        while self._scanned < len(fragments) and self._state != "invalid":
            self._scan(fragments[self._scanned])
            self._scanned += 1
        if self._state == "ended":
            self._state = "complete" if is_complete_json("".join(fragments)) else "invalid"
        return self._state == "complete"

    def _scan(self, text: str) -> None:
        position = 0
        if self._escaped and text:
            self._escaped = False
            position = 1
        while self._state == "open":
            match = (_IN_STRING if self._in_string else _STRUCTURE).search(text, position)
            if match is None:
                return
            position = match.end()
            match match.group():
                case "{" | "[":
                    self._depth += 1
                case "}" | "]":
                    self._depth -= 1
                    if self._depth <= 0:
                        self._state = "ended"
                case '"':
                    self._in_string = not self._in_string
                case _:
                    self._escaped = position == len(text)
                    position += 1
        if text[position:].strip():
            # There is text after the end of the value.
            self._state = "invalid"


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def replace_invalid_text(data: bytes) -> bytes:
    """Replace bytes that are not UTF-8, and lone surrogates in escapes, with U+FFFD.

    The standard for server-sent events requires this, so that a broken character ends no stream.
    """
    return _LONE_SURROGATE.sub(rb"\1\\ufffd", data.decode("utf-8", "replace").encode())
