"""What a Chat request asks to be kept, and what is kept of its answer."""

from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource
from adapters.ir.types import Family
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, NULL, decode, read_body
from gateway.store import Completion, Store
from gateway.turns.items import LEGAL_ID, read_metadata

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_MESSAGES: Final = msgspec.json.Decoder(list[dict[str, Raw]])
_TEXT: Final = msgspec.json.Decoder(str)
_NO_MESSAGES: Final = Raw(b"[]")


class PendingCompletion(Struct, frozen=True):
    """A completion that is to be kept, before it is there."""

    owner: str
    created: int
    model: str
    # The messages of the request, as they were spelled.
    messages: Raw
    metadata: dict[str, str]

    async def keep(self, store: Store, mint: IdSource, body: bytes) -> None:
        """Keep the finished completion, under the id by which the client knows it."""
        name = _name(body) or mint.id("chatcmpl-")
        await store.completions.save(
            Completion(
                name, self.owner, self.created, Raw(body), self.messages, self.model, self.metadata
            )
        )


def read_deposit(owner: str, body: bytes, mint: IdSource) -> PendingCompletion:
    """Read what of a request is kept with its answer; raise `InvalidInput` if it cannot be."""
    asked = read_body(body)
    messages = asked.raw("messages") or _NO_MESSAGES
    # To be shown later, they must be what they should be.
    decode(messages, _MESSAGES, "messages")
    metadata = read_metadata(asked.raw("metadata") or MISSING)
    model = asked.string("model") or ""
    return PendingCompletion(owner, mint.now(), model, messages, metadata)


def without_store(body: bytes, family: Family, refused: Collection[str]) -> bytes:
    """Give a request whose answer is kept here as a backend is asked.

    One of the client's own family hears what the client says, unless it refuses that: then nothing
    is lost, for it is done here. A Responses backend would keep something else, a response, which
    this client could neither see nor delete: it is not asked to.
    """
    done = {name for name in ("store", "metadata") if name in refused}
    if family != "completions":
        done.add("store")
    if not done:
        return body
    asked = read_body(body)
    for name in done:
        asked.raw(name)
    return asked.encode_with()


def _name(body: bytes) -> str | None:
    """Read the id of a completion; backends may say anything, or nothing."""
    try:
        name = _TEXT.decode(_OBJECT.decode(body).get("id", NULL))
    except DECODE_ERRORS:
        return None
    return name if LEGAL_ID.fullmatch(name) else None
