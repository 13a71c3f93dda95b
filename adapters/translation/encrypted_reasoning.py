"""Requests without encrypted reasoning that their backend cannot decrypt.

A backend decrypts only what it encrypted for the same account
(https://github.com/Wei-Shaw/sub2api/issues/2208).
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.ir.types import Error
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Loss
from adapters.translation.request import BackendRequest
from adapters.wire.json_object import is_present

_CODE: Final = "invalid_encrypted_content"
# The error without its code, as some proxies send it.
_MESSAGES: Final = ("could not be decrypted", "could not be verified")
_REASON: Final = (
    "encrypted reasoning that the backend cannot decrypt is left out, and the id of the item after"
    " it"
)


# The types of items that may follow reasoning and do not require an id.
_OPTIONAL_IDS: Final = frozenset(("", "message", "function_call", "custom_tool_call"))


class _ItemHead(Struct):
    type: str = ""
    encrypted_content: Raw = Raw()


_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: Final = msgspec.json.Decoder(list[Raw])
_HEAD: Final = msgspec.json.Decoder(_ItemHead)
_ENCODER: Final = msgspec.json.Encoder()


def rejects_encrypted_items(error: Error) -> bool:
    """Whether a backend rejects encrypted items of a request."""
    if error.code == _CODE:
        return True
    message = error.message.lower()
    return "encrypted" in message and any(words in message for words in _MESSAGES)


def without_encrypted_reasoning(request: BackendRequest) -> BackendRequest | None:
    """Return the request without its encrypted reasoning; None if it has none."""
    options = request.reply_plan.options
    name = options.backend.names["items"]
    try:
        fields = _FIELDS.decode(request.body)
        items = _ITEMS.decode(fields.get(name, Raw(b"[]")))
        kept = _without_reasoning(items)
    except DECODE_ERRORS:
        return None
    if len(kept) == len(items):
        return None
    fields[name] = Raw(_ENCODER.encode(kept))
    loss = Loss("dropped", options.client.names["items"], _REASON)
    return replace(request, body=_ENCODER.encode(fields), losses=(*request.losses, loss))


def _without_reasoning(items: list[Raw]) -> list[Raw]:
    """Return the items without encrypted reasoning, and without the id of the item after it.

    A backend that knows this item rejects it without its reasoning
    (https://github.com/langchain-ai/langchainjs/issues/9082).
    """
    kept: list[Raw] = []
    removed = False
    for item in items:
        if _is_encrypted_reasoning(item):
            removed = True
            continue
        kept.append(_without_id(item) if removed else item)
        removed = False
    return kept


def _without_id(item: Raw) -> Raw:
    fields = _FIELDS.decode(item)
    if "id" not in fields or _HEAD.decode(item).type not in _OPTIONAL_IDS:
        return item
    return Raw(_ENCODER.encode({name: fields[name] for name in fields if name != "id"}))


def _is_encrypted_reasoning(raw: Raw) -> bool:
    if b'"encrypted_content"' not in bytes(raw):
        return False
    head = _HEAD.decode(raw)
    return head.type == "reasoning" and is_present(head.encrypted_content)
