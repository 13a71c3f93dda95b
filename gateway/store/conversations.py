"""Conversations and their items."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from gateway.store.database import Database, GroupCommitter, Transaction
from gateway.store.items import (
    ITEM_COLUMNS,
    JOIN_ORIGIN,
    ItemLocation,
    delete_orphaned_items,
    insert_items,
    read_item,
    reserve_places,
)
from gateway.store.records import Conversation, Item, Listing, Page, SortOrder

_LOAD: Final = """
    SELECT id, owner, created, metadata FROM conversations WHERE id = $1 AND owner = $2
"""
_LOAD_ITEM: Final = f"""
    SELECT {ITEM_COLUMNS} FROM items {JOIN_ORIGIN}
    WHERE items.conversation = $1 AND items.owner = $2 AND items.id = $3
    ORDER BY items.place DESC LIMIT 1
"""
# An id may occur at several places. A page after an id starts after the last of its places, so that
# no list contains an item twice; a page after a cursor `id@place` starts after that place.
_PLACE: Final = """
    SELECT {last}(place), COUNT(*) FROM items
    WHERE conversation = $1 AND owner = $2 AND id = $3 AND ($4 < 0 OR place = $4)
"""
_PLACES: Final[dict[SortOrder, str]] = {
    "ASC": _PLACE.format(last="MAX"),
    "DESC": _PLACE.format(last="MIN"),
}
_CURSOR_WITH_PLACE: Final = re.compile(r"(.+)@(\d{1,18})", re.DOTALL)
_COMPARISONS: Final[dict[SortOrder, str]] = {"ASC": ">", "DESC": "<"}
_LIST: Final[dict[SortOrder, str]] = {
    order: f"""
        SELECT {ITEM_COLUMNS}, items.place FROM items {JOIN_ORIGIN}
        WHERE items.conversation = $1 AND ($2 < 0 OR items.place {comparison} $2)
        ORDER BY items.place {order} LIMIT $3
    """
    for order, comparison in _COMPARISONS.items()
}
# Selects all items if the response, which is unfinished or failed, has none in the conversation.
_LIST_BEFORE: Final = f"""
    SELECT {ITEM_COLUMNS} FROM items {JOIN_ORIGIN}
    WHERE items.conversation = $1 AND items.owner = $2 AND items.place < COALESCE(
        (SELECT MIN(own.place) FROM items AS own WHERE own.response = $3 AND own.conversation = $1),
        (SELECT next FROM conversations WHERE id = $1)
    )
    ORDER BY items.place
"""
_INSERT: Final = """
    INSERT INTO conversations (id, owner, created, touched, next, metadata)
    VALUES ($1, $2, $3, $4, $5, $6)
"""
_UPDATE_METADATA: Final = """
    UPDATE conversations SET metadata = $3, touched = {now}
    WHERE id = $1 AND owner = $2 RETURNING id
"""
_DELETE: Final = "DELETE FROM conversations WHERE id = $1 AND owner = $2 RETURNING id"
_DETACH_ITEMS: Final = "UPDATE items SET conversation = NULL, place = NULL WHERE conversation = $1"
_DETACH_ITEM: Final = """
    UPDATE items SET conversation = NULL, place = NULL
    WHERE conversation = $1 AND owner = $2 AND id = $3 RETURNING id
"""
_ANY_PLACE: Final = -1


class ConversationStore:
    """Conversations with their items."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def create(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        """Create a conversation with its first items."""
        await self._writer.write(_create, (conversation, items))

    async def load(self, owner: str, conversation_id: str) -> Conversation | None:
        """Load a conversation without its items."""
        rows = await self._database.fetch(_LOAD, conversation_id, owner)
        if not rows:
            return None
        conversation_id, owner, created, metadata = rows[0]
        return Conversation(conversation_id, owner, created, Raw(metadata))

    async def update_metadata(self, owner: str, conversation_id: str, metadata: Raw) -> bool:
        """Replace the metadata of a conversation."""
        return await self._writer.write(_update_metadata, (conversation_id, owner, bytes(metadata)))

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Delete a conversation; its responses keep their items."""
        return await self._writer.write(_delete, (conversation_id, owner), long=True)

    async def append_items(self, owner: str, conversation_id: str, items: Sequence[Item]) -> bool:
        """Append items without other items between them."""
        return await self._writer.write(_append_items, (owner, conversation_id, items))

    async def list_items(
        self, owner: str, conversation_id: str, page: Page
    ) -> Listing[Item] | None:
        """List items; return None if the conversation or `page.after` does not exist."""
        place = await self._start_place(owner, conversation_id, page)
        if place is None:
            return None
        statement = _LIST[page.sort_order]
        rows = await self._database.fetch(statement, conversation_id, place, page.row_limit)
        listing = page.listing(rows)
        items = tuple([read_item(tuple(row)[:3]) for row in listing.data])
        cursor = None
        if listing.has_more:
            cursor = await self._cursor(owner, conversation_id, items[-1].id, listing.data[-1][3])
        return Listing(items, listing.has_more, cursor)

    async def _start_place(self, owner: str, conversation_id: str, page: Page) -> int | None:
        """Return the place after which a page starts; None if it does not exist."""
        if page.after is None:
            return None if await self.load(owner, conversation_id) is None else _ANY_PLACE
        statement = _PLACES[page.sort_order]
        rows = await self._database.fetch(statement, conversation_id, owner, page.after, _ANY_PLACE)
        place: int | None = rows[0][0]
        match = _CURSOR_WITH_PLACE.fullmatch(page.after)
        if place is None and match is not None:
            cursor = (match[1], int(match[2]))
            rows = await self._database.fetch(statement, conversation_id, owner, *cursor)
            place = rows[0][0]
        return place

    async def _cursor(self, owner: str, conversation_id: str, item_id: str, place: int) -> str:
        """Return the cursor for the page after an item: its id, with the place if necessary."""
        statement = _PLACES["ASC"]
        rows = await self._database.fetch(statement, conversation_id, owner, item_id, _ANY_PLACE)
        return item_id if rows[0][1] == 1 else f"{item_id}@{place}"

    async def load_item(self, owner: str, conversation_id: str, item_id: str) -> Item | None:
        """Load the last item with this id in a conversation."""
        rows = await self._database.fetch(_LOAD_ITEM, conversation_id, owner, item_id)
        return read_item(rows[0]) if rows else None

    async def list_items_before(
        self, owner: str, conversation_id: str, response_id: str
    ) -> tuple[Item, ...]:
        """List the items before those of a response; all items if the response has none."""
        rows = await self._database.fetch(_LIST_BEFORE, conversation_id, owner, response_id)
        return tuple(map(read_item, rows))

    async def delete_items(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Remove the items with this id from a conversation."""
        return await self._writer.write(_delete_item, (conversation_id, owner, item_id), long=True)


async def _create(
    transaction: Transaction, batch: Sequence[tuple[Conversation, Sequence[Item]]]
) -> Sequence[None]:
    rows = [
        (it.id, it.owner, it.created, float(it.created), len(items), bytes(it.metadata))
        for it, items in batch
    ]
    await transaction.execute_many(_INSERT, rows)
    groups = ((ItemLocation(it.owner, conversation=it.id), items) for it, items in batch)
    await insert_items(transaction, groups)
    return [None] * len(batch)


async def _append_items(
    transaction: Transaction, batch: Sequence[tuple[str, str, Sequence[Item]]]
) -> Sequence[bool]:
    groups: list[tuple[ItemLocation, Sequence[Item]]] = []
    appended = [False] * len(batch)
    # All nodes lock conversations in sorted order, so that they cannot deadlock.
    for index in sorted(range(len(batch)), key=lambda index: batch[index][1]):
        owner, conversation_id, items = batch[index]
        place = await reserve_places(transaction, owner, conversation_id, len(items))
        if place is not None:
            appended[index] = True
            groups.append((ItemLocation(owner, conversation=conversation_id, place=place), items))
    await insert_items(transaction, groups)
    return appended


async def _update_metadata(
    transaction: Transaction, batch: Sequence[tuple[str, str, bytes]]
) -> Sequence[bool]:
    return [bool(await transaction.fetch(_UPDATE_METADATA, *one)) for one in batch]


async def _delete(transaction: Transaction, batch: Sequence[tuple[str, str]]) -> Sequence[bool]:
    deleted: list[bool] = []
    for conversation_id, owner in batch:
        found = bool(await transaction.fetch(_DELETE, conversation_id, owner))
        if found:
            await transaction.fetch(_DETACH_ITEMS, conversation_id)
        deleted.append(found)
    await delete_orphaned_items(transaction)
    return deleted


async def _delete_item(
    transaction: Transaction, batch: Sequence[tuple[str, str, str]]
) -> Sequence[bool]:
    deleted = [bool(await transaction.fetch(_DETACH_ITEM, *one)) for one in batch]
    await delete_orphaned_items(transaction)
    return deleted
