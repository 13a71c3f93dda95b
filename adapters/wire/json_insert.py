"""Insertion of fields into JSON that is otherwise forwarded byte for byte."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.wire.json_object import NULL

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_LIST: Final = msgspec.json.Decoder(list[Raw])
_ENCODER: Final = msgspec.json.Encoder()
# What may be before a value: in a list, and in an object, with its name.
_BEFORE_ELEMENT: Final = re.compile(rb"[\s,\[]*")
_BEFORE_FIELD: Final = re.compile(rb'[\s,{]*"(?:[^"\\]|\\.)*"\s*:\s*')
_STEP: Final = re.compile(r"[^.\[\]]+")


class Insertion(Struct):
    """The fields to insert into an object, and the insertions into values by name or index."""

    fields: dict[str, Raw] = {}
    inner: dict[str, "Insertion"] = {}

    def at(self, path: str) -> "Insertion":
        """Return the insertion at a path such as `messages[1]`; create it if necessary."""
        found = self
        for step in _STEP.findall(path):
            found = found.inner.setdefault(step, Insertion())
        return found


def insert_fields(raw: bytes, insertion: Insertion) -> bytes:
    """Return JSON with the fields inserted; all other bytes are unchanged.

    An object that has such a field as null, or any field twice, is encoded again. A field that has
    a value keeps it, and a path that does not exist is ignored.
    """
    is_list = raw.lstrip()[:1] == b"["
    if is_list:
        values = {str(index): value for index, value in enumerate(_LIST.decode(raw))}
    else:
        values = _OBJECT.decode(raw)
    changed = {
        name: insert_fields(bytes(values[name]), inner)
        for name, inner in insertion.inner.items()
        if name in values
    }
    repeated = insertion.fields.keys() & values.keys()
    before = _BEFORE_ELEMENT if is_list else _BEFORE_FIELD
    spliced = None if repeated else _splice(raw, values, changed, before)
    if spliced is None:
        merged = {name: Raw(changed.get(name, bytes(value))) for name, value in values.items()}
        absent = {n: v for n, v in insertion.fields.items() if merged.get(n, NULL) == NULL}
        return _ENCODER.encode([*merged.values()] if is_list else merged | absent)
    if is_list or not insertion.fields:
        return spliced
    end = spliced.rindex(b"}")
    added = _ENCODER.encode(insertion.fields)[1:-1]
    return b"".join((spliced[:end], b"," if values else b"", added, spliced[end:]))


def _splice(
    raw: bytes, values: Mapping[str, Raw], changed: Mapping[str, bytes], before: re.Pattern[bytes]
) -> bytes | None:
    """Return JSON with some of its values replaced; None if a name occurs twice."""
    parts: list[bytes] = []
    end = 0
    for name, value in values.items():
        match, old = before.match(raw, end), bytes(value)
        if match is None or not raw.startswith(old, match.end()):
            return None
        parts += (raw[end : match.end()], changed.get(name, old))
        end = match.end() + len(old)
    rest = raw[end:]
    return None if b'"' in rest else b"".join((*parts, rest))
