"""Fixed fields that are added to the requests of a backend."""

from collections.abc import Mapping
from typing import cast

import msgspec
from msgspec import Raw

from adapters.losses import Losses
from adapters.wire.json_object import Object

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ENCODER = msgspec.json.Encoder()


def add_extra_body(body: bytes, extra: Mapping[str, object], losses: Losses) -> bytes:
    """Return a request with additional fields; fields that it has are not replaced.

    An object that both have gets the fields that it lacks.
    """
    fields = _OBJECT.decode(body)
    changes = missing_fields(fields, extra, losses)
    return _ENCODER.encode(fields | changes) if changes else body


def missing_fields(
    fields: Object, extra: Mapping[str, object], losses: Losses, path: str = "extra_body"
) -> dict[str, object]:
    """Return the fields to set in an object, so that it has the additional fields, too."""
    changes: dict[str, object] = {}
    for name, value in extra.items():
        where = f"{path}.{name}"
        given = fields.get(name)
        if given is None:
            losses.invented(where, "added by the configuration of the backend", "adapted")
            changes[name] = value
        elif isinstance(value, dict) and bytes(given).startswith(b"{"):
            inner = _OBJECT.decode(given)
            added = missing_fields(inner, cast("dict[str, object]", value), losses, where)
            if added:
                changes[name] = {**inner, **added}
        else:
            losses.dropped(where, "the request already has this field", "adapted")
    return changes
