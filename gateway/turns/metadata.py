"""Metadata that clients attach to stored objects."""

from typing import Final

import msgspec
from msgspec import Raw

from adapters import InvalidRequestError
from adapters.errors import missing_field
from adapters.wire.json_object import MISSING, JsonObject, decode, is_present

_MAX_PAIRS: Final = 16
_MAX_NAME_LENGTH: Final = 64
_MAX_VALUE_LENGTH: Final = 512

_METADATA: Final = msgspec.json.Decoder(dict[str, str])


def read_metadata(raw: Raw = MISSING, path: str = "metadata") -> dict[str, str]:
    """Read metadata; raise `InvalidRequestError` if OpenAI would not accept it."""
    if not is_present(raw):
        return {}
    return check_metadata(decode(raw, _METADATA, path), path)


def check_metadata(metadata: dict[str, str], path: str = "metadata") -> dict[str, str]:
    """Return metadata that is within the limits; raise `InvalidRequestError` otherwise."""
    if len(metadata) > _MAX_PAIRS:
        raise InvalidRequestError(path, f"must have at most {_MAX_PAIRS} pairs")
    for name, value in metadata.items():
        if len(name) > _MAX_NAME_LENGTH:
            shown = f"{name[:_MAX_NAME_LENGTH]!r}…"
            message = f"the name {shown} has more than {_MAX_NAME_LENGTH} characters"
            raise InvalidRequestError(path, message)
        if len(value) > _MAX_VALUE_LENGTH:
            message = f"must have at most {_MAX_VALUE_LENGTH} characters"
            raise InvalidRequestError(f"{path}.{name}", message)
    return metadata


def read_metadata_update(fields: JsonObject) -> dict[str, str]:
    """Read a request that replaces the metadata of an object, and nothing else."""
    if not fields.count():
        raise missing_field("metadata")
    metadata = read_metadata(fields.raw("metadata") or MISSING)
    reject_unknown_fields(fields)
    return metadata


def reject_unknown_fields(fields: JsonObject) -> None:
    """Raise `InvalidRequestError` for a field that was not read, because it would be lost."""
    for name in fields.take_remaining():
        raise InvalidRequestError(name, "is not a known parameter")
