"""Removes what was sealed for another backend from a request that otherwise passes unchanged.

A client may continue a conversation with another backend. What was sealed for the first backend
means nothing to the second, which may reject it. Everything else keeps its spelling.
"""

import msgspec
from msgspec import Raw

from adapters.json_text import DECODE_ERRORS
from adapters.reasoning.sealed import CARRIER

NOT_FOR_THIS = "reasoning that was sealed for another backend is removed"

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()

# The field in which a Responses client carries sealed reasoning.
_ENCRYPTED = "encrypted_content"


def strip_sealed(body: bytes, prefix: str) -> bytes:
    """Return a body without sealed values, which begin with the prefix, where clients carry them.

    The very same object is returned if there are none.
    """
    if prefix.encode() not in body:
        return body
    stripper = _Stripper(prefix.encode())
    try:
        stripped = stripper.strip(body)
    except DECODE_ERRORS:
        # The backend will say what is wrong with the body.
        return body
    return stripped if stripped and stripper.found else body


class _Stripper:
    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._quoted = b'"' + prefix
        # Whether there was a sealed value: a text may contain the prefix, too.
        self.found = False

    def strip(self, raw: bytes) -> bytes | None:
        """Return a value without sealed values; None if the value itself must go."""
        if self._prefix not in raw:
            return raw
        start = raw.lstrip()[:1]
        if start == b"{":
            return self._strip_object(raw)
        return self._strip_list(raw) if start == b"[" else raw

    def _strip_list(self, raw: bytes) -> bytes:
        stripped = (self.strip(bytes(element)) for element in _LIST.decode(raw))
        return _ENCODER.encode([Raw(element) for element in stripped if element is not None])

    def _strip_object(self, raw: bytes) -> bytes | None:
        remaining: dict[str, Raw] = {}
        for name, inner in _OBJECT.decode(raw).items():
            value = bytes(inner)
            if name == _ENCRYPTED and value.startswith(self._quoted):
                # The gateway made the item, and so its id.
                self.found = True
                return None
            is_carrier = name == CARRIER and self._prefix in value
            stripped = self._strip_carrier(value) if is_carrier else self.strip(value)
            if stripped is not None:
                remaining[name] = Raw(stripped)
        return _ENCODER.encode(remaining)

    def _strip_carrier(self, raw: bytes) -> bytes | None:
        """Return the field without sealed values; others may use it too."""
        self.found = True
        remaining = {
            name: value
            for name, value in _OBJECT.decode(raw).items()
            if self._prefix not in bytes(value)
        }
        return _ENCODER.encode(remaining) if remaining else None
