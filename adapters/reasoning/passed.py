"""Reasoning that is put back into a request which is otherwise forwarded byte for byte.

The client and the backend have the same dialect. The reply was forwarded unchanged too, but many
clients do not send the reasoning in it back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from adapters.ir.types import Reasoning, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.reasoning.sealed import Sealer, open_sealed
from adapters.wire.json_insert import Insertion, insert_fields
from adapters.wire.json_object import RequestBody, parse_body

# Writes reasoning as the fields of a message.
ReasoningWriter = Callable[[Sequence[Reasoning]], Mapping[str, object]]

# A call with its path and the keys under which its reasoning may be stored.
PassedCall = tuple[ToolCall, str, tuple[str, ...]]

_ENCODER: Final = msgspec.json.Encoder()
# Names that occur in every message with calls.
_CALLS: Final = b"_call"
# The beginnings of the names of fields with reasoning, and with the signatures of calls.
_REASONING: Final = (b'"reasoning', b'"extra_content"')


def may_have_reasoning(reply: bytes) -> bool:
    """Whether a whole reply may contain reasoning before calls."""
    return _CALLS in reply and any(name in reply for name in _REASONING)


def put_back(
    body: RequestBody,
    calls: Iterable[PassedCall],
    stored: Mapping[str, str],
    sealer: Sealer,
    write: ReasoningWriter,
) -> RequestBody:
    """Return the request with the stored reasoning of these calls."""
    insertion = Insertion()
    by_message: dict[str, list[Reasoning]] = {}
    for call, path, keys in calls:
        text = next((stored[key] for key in keys if key in stored), None)
        payload = None if text is None else open_sealed(text, sealer)
        if payload is None:
            continue
        for extra in payload.extras_of(call):
            insertion.at(path).fields[extra.name] = extra.value
        # A call is part of its message.
        by_message.setdefault(path.rpartition(".")[0], []).extend(payload.reasoning)
    for path, reasoning in by_message.items():
        for name, value in write(reasoning).items():
            insertion.at(path).fields[name] = Raw(_ENCODER.encode(value))
    return _insert(body, insertion) if insertion.inner else body


def _insert(body: RequestBody, insertion: Insertion) -> RequestBody:
    try:
        if body.raw is not None:
            return parse_body(insert_fields(body.raw, insertion))
        fields = {
            name: Raw(insert_fields(bytes(body.fields[name]), inner))
            for name, inner in insertion.inner.items()
        }
    except DECODE_ERRORS:
        # The backend reports what is invalid.
        return body
    return RequestBody(body.fields | fields, body.items)
