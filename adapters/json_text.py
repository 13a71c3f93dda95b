"""Checks of JSON text that is not parsed, and replacement of invalid characters."""

import re

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
