"""Items: each is kept once, and belongs to a response, to a conversation, or to both."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Raw, Struct

from gateway.store.database import Row, Transaction
from gateway.store.records import Item

Side: TypeAlias = Literal[0, 1]
INPUT: Final[Side] = 0
OUTPUT: Final[Side] = 1

_COLUMNS: Final = "(owner, id, response, side, position, conversation, place, source, body)"
_INSERT: Final = f"INSERT INTO items {_COLUMNS} VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, $8)"
# What it repeats may have been deleted since it was read: then this is the one that is kept.
_LINK: Final = f"""
    INSERT INTO items {_COLUMNS} VALUES (
        $1, $2, $3, $4, $5, $6, $7,
        (SELECT number FROM items WHERE number = $9),
        CASE WHEN EXISTS (SELECT 1 FROM items WHERE number = $9)
            THEN NULL ELSE CAST($8 AS {{bytes}}) END
    )
"""

# Clients may call their items anything, and an index takes only so much.
_LONGEST_ID: Final = 256

# Columns and a join with which items are read, wherever their bodies are.
ITEM: Final = "items.id, COALESCE(items.source, items.number), COALESCE(items.body, origin.body)"
ORIGIN: Final = "LEFT JOIN items AS origin ON origin.number = items.source"


class ItemLocation(Struct, frozen=True):
    """Where items are to be kept."""

    owner: str
    response: str | None = None
    side: Side = INPUT
    conversation: str | None = None
    # The place of the first of them in the conversation.
    place: int = 0


def read_item(row: Row) -> Item:
    """Read the columns named `ITEM`."""
    name, number, body = row
    return Item(name, Raw(body), number)


async def keep(
    transaction: Transaction, groups: Iterable[tuple[ItemLocation, Sequence[Item]]]
) -> None:
    """Keep items, each group in its home."""
    fresh: list[tuple[object, ...]] = []
    links: list[tuple[object, ...]] = []
    for home, items in groups:
        for position, item in enumerate(items):
            row = _row(home, position, item)
            if item.number:
                links.append((*row, item.number))
            else:
                fresh.append(row)
    if fresh:
        await transaction.each(_INSERT, fresh)
    if links:
        await transaction.each(_LINK, links)


def _row(home: ItemLocation, position: int, item: Item) -> tuple[object, ...]:
    place = None if home.conversation is None else home.place + position
    return (
        home.owner,
        item.id[:_LONGEST_ID],
        home.response,
        home.side,
        position,
        home.conversation,
        place,
        bytes(item.body),
    )


# Those that have lost all that they belonged to, and the first of those that repeat them.
_HEIRS: Final = """
    SELECT items.number, MIN(heir.number)
    FROM items JOIN items AS heir ON heir.source = items.number
    WHERE items.response IS NULL AND items.conversation IS NULL
        AND (heir.response IS NOT NULL OR heir.conversation IS NOT NULL)
    GROUP BY items.number
"""
_INHERIT: Final = """
    UPDATE items SET source = NULL, body = (SELECT body FROM items WHERE number = $1)
    WHERE number = $2
"""
_FOLLOW: Final = "UPDATE items SET source = $2 WHERE source = $1"
_FORGET: Final = "DELETE FROM items WHERE response IS NULL AND conversation IS NULL"


async def delete_orphaned_items(transaction: Transaction) -> None:
    """Delete the items that belong to nothing; what repeats one of them gets its body."""
    heirs = [tuple(row) for row in await transaction.fetch(_HEIRS)]
    if heirs:
        await transaction.each(_INHERIT, heirs)
        await transaction.each(_FOLLOW, heirs)
    await transaction.fetch(_FORGET)


# Who appends to a conversation holds its row until the commit: that makes the order.
_RESERVE: Final = """
    UPDATE conversations SET next = next + $3, touched = {now}
    WHERE id = $1 AND owner = $2 RETURNING next
"""


async def reserve(
    transaction: Transaction, owner: str, conversation: str, count: int
) -> int | None:
    """Take places at the end of a conversation; give the first, or None if it is not there."""
    rows = await transaction.fetch(_RESERVE, conversation, owner, count)
    return rows[0][0] - count if rows else None
