"""Judges streams whose frames may have passed from a backend of the same dialect.

They may have details that harm no client and that backends often send.
"""

import re
from typing import cast

import msgspec
from msgspec.structs import replace

import adapters
from adapters.sse import parse_event, write_block
from tests.judges.reading import objects_in, read_object

HARMLESS = re.compile(
    r"usage must be in a chunk with empty choices|without choices must contain usage"
    r"|^error\.|unknown SSE field|(id|retry): lines|^created changes"
    r"|finish_reason is missing"
    r"|^response\.[a-z_.]+ is missing|^unknown event type|\.type .* is not an item type"
)
# What may be missing after an error of a Responses backend.
UNFINISHED = re.compile(r"is left open|^the stream ends without")


def violations(dialect: str, stream: bytes) -> list[str]:
    """Return the violations in a stream that may harm a client."""
    found = adapters.check(dialect, b"".join(map(_without_nulls, stream.split(b"\n\n"))))
    harmful = [one.message for one in found if not HARMLESS.search(one.message)]
    if re.search(rb'"type": ?"(error|response\.failed)"', stream):
        return [message for message in harmful if not UNFINISHED.search(message)]
    return harmful


def _without_nulls(block: bytes) -> bytes:
    """Return an event without nulls in deltas; nothing for the preamble of Azure."""
    frame = parse_event(block)
    if frame is None or not frame.data.startswith(b"{"):
        return block + b"\n\n"
    chunk = read_object(frame.data)
    if chunk.get("id") == "":
        return b""
    for choice in objects_in(chunk, "choices") if chunk.get("choices") else ():
        choice["delta"] = _drop_nulls(choice.get("delta"))
    return write_block(replace(frame, data=msgspec.json.encode(chunk))) + b"\n\n"


def _drop_nulls(value: object) -> object:
    if isinstance(value, list):
        return [_drop_nulls(element) for element in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value).items()
        return {name: _drop_nulls(member) for name, member in members if member is not None}
    return value
