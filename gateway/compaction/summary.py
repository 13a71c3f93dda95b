"""A summary that replaces the earlier part of a conversation.

The summary is sealed for its client; a summary that was changed or belongs to another client is
refused. Items that the model must see unchanged are sealed with the summary.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, Sealer
from adapters.ir.types import OpaqueItem
from adapters.json_text import DECODE_ERRORS

COMPACTION: Final = "compaction"

# The message with a summary has the role `user`, because the templates of some models move or
# refuse other roles in the middle of a conversation:
# https://github.com/BerriAI/litellm/issues/39282
_INTRODUCTION: Final = (
    "This is a summary of the earlier part of our conversation, which is no longer shown. "
    "Take what it says as known and done, and go on from there."
)


class Summary(Struct, frozen=True, omit_defaults=True):
    """A summary in the form in which it is sealed."""

    text: str
    # Instructions before the summary that still apply.
    before: tuple[Raw, ...] = ()
    # Items after the summary: the turn during which it was created.
    after: tuple[Raw, ...] = ()
    # Whether the summary also replaces user messages. It does not if the client requested it,
    # because Codex and `/responses/compact` send these messages again, next to the summary.
    whole: bool = False

    def message(self) -> Raw:
        """Return the message with the summary for a model."""
        part = {
            "type": "input_text",
            "text": f"{_INTRODUCTION}\n\n<summary>\n{self.text}\n</summary>",
        }
        return Raw(_ENCODER.encode({"type": "message", "role": "user", "content": [part]}))

    def to_item(self, sealer: Sealer, ids: IdSource) -> OpaqueItem:
        """Return the item with the sealed summary for the client."""
        item_id = ids.id("cmp_")
        content = sealer.seal(_ENCODER.encode(self))
        fields = {"id": item_id, "type": COMPACTION, "encrypted_content": content}
        return OpaqueItem("responses", COMPACTION, Raw(_ENCODER.encode(fields)), item_id)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Summary)


def open_summary(text: str, sealer: Sealer) -> Summary | None:
    """Open a summary; return None if it was changed or not sealed for this client."""
    return SummaryDecryptor(sealer).summary(text)


class SummaryDecryptor:
    """Opens the summaries of one request, and counts their bytes."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.size = 0

    def summary(self, text: str) -> Summary | None:
        """Open a summary; return None if it was changed or not sealed for this client."""
        payload = self._sealer.open(text) if text.startswith(self._sealer.prefix) else None
        if payload is None:
            return None
        self.size += len(payload)
        try:
            return _DECODER.decode(payload)
        except DECODE_ERRORS:
            # An incompatible version sealed it.
            return None
