"""Reads what clients ask of conversations, and shows them what is kept."""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, InvalidRequestError
from adapters.wire.json_object import MISSING, JsonObject
from gateway.errors import ConversationNotFoundError
from gateway.store import Conversation, Item, Store
from gateway.turns.history import resolve_item_references
from gateway.turns.items import read_metadata, refuse_others, to_stored_item

# "You may add up to 20 items at a time", says OpenAI.
_MOST_ITEMS: Final = 20

_ENCODER: Final = msgspec.json.Encoder()


class ShownConversation(Struct, frozen=True):
    """A conversation as clients are shown it."""

    id: str
    created_at: int
    metadata: Raw
    object: str = "conversation"


def shown(conversation: Conversation) -> ShownConversation:
    """Show a conversation; its items are asked for apart."""
    return ShownConversation(conversation.id, conversation.created, conversation.metadata)


def written(metadata: dict[str, str]) -> Raw:
    """Write metadata as they are kept."""
    return Raw(_ENCODER.encode(metadata))


async def find_conversation(store: Store, owner: str, name: str) -> Conversation:
    """Find a conversation; raise `ConversationNotFound` if this owner has none of that name."""
    found = await store.conversations.load(owner, name)
    if found is None:
        raise not_there(name)
    return found


def not_there(name: str) -> ConversationNotFoundError:
    """Say that there is no such conversation, at least not for whoever asks."""
    return ConversationNotFoundError(name, "conversation_id")


async def begin_conversation(
    store: Store, mint: IdSource, owner: str, asked: JsonObject
) -> Conversation:
    """Begin a conversation as a client asks for it."""
    metadata = read_metadata(asked.raw("metadata") or MISSING)
    items = await _take_items(store, mint, owner, asked)
    refuse_others(asked)
    made = Conversation(mint.id("conv_"), owner, mint.now(), written(metadata))
    await store.conversations.create(made, items)
    return made


async def append_items(
    store: Store, mint: IdSource, owner: str, name: str, asked: JsonObject
) -> tuple[Item, ...]:
    """Add items to a conversation, all of them together; give them as they are kept."""
    # Whose conversation is not there learns that first, whatever else is wrong.
    await find_conversation(store, owner, name)
    items = await _take_items(store, mint, owner, asked)
    if not items:
        raise InvalidRequestError("items", "there is nothing to add")
    refuse_others(asked)
    if not await store.conversations.append_items(owner, name, items):
        raise not_there(name)
    return items


async def _take_items(
    store: Store, mint: IdSource, owner: str, asked: JsonObject
) -> tuple[Item, ...]:
    """Take items as they are kept; those that only refer to others are found in the memory."""
    given = asked.array("items")
    if len(given) > _MOST_ITEMS:
        why = f"{len(given)} items are more than the {_MOST_ITEMS} that can be added at a time"
        raise InvalidRequestError("items", why)
    resolved = await resolve_item_references(store, owner, given, (), "items")
    return tuple(
        one if isinstance(one, Item) else to_stored_item(one, mint, f"items[{place}]")
        for place, one in enumerate(resolved)
    )
