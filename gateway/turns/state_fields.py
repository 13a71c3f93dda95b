"""The fields of a request that control stored state, and items that refer to stored ones."""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError, RequestBody
from adapters.errors import missing_field
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import NULL, JsonObject, is_present
from gateway.turns.items import IMAGE_CALL, REFERENCE

_FALSE: Final = b"false"
_ID: Final = b'"id"'
# Longer items cannot be references and are not decoded.
_MAX_REFERENCE_BYTES: Final = 1024
# Matches the end of an object whose only value is `id`. This avoids decoding every item: clients
# that send a whole conversation send hundreds of items, usually without references.
_BARE_REFERENCE: Final = re.compile(rb'"id"\s*:\s*"[^"]*"\s*(?:,\s*"type"\s*:\s*null\s*)?\}')

# Fields that the gateway handles and removes from the request to the backend.
_STATE_FIELDS: Final = frozenset(
    ("background", "conversation", "input", "previous_response_id", "store")
)


class _Reference(Struct):
    id: str
    type: str | None = None


_REFERENCE_DECODER: Final = msgspec.json.Decoder(_Reference)
_OBJECT_DECODER: Final = msgspec.json.Decoder(dict[str, Raw])
_ITEMS_DECODER: Final = msgspec.json.Decoder(list[Raw])


class StateFields(Struct, frozen=True):
    """The fields of a request that control stored state."""

    input: str | list[Raw]
    store: bool
    background: bool
    stream: bool
    previous_response_id: str | None
    conversation: str | None
    # Whether the input may contain references, because something in it has an id.
    may_refer: bool


def is_stateless(body: RequestBody) -> bool:
    """Whether a request is not stored and does not refer to stored objects."""
    fields = body.fields
    items = bytes(fields.get("input", NULL))
    background = fields.get("background", NULL)
    return (
        bytes(fields.get("store", NULL)) == _FALSE
        and not is_present(fields.get("previous_response_id", NULL))
        and not is_present(fields.get("conversation", NULL))
        and (not is_present(background) or bytes(background) == _FALSE)
        and b'"item_reference"' not in items
        and b'"compaction"' not in items
        and not may_refer_to_image(items)
        and not _has_bare_reference(items)
    )


def may_refer_to_image(items: bytes) -> bool:
    """Whether an item may be a generated image that is identified by its id only."""
    return b'"image_generation_call"' in items


def _has_bare_reference(items: bytes) -> bool:
    """Whether an item consists of nothing but an id."""
    if _ID not in items or _BARE_REFERENCE.search(items) is None:
        return False
    try:
        return any(read_reference(item) is not None for item in _ITEMS_DECODER.decode(items))
    except DECODE_ERRORS:
        return False


def read_reference(raw: Raw) -> str | None:
    """Return the id in a reference to an item; None for all other items.

    The SDK omits the type of a reference, and the specification allows null for it. Then the id is
    the only field.
    """
    encoded = bytes(raw)
    if _ID not in encoded or len(encoded) > _MAX_REFERENCE_BYTES:
        return None
    try:
        item = _REFERENCE_DECODER.decode(raw)
        present = {name for name, value in _OBJECT_DECODER.decode(raw).items() if is_present(value)}
    except DECODE_ERRORS:
        # The reader of the item reports the error.
        return None
    if item.type == IMAGE_CALL:
        # The usual way to edit an image that was generated before.
        return None if "result" in present else item.id
    is_reference = item.type == REFERENCE if "type" in present else present == {"id"}
    return item.id if is_reference else None


def read_state_fields(body: RequestBody) -> StateFields:
    """Read the fields that control state; raise `InvalidRequestError` if they are invalid."""
    fields = body.reader()
    items = fields.text_or_raws("input")
    store, background = fields.boolean("store"), bool(fields.boolean("background"))
    previous, conversation = fields.string("previous_response_id"), _read_conversation(fields)
    if previous is not None and conversation is not None:
        message = "cannot be combined with `conversation`"
        raise InvalidRequestError("previous_response_id", message)
    if background and store is False:
        raise InvalidRequestError("background", "requires `store: true`")
    return StateFields(
        input=[] if items is None else items,
        store=store is not False,
        background=background,
        stream=bool(fields.boolean("stream")),
        previous_response_id=previous,
        conversation=conversation,
        may_refer=_ID in bytes(body.fields.get("input", NULL)),
    )


def _read_conversation(fields: JsonObject) -> str | None:
    conversation = fields.text_or_fields("conversation")
    if conversation is None or isinstance(conversation, str):
        return conversation
    conversation_id = conversation.string("id")
    if conversation_id is None:
        raise missing_field("conversation.id")
    return conversation_id


def without_state_fields(body: RequestBody, state: StateFields) -> dict[str, Raw]:
    """Return the fields of a request that are sent to a backend."""
    fields = {name: raw for name, raw in body.fields.items() if name not in _STATE_FIELDS}
    return fields if state.store else fields | {"store": Raw(_FALSE)}
