"""Metadata that clients give to what they keep: a few short texts with names."""

from typing import Final

import msgspec
from msgspec import Raw

from adapters import InvalidRequestError
from adapters.wire.json_object import MISSING, JsonObject, decode, is_present

_MOST_PAIRS: Final = 16
_LONGEST_NAME: Final = 64
_LONGEST_VALUE: Final = 512

_METADATA: Final = msgspec.json.Decoder(dict[str, str])


def read_metadata(raw: Raw = MISSING, path: str = "metadata") -> dict[str, str]:
    """Read metadata; raise `InvalidInput` if it is not what OpenAI takes."""
    if not is_present(raw):
        return {}
    return check_metadata(decode(raw, _METADATA, path), path)


def check_metadata(metadata: dict[str, str], path: str = "metadata") -> dict[str, str]:
    """Give metadata back if it is within the limits; raise `InvalidInput` otherwise."""
    if len(metadata) > _MOST_PAIRS:
        raise InvalidRequestError(path, f"{len(metadata)} pairs are more than {_MOST_PAIRS}")
    for name, value in metadata.items():
        if len(name) > _LONGEST_NAME:
            why = f"the name {name[:_LONGEST_NAME]!r}… has more than {_LONGEST_NAME} characters"
            raise InvalidRequestError(path, why)
        if len(value) > _LONGEST_VALUE:
            why = f"the value has more than {_LONGEST_VALUE} characters"
            raise InvalidRequestError(f"{path}.{name}", why)
    return metadata


def take_new_metadata(asked: JsonObject) -> dict[str, str]:
    """Take the metadata of something that is there already; nothing else of it can be changed."""
    if not asked.count():
        raise InvalidRequestError("metadata", "it is missing")
    metadata = read_metadata(asked.raw("metadata") or MISSING)
    refuse_others(asked)
    return metadata


def refuse_others(asked: JsonObject) -> None:
    """Refuse what nobody has read: it would be lost unseen."""
    for name, _ in asked.take_remaining():
        raise InvalidRequestError(name, "this parameter is not known here")
