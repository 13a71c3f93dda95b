"""A summary that stands for the part of a conversation that came before it.

The item that holds it is sealed for its caller: whoever changes it, or brings somebody else's, is
refused. What the model must see again word for word is sealed with it.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, Sealer
from adapters.ir.types import OpaqueItem
from adapters.json_text import DECODE_ERRORS

COMPACTION: Final = "compaction"

# What the model is told of a summary. A user says it: that role keeps its place everywhere, where
# templates move or refuse others (P070).
_TOLD: Final = (
    "This is a summary of the earlier part of our conversation, which is no longer shown. "
    "Take what it says as known and done, and go on from there."
)


class Summary(Struct, frozen=True, omit_defaults=True):
    """What is sealed."""

    text: str
    # Instructions that were given before, and hold on.
    before: tuple[Raw, ...] = ()
    # What follows the summary word for word: the turn that was going on when it was made.
    after: tuple[Raw, ...] = ()
    # Whether it stands for what users said, too. A client that asked for the summary itself may
    # keep their words beside it, as Codex and `/responses/compact` do.
    whole: bool = False

    def message(self) -> Raw:
        """Give the summary as the model is told it."""
        part = {"type": "input_text", "text": f"{_TOLD}\n\n<summary>\n{self.text}\n</summary>"}
        return Raw(_ENCODER.encode({"type": "message", "role": "user", "content": [part]}))

    def sealed(self, seal: Sealer, ids: IdSource) -> OpaqueItem:
        """Give the item that a client carries."""
        name = ids.id("cmp_")
        content = seal.seal(_ENCODER.encode(self))
        fields = {"id": name, "type": COMPACTION, "encrypted_content": content}
        return OpaqueItem("responses", COMPACTION, Raw(_ENCODER.encode(fields)), name)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Summary)


def unsealed(text: str, seal: Sealer) -> Summary | None:
    """Open a summary; None if it was not sealed here for this caller, or was changed."""
    return SummaryDecryptor(seal).summary(text)


class SummaryDecryptor:
    """Opens the summaries of one request, and counts how much comes out of them."""

    def __init__(self, seal: Sealer) -> None:
        self._seal = seal
        self.size = 0

    def summary(self, text: str) -> Summary | None:
        """Open one; None if it was not sealed here for this caller, or was changed."""
        payload = self._seal.open(text) if text.startswith(self._seal.prefix) else None
        if payload is None:
            return None
        self.size += len(payload)
        try:
            return _DECODER.decode(payload)
        except DECODE_ERRORS:
            # Of another version of ours, perhaps.
            return None
