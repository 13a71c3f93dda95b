"""A summary that replaces the earlier part of a conversation.

The item that contains it is sealed for its client: a changed one, or one of another client, is
refused. Items that the model must see again word for word are sealed with it.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, Sealer
from adapters.ir.types import OpaqueItem
from adapters.json_text import DECODE_ERRORS

COMPACTION: Final = "compaction"

# Introduces a summary to the model. The role is `user`, because the templates of some models move
# or refuse other roles in the middle of a conversation:
# https://github.com/BerriAI/litellm/issues/39282
_INTRODUCTION: Final = (
    "This is a summary of the earlier part of our conversation, which is no longer shown. "
    "Take what it says as known and done, and go on from there."
)


class Summary(Struct, frozen=True, omit_defaults=True):
    """The sealed content."""

    text: str
    # Instructions from before the summary that still hold.
    before: tuple[Raw, ...] = ()
    # Items after the summary: the turn during which it was created.
    after: tuple[Raw, ...] = ()
    # Whether it replaces the messages of users, too. A client that requested the summary itself may
    # keep them beside it, as Codex and `/responses/compact` do.
    whole: bool = False

    def message(self) -> Raw:
        """Return the message by which a model gets the summary."""
        part = {
            "type": "input_text",
            "text": f"{_INTRODUCTION}\n\n<summary>\n{self.text}\n</summary>",
        }
        return Raw(_ENCODER.encode({"type": "message", "role": "user", "content": [part]}))

    def sealed(self, sealer: Sealer, ids: IdSource) -> OpaqueItem:
        """Return the item that a client carries."""
        item_id = ids.id("cmp_")
        content = sealer.seal(_ENCODER.encode(self))
        fields = {"id": item_id, "type": COMPACTION, "encrypted_content": content}
        return OpaqueItem("responses", COMPACTION, Raw(_ENCODER.encode(fields)), item_id)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Summary)


def unsealed(text: str, sealer: Sealer) -> Summary | None:
    """Open a summary; None if it was not sealed here for this client, or was changed."""
    return SummaryDecryptor(sealer).summary(text)


class SummaryDecryptor:
    """Opens the summaries of one request, and counts their bytes."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.size = 0

    def summary(self, text: str) -> Summary | None:
        """Open a summary; None if it was not sealed here for this client, or was changed."""
        payload = self._sealer.open(text) if text.startswith(self._sealer.prefix) else None
        if payload is None:
            return None
        self.size += len(payload)
        try:
            return _DECODER.decode(payload)
        except DECODE_ERRORS:
            # It was sealed by an incompatible version.
            return None
