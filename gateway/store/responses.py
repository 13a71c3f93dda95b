"""Responses, the items that came with them, and the chains that they make."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gateway.store.database import Database, GroupCommitter, Row, Transaction, sanitize_text
from gateway.store.records import ENTERS_CONVERSATION, ChainLink, Item, Response, StoredTurn

# Items: each is kept once, and belongs to a response, to a conversation, or to both.


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
        await transaction.execute_many(_INSERT, fresh)
    if links:
        await transaction.execute_many(_LINK, links)


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
        await transaction.execute_many(_INHERIT, heirs)
        await transaction.execute_many(_FOLLOW, heirs)
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


_RESPONSES_INSERT: Final = """
    INSERT INTO responses
        (id, owner, created, status, model, parent, conversation, settings, body, touched, chain)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $3,
        COALESCE((SELECT chain FROM responses WHERE id = $6 AND owner = $2), $1))
"""
# Once an hour is enough for what is kept for days, and spares the others a write.
_TOUCH: Final = """
    UPDATE responses SET touched = $3
    WHERE id = (SELECT chain FROM responses WHERE id = $1 AND owner = $2) AND touched < $3 - 3600
"""

# Those that were deleted while others stand on them are still there.
FIND_PARENTS: Final = """
    SELECT id FROM responses WHERE owner = $1 AND id {among} ORDER BY id {shared}
"""

# The columns of a response. In one list with its items it comes first, on side -1.
_RESPONSE: Final = "id, owner, created, status, body, settings, model, parent, conversation"
_GET: Final = f"""
    SELECT -1, 0, NULL, NULL, NULL, {_RESPONSE}
    FROM responses WHERE id = $1 AND owner = $2 AND deleted = 0
    UNION ALL
    SELECT items.side, items.position, {ITEM}, {", ".join(["NULL"] * 9)}
    FROM items {ORIGIN}
    WHERE items.response = $1 AND items.owner = $2
    ORDER BY 1, 2
"""
_CHAIN: Final = f"""
    WITH RECURSIVE chain (depth, id, parent, status, settings, conversation) AS (
        SELECT 0, id, parent, status, settings, conversation
        FROM responses WHERE id = $1 AND owner = $2 AND deleted = 0
        UNION ALL
        SELECT chain.depth + 1, earlier.id, earlier.parent, earlier.status, earlier.settings,
            earlier.conversation
        FROM chain JOIN responses AS earlier ON earlier.id = chain.parent
        WHERE earlier.owner = $2
    )
    SELECT depth, -1, 0, id, NULL, settings, parent, status, conversation
    FROM chain
    UNION ALL
    SELECT chain.depth, items.side, items.position, {ITEM}, NULL, NULL, NULL
    FROM chain JOIN items ON items.response = chain.id {ORIGIN}
    ORDER BY 1 DESC, 2, 3
"""
FIND_ITEMS: Final = f"""
    SELECT {ITEM} FROM items {ORIGIN} LEFT JOIN responses ON responses.id = items.response
    WHERE items.owner = $1 AND items.id {{among}}
        AND (items.conversation IS NOT NULL OR responses.deleted = 0)
    ORDER BY items.number
"""


def read_response(row: Row) -> Response:
    """Read the columns of a response."""
    name, owner, created, status, body, settings, model, parent, conversation = row
    return Response(
        name, owner, created, status, Raw(body), Raw(settings), model, parent, conversation
    )


class ResponseStore:
    """Keeps finished responses."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def save(self, turn: StoredTurn) -> None:
        """Keep a response and its items."""
        await self._writer.write(_save, turn)

    async def load(self, owner: str, response_id: str) -> StoredTurn | None:
        """Give a response with its own items."""
        rows = await self._database.fetch(_GET, response_id, owner)
        # The items of one that was deleted may still be there.
        if not rows or rows[0][0] >= 0:
            return None
        first, *rest = rows
        return StoredTurn(
            read_response(tuple(first)[5:]),
            tuple(read_item(tuple(row)[2:5]) for row in rest if row[0] == INPUT),
            tuple(read_item(tuple(row)[2:5]) for row in rest if row[0] == OUTPUT),
        )

    async def load_chain(self, owner: str, response_id: str) -> tuple[ChainLink, ...] | None:
        """Give a response and all that it continues, the oldest first."""
        rows = await self._database.fetch(_CHAIN, response_id, owner)
        # The oldest comes first. If it continues something, that is missing.
        if not rows or rows[0][6] is not None:
            return None
        return tuple(_steps(rows))

    async def find_items(self, owner: str, ids: Collection[str]) -> dict[str, Item]:
        """Give those items that are there; of several with one id, the latest."""
        if not ids:
            return {}
        names = msgspec.json.encode([sanitize_text(name) for name in ids]).decode()
        rows = await self._database.fetch(FIND_ITEMS, owner, names)
        return {item.id: item for item in map(read_item, rows)}

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response."""
        return await self._writer.write(_delete, (owner, response_id), long=True)


def _steps(rows: list[Row]) -> Iterator[ChainLink]:
    for _, group in groupby(rows, key=_depth):
        first, *rest = group
        _, _, _, name, _, settings, _, status, conversation = first
        yield ChainLink(
            name,
            status,
            Raw(settings),
            tuple(read_item(tuple(row)[3:6]) for row in rest if row[1] == INPUT),
            tuple(read_item(tuple(row)[3:6]) for row in rest if row[1] == OUTPUT),
            conversation,
        )


def _depth(row: Row) -> int:
    depth: int = row[0]
    return depth


# Writing


async def insert_turns(transaction: Transaction, turns: Sequence[StoredTurn]) -> None:
    """Insert responses with their items, into no conversation yet."""
    await keep(transaction, _homes(await _insert_responses(transaction, turns), {}))


async def _save(transaction: Transaction, turns: Sequence[StoredTurn]) -> Sequence[None]:
    turns = await _insert_responses(transaction, turns)
    await keep(transaction, _homes(turns, await _places(transaction, turns)))
    return [None] * len(turns)


async def _insert_responses(
    transaction: Transaction, turns: Sequence[StoredTurn]
) -> Sequence[StoredTurn]:
    """Insert the responses of turns; give the turns as they are kept."""
    responses = [turn.response for turn in turns]
    # Sorted, as all that more than one node may lock: so they cannot wait for each other.
    touched = sorted((it.parent, it.owner, it.created) for it in responses if it.parent)
    if touched:
        await transaction.execute_many(_TOUCH, touched)
        there = await _find_parents(transaction, responses)
        turns = [_standing(turn, there) for turn in turns]
    await transaction.execute_many(
        _RESPONSES_INSERT, [_responses_row(turn.response) for turn in turns]
    )
    return turns


async def _find_parents(transaction: Transaction, responses: Sequence[Response]) -> frozenset[str]:
    """Give what is still there of that which is continued; until the commit, it stays."""
    wanted: dict[str, set[str]] = {}
    for response in responses:
        if response.parent is not None:
            wanted.setdefault(response.owner, set()).add(response.parent)
    found: set[str] = set()
    for owner, parents in sorted(wanted.items()):
        names = msgspec.json.encode(sorted(parents)).decode()
        found.update(row[0] for row in await transaction.fetch(FIND_PARENTS, owner, names))
    return frozenset(found)


def _standing(turn: StoredTurn, there: Collection[str]) -> StoredTurn:
    """Give a turn that stands on something: on its parent, or on the history that it brought."""
    if turn.history is None or turn.response.parent in there:
        return turn
    return StoredTurn(
        replace(turn.response, parent=None), (*turn.history, *turn.input), turn.output
    )


def _responses_row(response: Response) -> tuple[object, ...]:
    return (
        response.id,
        response.owner,
        response.created,
        response.status,
        response.model,
        response.parent,
        response.conversation,
        bytes(response.settings),
        bytes(response.body),
    )


async def _places(transaction: Transaction, turns: Sequence[StoredTurn]) -> dict[str, int]:
    """Take places in conversations for the items of turns; give them by response."""
    places: dict[str, int] = {}
    for turn in sorted(turns, key=_conversation):
        response = turn.response
        if response.conversation is not None and response.status in ENTERS_CONVERSATION:
            count = len(turn.input) + len(turn.output)
            place = await reserve(transaction, response.owner, response.conversation, count)
            # It may have been deleted while the response was made.
            if place is not None:
                places[response.id] = place
    return places


def _conversation(turn: StoredTurn) -> str:
    return turn.response.conversation or ""


def _homes(
    turns: Iterable[StoredTurn], places: dict[str, int]
) -> Iterator[tuple[ItemLocation, Sequence[Item]]]:
    """Say where the items of turns are kept."""
    for turn in turns:
        response = turn.response
        place = places.get(response.id)
        conversation = None if place is None else response.conversation
        begin = place or 0
        yield ItemLocation(response.owner, response.id, INPUT, conversation, begin), turn.input
        begin += len(turn.input)
        yield ItemLocation(response.owner, response.id, OUTPUT, conversation, begin), turn.output


# Deleting

_MARK: Final = """
    UPDATE responses SET deleted = 1, body = $3
    WHERE id = $1 AND owner = $2 AND deleted = 0 RETURNING id
"""
_PRUNE: Final = """
    DELETE FROM responses
    WHERE id = $1 AND deleted = 1
        AND NOT EXISTS (SELECT 1 FROM responses AS later WHERE later.parent = $1)
    RETURNING parent
"""
_CLEAR: Final = (
    "DELETE FROM jobs WHERE response = $1",
    "DELETE FROM events WHERE response = $1",
)
_DETACH: Final = "UPDATE items SET response = NULL WHERE response = $1"


async def _delete(transaction: Transaction, wanted: Sequence[tuple[str, str]]) -> Sequence[bool]:
    deleted = [await _delete_one(transaction, *one) for one in wanted]
    await delete_orphaned_items(transaction)
    return deleted


async def _delete_one(transaction: Transaction, owner: str, response_id: str) -> bool:
    """Mark it as deleted; remove it, and those marked before it, once nothing stands on them."""
    if not await transaction.fetch(_MARK, response_id, owner, b"null"):
        return False
    for statement in _CLEAR:
        await transaction.fetch(statement, response_id)
    transaction.notify(response_id)
    last: str | None = response_id
    while last is not None:
        pruned = await transaction.fetch(_PRUNE, last)
        if not pruned:
            break
        await transaction.fetch(_DETACH, last)
        last = pruned[0][0]
    return True
