"""Bodies as tests write them: JSON as objects or text, streams as events or text."""

from collections.abc import Mapping, Sequence

import msgspec

JsonObject = dict[str, object]
# JSON as an object or as text.
JsonBody = Mapping[str, object] | str | bytes
# A stream as text, or the JSON of its events.
StreamBody = str | bytes | Sequence[Mapping[str, object]]

_DONE = b"data: [DONE]\n\n"


def encode_body(body: JsonBody) -> bytes:
    """Return JSON as it is sent."""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def encode_stream(stream: StreamBody) -> bytes:
    """Return a stream as it is sent."""
    if isinstance(stream, bytes):
        return stream
    return stream.encode() if isinstance(stream, str) else b"".join(encode_events(stream))


def encode_events(events: Sequence[Mapping[str, object]]) -> list[bytes]:
    """Return the frames of events; those without a type are of Chat, whose streams end with one."""
    named = any("type" in event for event in events)
    frames = [_encode_event(event) for event in events]
    return frames if named else [*frames, _DONE]


def _encode_event(event: Mapping[str, object]) -> bytes:
    data = b"data: %s\n\n" % msgspec.json.encode(event)
    name = event.get("type")
    return b"event: %s\n%s" % (name.encode(), data) if isinstance(name, str) else data
