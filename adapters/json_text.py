"""Whether a text is a whole JSON value yet. It is looked at, never parsed and never mended."""

import re

import msgspec
from msgspec import Raw

# All that decoding raises: the last for text that is not UTF-8.
DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

_RAW = msgspec.json.Decoder(Raw)


def is_complete_json(text: str | bytes) -> bool:
    """Tell whether the text is one whole object or list: nothing can follow it but space.

    Other values do not tell: `12` may be on its way to `123`.
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
    """Tell whether some bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# Half of a surrogate pair, as an escape; the other half is not beside it.
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def replace_invalid_text(data: bytes) -> bytes:
    """Replace what is no text, bytes that are not UTF-8 and halves of characters, by U+FFFD.

    So the standard for server-sent events has it: one broken character does not break a stream.
    """
    text = data.decode("utf-8", "replace").encode()
    return _LONE_SURROGATE.sub(rb"\1\\ufffd", text)
