"""Items: each is stored once, and belongs to a response, to a conversation, or to both."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Raw, Struct

from gateway.store.database import Row, Transaction
from gateway.store.records import Item

Side: TypeAlias = Literal[0, 1]
INPUT: Final[Side] = 0
OUTPUT: Final[Side] = 1

# Clients choose the ids of their items, and an index entry has a maximum size.
_MAX_ID_LENGTH: Final = 256

# The columns and the join that read items; the body of a reference is in another row, its origin.
ITEM_COLUMNS: Final = (
    "items.id, COALESCE(items.source, items.number), COALESCE(items.body, origin.body)"
)
JOIN_ORIGIN: Final = "LEFT JOIN items AS origin ON origin.number = items.source"

_COLUMNS: Final = "(owner, id, response, side, position, conversation, place, source, body)"
_INSERT: Final = f"INSERT INTO items {_COLUMNS} VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, $8)"
# If the referenced row was deleted after it was read, the new row has the body instead.
_INSERT_REFERENCE: Final = f"""
    INSERT INTO items {_COLUMNS} VALUES (
        $1, $2, $3, $4, $5, $6, $7,
        (SELECT number FROM items WHERE number = $9),
        CASE WHEN EXISTS (SELECT 1 FROM items WHERE number = $9)
            THEN NULL ELSE CAST($8 AS {{bytes}}) END
    )
"""
# The update locks the conversation until the commit, so that the order of items is unambiguous.
_RESERVE_PLACES: Final = """
    UPDATE conversations SET next = next + $3, touched = {now}
    WHERE id = $1 AND owner = $2 RETURNING next
"""

# Selects orphaned items, each with the first item that refers to it.
_HEIRS: Final = """
    SELECT items.number, MIN(heir.number)
    FROM items JOIN items AS heir ON heir.source = items.number
    WHERE items.response IS NULL AND items.conversation IS NULL
        AND (heir.response IS NOT NULL OR heir.conversation IS NOT NULL)
    GROUP BY items.number
"""
_MOVE_BODY: Final = """
    UPDATE items SET source = NULL, body = (SELECT body FROM items WHERE number = $1)
    WHERE number = $2
"""
_REDIRECT_REFERENCES: Final = "UPDATE items SET source = $2 WHERE source = $1"
_DELETE_ORPHANS: Final = "DELETE FROM items WHERE response IS NULL AND conversation IS NULL"


class ItemLocation(Struct, frozen=True):
    """The response and the conversation to which a sequence of items belongs."""

    owner: str
    response: str | None = None
    side: Side = INPUT
    conversation: str | None = None
    # The place of the first item in the conversation.
    place: int = 0


def read_item(row: Row) -> Item:
    """Read the columns `ITEM_COLUMNS`."""
    item_id, number, body = row
    return Item(item_id, Raw(body), number)


async def insert_items(
    transaction: Transaction, groups: Iterable[tuple[ItemLocation, Sequence[Item]]]
) -> None:
    """Insert items; for items that are already stored, insert references."""
    new: list[tuple[object, ...]] = []
    references: list[tuple[object, ...]] = []
    for location, items in groups:
        for position, item in enumerate(items):
            row = _insert_arguments(location, position, item)
            if item.number:
                references.append((*row, item.number))
            else:
                new.append(row)
    if new:
        await transaction.execute_many(_INSERT, new)
    if references:
        await transaction.execute_many(_INSERT_REFERENCE, references)


def _insert_arguments(location: ItemLocation, position: int, item: Item) -> tuple[object, ...]:
    return (
        location.owner,
        item.id[:_MAX_ID_LENGTH],
        location.response,
        location.side,
        position,
        location.conversation,
        None if location.conversation is None else location.place + position,
        bytes(item.body),
    )


async def reserve_places(
    transaction: Transaction, owner: str, conversation_id: str, count: int
) -> int | None:
    """Reserve places at the end of a conversation; return the first, or None if it is missing."""
    rows = await transaction.fetch(_RESERVE_PLACES, conversation_id, owner, count)
    return rows[0][0] - count if rows else None


async def delete_orphaned_items(transaction: Transaction) -> None:
    """Delete items without a response and a conversation; the first reference receives the body."""
    heirs = [tuple(row) for row in await transaction.fetch(_HEIRS)]
    if heirs:
        await transaction.execute_many(_MOVE_BODY, heirs)
        await transaction.execute_many(_REDIRECT_REFERENCES, heirs)
    await transaction.fetch(_DELETE_ORPHANS)
