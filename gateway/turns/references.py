"""Items of a request that only refer to others, which the memory knows."""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import is_present

REFERENCE: Final = "item_reference"
_ID: Final = "id"
_TYPE: Final = "type"
# Those that are longer say something themselves, and need not be looked into.
_LONGEST: Final = 1024
_SIGN: Final = b'"id"'
# How an object ends that is just an id. Clients that carry a whole conversation send hundreds of
# items, and mostly none of those: to look into each would cost more than to read the request.
_BARE: Final = re.compile(rb'"id"\s*:\s*"[^"]*"\s*(?:,\s*"type"\s*:\s*null\s*)?\}')


class _Reference(Struct):
    id: str
    type: str | None = None


_READ: Final = msgspec.json.Decoder(_Reference)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: Final = msgspec.json.Decoder(list[Raw])


def read_reference(raw: Raw) -> str | None:
    """Give the id that an item refers to; None if it says anything itself.

    The SDK leaves the type out, and the specification lets it be null: then it is just an id.
    """
    spelled = bytes(raw)
    if _SIGN not in spelled or len(spelled) > _LONGEST:
        return None
    try:
        seen = _READ.decode(raw)
        said = {name for name, value in _OBJECT.decode(raw).items() if is_present(value)}
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return None
    refers = seen.type == REFERENCE if _TYPE in said else said == {_ID}
    return seen.id if refers else None


def has_bare_reference(given: Raw) -> bool:
    """Tell whether an item of an input is just an id."""
    if _BARE.search(bytes(given)) is None:
        return False
    try:
        items = _ITEMS.decode(given)
    except DECODE_ERRORS:
        return False
    return any(read_reference(item) is not None for item in items)
