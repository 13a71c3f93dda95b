"""Conversations and their items."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from gateway.store.database import Database, GroupCommitter, Transaction
from gateway.store.records import (
    Conversation,
    Item,
    Listing,
    Order,
    Page,
    listing,
    order_of,
    size_of,
)
from gateway.store.responses import (
    ITEM,
    ORIGIN,
    ItemLocation,
    delete_orphaned_items,
    keep,
    read_item,
    reserve,
)

_GET: Final = """
    SELECT id, owner, created, metadata FROM conversations WHERE id = $1 AND owner = $2
"""
_ITEM: Final = f"""
    SELECT {ITEM} FROM items {ORIGIN}
    WHERE items.conversation = $1 AND items.owner = $2 AND items.id = $3
    ORDER BY items.place DESC LIMIT 1
"""
# Where an id stands. It may be repeated; from the farthest of its places on, no list comes by it
# again. A list that would leave something out so says the place with the id.
_PLACE: Final = """
    SELECT {farthest}(place), COUNT(*) FROM items
    WHERE conversation = $1 AND owner = $2 AND id = $3 AND ($4 < 0 OR place = $4)
"""
_PLACES: Final[dict[Order, str]] = {
    "ASC": _PLACE.format(farthest="MAX"),
    "DESC": _PLACE.format(farthest="MIN"),
}
_PLACED: Final = re.compile(r"(.+)@(\d{1,18})", re.DOTALL)
_PAGES: Final[dict[Order, str]] = {
    "ASC": f"""
        SELECT {ITEM}, items.place FROM items {ORIGIN}
        WHERE items.conversation = $1 AND ($2 < 0 OR items.place > $2)
        ORDER BY items.place ASC LIMIT $3
    """,
    "DESC": f"""
        SELECT {ITEM}, items.place FROM items {ORIGIN}
        WHERE items.conversation = $1 AND ($2 < 0 OR items.place < $2)
        ORDER BY items.place DESC LIMIT $3
    """,
}
# Of a response that has not come into it, or never did since it failed, all of it stands before.
_BEFORE: Final = f"""
    SELECT {ITEM} FROM items {ORIGIN}
    WHERE items.conversation = $1 AND items.owner = $2 AND items.place < COALESCE(
        (SELECT MIN(own.place) FROM items AS own WHERE own.response = $3 AND own.conversation = $1),
        (SELECT next FROM conversations WHERE id = $1)
    )
    ORDER BY items.place
"""
# Before the first and after the last.
_ANYWHERE: Final = -1


class ConversationStore:
    """Keeps conversations."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def create(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        """Begin a conversation."""
        await self._writer.write(_create, (conversation, items))

    async def load(self, owner: str, conversation_id: str) -> Conversation | None:
        """Give a conversation, without its items."""
        rows = await self._database.fetch(_GET, conversation_id, owner)
        if not rows:
            return None
        name, owner, created, metadata = rows[0]
        return Conversation(name, owner, created, Raw(metadata))

    async def update_metadata(self, owner: str, conversation_id: str, metadata: Raw) -> bool:
        """Give it other metadata."""
        return await self._writer.write(_update, (conversation_id, owner, bytes(metadata)))

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Forget a conversation."""
        return await self._writer.write(_delete, (conversation_id, owner), long=True)

    async def append_items(self, owner: str, conversation_id: str, items: Sequence[Item]) -> bool:
        """Add items to its end, all of them together."""
        return await self._writer.write(_append, (owner, conversation_id, items))

    async def list_items(
        self, owner: str, conversation_id: str, page: Page
    ) -> Listing[Item] | None:
        """Give a part of its items."""
        place = await self._start(owner, conversation_id, page)
        if place is None:
            return None
        statement = _PAGES[order_of(page)]
        rows = await self._database.fetch(statement, conversation_id, place, size_of(page))
        found = listing(rows, page)
        items = tuple(read_item(tuple(row)[:3]) for row in found.data)
        cursor = None
        if found.has_more:
            cursor = await self._cursor(owner, conversation_id, items[-1].id, found.data[-1][3])
        return Listing(items, found.has_more, cursor)

    async def _cursor(self, owner: str, conversation_id: str, item_id: str, place: int) -> str:
        """Say from where to go on behind an item."""
        rows = await self._database.fetch(
            _PLACES["ASC"], conversation_id, owner, item_id, _ANYWHERE
        )
        return item_id if rows[0][1] == 1 else f"{item_id}@{place}"

    async def _start(self, owner: str, conversation_id: str, page: Page) -> int | None:
        """Find where a page begins; None if there is no such place."""
        if page.after is None:
            return None if await self.load(owner, conversation_id) is None else _ANYWHERE
        statement = _PLACES[order_of(page)]
        rows = await self._database.fetch(statement, conversation_id, owner, page.after, _ANYWHERE)
        place: int | None = rows[0][0]
        placed = _PLACED.fullmatch(page.after)
        if place is None and placed is not None:
            name, number = placed.groups()
            rows = await self._database.fetch(statement, conversation_id, owner, name, int(number))
            place = rows[0][0]
        return place

    async def load_item(self, owner: str, conversation_id: str, item_id: str) -> Item | None:
        """Give one of its items."""
        rows = await self._database.fetch(_ITEM, conversation_id, owner, item_id)
        return read_item(rows[0]) if rows else None

    async def list_items_before(
        self, owner: str, conversation_id: str, response_id: str
    ) -> tuple[Item, ...]:
        """Give the items that stand in it before those of a response."""
        rows = await self._database.fetch(_BEFORE, conversation_id, owner, response_id)
        return tuple(map(read_item, rows))

    async def delete_item(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Take an item out of it."""
        return await self._writer.write(_remove, (conversation_id, owner, item_id), long=True)


_INSERT: Final = """
    INSERT INTO conversations (id, owner, created, touched, next, metadata)
    VALUES ($1, $2, $3, $4, $5, $6)
"""
_UPDATE: Final = """
    UPDATE conversations SET metadata = $3, touched = {now}
    WHERE id = $1 AND owner = $2 RETURNING id
"""
_DELETE: Final = "DELETE FROM conversations WHERE id = $1 AND owner = $2 RETURNING id"
_DETACH: Final = "UPDATE items SET conversation = NULL, place = NULL WHERE conversation = $1"
_REMOVE: Final = """
    UPDATE items SET conversation = NULL, place = NULL
    WHERE conversation = $1 AND owner = $2 AND id = $3 RETURNING id
"""


async def _create(
    transaction: Transaction, wanted: Sequence[tuple[Conversation, Sequence[Item]]]
) -> Sequence[None]:
    rows = [
        (it.id, it.owner, it.created, float(it.created), len(items), bytes(it.metadata))
        for it, items in wanted
    ]
    await transaction.execute_many(_INSERT, rows)
    await keep(
        transaction, ((ItemLocation(it.owner, conversation=it.id), items) for it, items in wanted)
    )
    return [None] * len(wanted)


async def _append(
    transaction: Transaction, wanted: Sequence[tuple[str, str, Sequence[Item]]]
) -> Sequence[bool]:
    homes: list[tuple[ItemLocation, Sequence[Item]]] = []
    appended: dict[int, bool] = {}
    # In the same order on all nodes, so that they cannot wait for each other.
    for index, (owner, name, items) in sorted(enumerate(wanted), key=_conversation):
        place = await reserve(transaction, owner, name, len(items))
        appended[index] = place is not None
        if place is not None:
            homes.append((ItemLocation(owner, conversation=name, place=place), items))
    await keep(transaction, homes)
    return [appended[index] for index in range(len(wanted))]


def _conversation(numbered: tuple[int, tuple[str, str, Sequence[Item]]]) -> str:
    return numbered[1][1]


async def _update(
    transaction: Transaction, wanted: Sequence[tuple[str, str, bytes]]
) -> Sequence[bool]:
    return [bool(await transaction.fetch(_UPDATE, *one)) for one in wanted]


async def _delete(transaction: Transaction, wanted: Sequence[tuple[str, str]]) -> Sequence[bool]:
    deleted: list[bool] = []
    for name, owner in wanted:
        found = bool(await transaction.fetch(_DELETE, name, owner))
        if found:
            await transaction.fetch(_DETACH, name)
        deleted.append(found)
    await delete_orphaned_items(transaction)
    return deleted


async def _remove(
    transaction: Transaction, wanted: Sequence[tuple[str, str, str]]
) -> Sequence[bool]:
    removed = [bool(await transaction.fetch(_REMOVE, *one)) for one in wanted]
    await delete_orphaned_items(transaction)
    return removed
