"""Writes the answer to `/responses/compact`: what is to be replayed whole.

That is what users said, as it was said, and behind it one item with the summary of all the rest.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, InvalidRequestError
from adapters.ir.types import Usage
from adapters.responses.wire import read_usage
from adapters.wire.json_object import MISSING, read_body
from gateway.compaction.summary import COMPACTION
from gateway.compaction.window import WindowItem, kind_of
from gateway.turns.items import to_stored_item


class _Response(Struct):
    id: str = ""
    created_at: float = 0
    output: list[Raw] = []
    usage: Raw = MISSING


class _Compacted(Struct, frozen=True):
    id: str
    object: str
    created_at: int
    output: list[Raw]
    usage: Raw


_RESPONSE: Final = msgspec.json.Decoder(_Response)
_ENCODER: Final = msgspec.json.Encoder()


def user_messages(items: Sequence[WindowItem], mint: IdSource) -> list[Raw]:
    """Give what users said, each message under an id."""
    return [to_stored_item(item.raw, mint, item.path).body for item in items if item.is_of_user]


def compacted(response: bytes, words: Sequence[Raw]) -> bytes | None:
    """Make the answer of a response whose output is a summary; None if there is none in it."""
    seen = _RESPONSE.decode(response)
    summaries = [raw for raw in seen.output if kind_of(raw).type == COMPACTION]
    if not summaries:
        return None
    return _ENCODER.encode(
        _Compacted(
            seen.id,
            "response.compaction",
            int(seen.created_at),
            [*words, *summaries],
            seen.usage,
        )
    )


def read_summary_usage(body: bytes) -> Usage | None:
    """Read what a summary cost that a backend gave by itself."""
    with suppress(InvalidRequestError):
        return read_usage(read_body(body).nested("usage"))
    return None
