"""Takes what we sealed out of a request that otherwise passes as it is.

A client may go on with another backend in the middle of a conversation. What was sealed for the
first is nothing to the second, which may refuse what it does not know (P081). All else keeps its
spelling.
"""

import msgspec
from msgspec import Raw

from adapters.json_text import DECODE_ERRORS
from adapters.reasoning.sealed import CARRIER

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()
NOT_FOR_THIS = "what was sealed for another backend is left out"

# Where a Responses client carries it.
_ENCRYPTED = "encrypted_content"


def strip_sealed(body: bytes, prefix: str) -> bytes:
    """Give a body without what begins with the prefix, in the places where clients carry it."""
    stripping = _Stripping(prefix.encode())
    try:
        stripped = stripping.strip(body)
    except DECODE_ERRORS:
        # Its own server will say what is wrong with it.
        return body
    return stripped if stripped and stripping.found else body


class _Stripping:
    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._spelled = b'"' + prefix
        # Whether there was any: a text may tell of seals, too.
        self.found = False

    def strip(self, raw: bytes) -> bytes | None:
        """Give a value without seals; None if it is nothing without."""
        if self._prefix not in raw:
            return raw
        start = raw.lstrip()[:1]
        if start == b"{":
            return self._strip_object(raw)
        return self._strip_list(raw) if start == b"[" else raw

    def _strip_list(self, raw: bytes) -> bytes:
        stripped = (self.strip(bytes(one)) for one in _LIST.decode(raw))
        return _ENCODER.encode([Raw(one) for one in stripped if one is not None])

    def _strip_object(self, raw: bytes) -> bytes | None:
        kept: dict[str, Raw] = {}
        for name, inner in _OBJECT.decode(raw).items():
            value = bytes(inner)
            if name == _ENCRYPTED and value.startswith(self._spelled):
                # The item is ours, and so is its id.
                self.found = True
                return None
            carried = name == CARRIER and self._prefix in value
            stripped = self._strip_carried(value) if carried else self.strip(value)
            if stripped is not None:
                kept[name] = Raw(stripped)
        return _ENCODER.encode(kept)

    def _strip_carried(self, raw: bytes) -> bytes | None:
        """Leave what others put into the field."""
        self.found = True
        kept = {
            name: value
            for name, value in _OBJECT.decode(raw).items()
            if self._prefix not in bytes(value)
        }
        return _ENCODER.encode(kept) if kept else None
