"""Comparison of recordings by meaning, one by one or in folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters import DragomanError, InvalidRequestError
from adapters.comparison import MARKER, Difference, NormalBody, compare_json
from adapters.conformance import Json, Object
from adapters.wire.error_body import REDACTED
from gateway.recording.documents import compare_documents, decode_json, read_document
from gateway.recording.format import (
    Body,
    Recording,
    RecordingError,
    find_recordings,
    read_recording,
)

# The fields of an exchange that have the same meaning each time.
_COMPARED = ("model", "outcome", "error_code", "losses")
_COMPARED_SIDE = ("dialect", "transport", "status", "violations")
_COMPARED_CALL = (*_COMPARED_SIDE, "backend", "model", "profile", "capabilities", "error")


class NamedRecording(Struct, frozen=True):
    """A recording with the folder that it was read from."""

    folder: Path
    recording: Recording


def read_recordings(root: Path) -> list[NamedRecording]:
    """Return the recordings in a folder; raise `InvalidRequestError` if there are none."""
    try:
        found = [NamedRecording(path, read_recording(path)) for path in find_recordings(root)]
    except RecordingError as error:
        raise InvalidRequestError(None, str(error)) from None
    if not found:
        raise InvalidRequestError(None, f"{root} contains no recordings")
    return found


# Two recordings


def compare_recordings(left: Recording, right: Recording) -> list[Difference]:
    """Return the differences between two recordings; each path begins with the name of a file."""
    differences = _prefixed("exchange", compare_json(_facts(left), _facts(right)))
    for name in sorted(left.bodies.keys() | right.bodies.keys(), key=_order):
        found = compare_recorded_bodies(left.bodies.get(name), right.bodies.get(name))
        differences += _prefixed(name, found)
    return differences


def _order(name: str) -> tuple[int, str]:
    """Return the place of a body on the way from the client to the backend and back."""
    sides = ("client-request", "backend-request", "backend-reply", "client-reply")
    return next(place for place, side in enumerate(sides) if name.startswith(side)), name


def _facts(recording: Recording) -> Json:
    exchange: Object = msgspec.json.decode(msgspec.json.encode(recording.exchange))
    calls = exchange.get("calls")
    facts = _only(exchange, _COMPARED)
    facts["client"] = _only(exchange.get("client"), _COMPARED_SIDE)
    if isinstance(calls, list):
        facts["calls"] = [_only(call, _COMPARED_CALL) for call in calls]
    return facts


def _only(value: Json, names: Sequence[str]) -> Object:
    fields = value if isinstance(value, dict) else {}
    return {name: fields[name] for name in names if name in fields}


def compare_recorded_bodies(left: Body | None, right: Body | None) -> list[Difference]:
    """Return the differences between two bodies, one of which may be missing."""
    if left is None or right is None:
        kind: Literal["missing", "extra"] = "missing" if right is None else "extra"
        return [] if left is right else [Difference("", kind, _shown(left), _shown(right))]
    if left.data == right.data and left.omitted_bytes == right.omitted_bytes:
        return []
    try:
        return compare_documents(read_document(left.data), read_document(right.data))
    except DragomanError:
        # A body that cannot be read, such as an HTML page, is compared as text.
        return [Difference("", "changed", _shown(left), _shown(right))]


def _shown(body: Body | None) -> Json:
    if body is None:
        return None
    omitted = f"{body.omitted_bytes} bytes that were not recorded"
    return omitted if body.omitted_bytes else body.data.decode(errors="replace")


def _prefixed(name: str, differences: Sequence[Difference]) -> list[Difference]:
    return [
        replace(difference, path=f"{name}: {difference.path}" if difference.path else name)
        for difference in differences
    ]


# Folders of recordings


def pair_recordings(
    left: Sequence[NamedRecording], right: Sequence[NamedRecording]
) -> list[tuple[NamedRecording | None, NamedRecording | None]]:
    """Return the pairs of recordings with the same client request, in their order.

    A recording without a counterpart is paired with None.
    """
    unpaired: dict[str, list[NamedRecording]] = {}
    for other in right:
        unpaired.setdefault(_request_key(other.recording), []).append(other)
    pairs: list[tuple[NamedRecording | None, NamedRecording | None]] = []
    for one in left:
        equal = unpaired.get(_request_key(one.recording))
        pairs.append((one, equal.pop(0) if equal else None))
    return [*pairs, *((None, other) for rest in unpaired.values() for other in rest)]


def _request_key(recording: Recording) -> str:
    """Return a text that is equal for client requests with the same meaning."""
    body = recording.client_request or recording.backend_request()
    if body is None:
        return ""
    try:
        fingerprint = NormalBody(decode_json(body.data)).fingerprint()
    except DragomanError:
        return body.data.decode(errors="replace")
    # Secrets have numbers in the order in which they were found.
    return MARKER.sub(REDACTED, fingerprint)
