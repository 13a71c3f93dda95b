"""Responses, and the chains of responses that continue each other."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from gateway.store.database import Database, GroupCommitter, Row, Transaction, json_array
from gateway.store.items import (
    INPUT,
    ITEM_COLUMNS,
    JOIN_ORIGIN,
    OUTPUT,
    ItemLocation,
    Side,
    delete_orphaned_items,
    insert_items,
    read_item,
    reserve_places,
)
from gateway.store.records import APPENDED_TO_CONVERSATION, ChainLink, Item, Response, StoredTurn

RESPONSE_COLUMNS: Final = "id, owner, created, status, body, settings, model, parent, conversation"

# The response comes before its items, as side -1.
_LOAD: Final = f"""
    SELECT -1, 0, NULL, NULL, NULL, {RESPONSE_COLUMNS}
    FROM responses WHERE id = $1 AND owner = $2 AND deleted = 0
    UNION ALL
    SELECT items.side, items.position, {ITEM_COLUMNS}, {", ".join(["NULL"] * 9)}
    FROM items {JOIN_ORIGIN}
    WHERE items.response = $1 AND items.owner = $2
    ORDER BY 1, 2
"""
_LOAD_CHAIN: Final = f"""
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
    SELECT chain.depth, items.side, items.position, {ITEM_COLUMNS}, NULL, NULL, NULL
    FROM chain JOIN items ON items.response = chain.id {JOIN_ORIGIN}
    ORDER BY 1 DESC, 2, 3
"""
FIND_ITEMS: Final = f"""
    SELECT {ITEM_COLUMNS}
    FROM items {JOIN_ORIGIN} LEFT JOIN responses ON responses.id = items.response
    WHERE items.owner = $1 AND items.id {{in_array}}
        AND (items.conversation IS NOT NULL OR responses.deleted = 0)
    ORDER BY items.number
"""
# Also finds deleted responses that other responses continue.
FIND_PARENTS: Final = """
    SELECT id FROM responses WHERE owner = $1 AND id {in_array} ORDER BY id {for_share}
"""
_INSERT: Final = """
    INSERT INTO responses
        (id, owner, created, status, model, parent, conversation, settings, body, touched, chain)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $3,
        COALESCE((SELECT chain FROM responses WHERE id = $6 AND owner = $2), $1))
"""
# Updates at most once an hour, which is enough for a retention of days and saves writes.
_TOUCH_CHAIN: Final = """
    UPDATE responses SET touched = $3
    WHERE id = (SELECT chain FROM responses WHERE id = $1 AND owner = $2) AND touched < $3 - 3600
"""
_MARK_DELETED: Final = """
    UPDATE responses SET deleted = 1, body = $3
    WHERE id = $1 AND owner = $2 AND deleted = 0 RETURNING id
"""
_DELETE_JOB: Final = (
    "DELETE FROM jobs WHERE response = $1",
    "DELETE FROM events WHERE response = $1",
)
_DELETE_UNCONTINUED: Final = """
    DELETE FROM responses
    WHERE id = $1 AND deleted = 1
        AND NOT EXISTS (SELECT 1 FROM responses AS later WHERE later.parent = $1)
    RETURNING parent
"""
_DETACH_ITEMS: Final = "UPDATE items SET response = NULL WHERE response = $1"


class ResponseStore:
    """Responses with their items."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def save(self, turn: StoredTurn) -> None:
        """Save a finished response and its items; append them to its conversation."""
        await self._writer.write(_save, turn)

    async def load(self, owner: str, response_id: str) -> StoredTurn | None:
        """Load a response with its own items."""
        rows = await self._database.fetch(_LOAD, response_id, owner)
        # A deleted response may still have items.
        if not rows or rows[0][0] >= 0:
            return None
        first, *rest = rows
        response = read_response(tuple(first)[5:])
        return StoredTurn(response, _read_items(rest, 0, INPUT), _read_items(rest, 0, OUTPUT))

    async def load_chain(self, owner: str, response_id: str) -> tuple[ChainLink, ...] | None:
        """Load a chain up to a response, the oldest first; return None if any is missing."""
        rows = await self._database.fetch(_LOAD_CHAIN, response_id, owner)
        # If the oldest response has a parent, the parent is missing.
        if not rows or rows[0][6] is not None:
            return None
        return tuple(_read_chain(rows))

    async def find_items(self, owner: str, ids: Collection[str]) -> dict[str, Item]:
        """Find items by their ids; if several have the same id, the latest."""
        if not ids:
            return {}
        rows = await self._database.fetch(FIND_ITEMS, owner, json_array(ids))
        return {item.id: item for item in map(read_item, rows)}

    async def delete(self, owner: str, response_id: str) -> bool:
        """Delete a response; its items stay while another response continues it."""
        return await self._writer.write(_delete, (owner, response_id), long=True)


def read_response(row: Row) -> Response:
    """Read the columns `RESPONSE_COLUMNS`."""
    response_id, owner, created, status, body, settings, model, parent, conversation = row
    return Response(
        response_id, owner, created, status, Raw(body), Raw(settings), model, parent, conversation
    )


def _read_chain(rows: list[Row]) -> Iterator[ChainLink]:
    for _, group in groupby(rows, key=itemgetter(0)):
        first, *rest = group
        _, _, _, response_id, _, settings, _, status, conversation = first
        items = (_read_items(rest, 1, INPUT), _read_items(rest, 1, OUTPUT))
        yield ChainLink(response_id, status, Raw(settings), *items, conversation)


def _read_items(rows: list[Row], column: int, side: Side) -> tuple[Item, ...]:
    """Read the items of one side; the column of the side precedes the position and the item."""
    first, end = column + 2, column + 5
    return tuple([read_item(tuple(row)[first:end]) for row in rows if row[column] == side])


async def insert_queued(transaction: Transaction, turns: Sequence[StoredTurn]) -> None:
    """Insert responses with their items, without appending them to conversations."""
    await insert_items(transaction, _locate(await _insert_responses(transaction, turns), {}))


async def _save(transaction: Transaction, turns: Sequence[StoredTurn]) -> Sequence[None]:
    turns = await _insert_responses(transaction, turns)
    places = await _reserve_places(transaction, turns)
    await insert_items(transaction, _locate(turns, places))
    return [None] * len(turns)


async def _insert_responses(
    transaction: Transaction, turns: Sequence[StoredTurn]
) -> Sequence[StoredTurn]:
    """Insert the responses of turns; return the turns with the items to insert."""
    responses = [turn.response for turn in turns]
    # All nodes lock rows in sorted order, so that they cannot deadlock.
    touched = sorted((it.parent, it.owner, it.created) for it in responses if it.parent)
    if touched:
        await transaction.execute_many(_TOUCH_CHAIN, touched)
        parents = await _find_parents(transaction, responses)
        turns = [_with_history(turn, parents) for turn in turns]
    await transaction.execute_many(_INSERT, [_insert_arguments(turn.response) for turn in turns])
    return turns


async def _find_parents(transaction: Transaction, responses: Sequence[Response]) -> frozenset[str]:
    """Find the parents that still exist, and lock them until the commit."""
    parents_by_owner: dict[str, set[str]] = {}
    for response in responses:
        if response.parent is not None:
            parents_by_owner.setdefault(response.owner, set()).add(response.parent)
    existing: set[str] = set()
    for owner, parents in sorted(parents_by_owner.items()):
        rows = await transaction.fetch(FIND_PARENTS, owner, json_array(sorted(parents)))
        existing.update(row[0] for row in rows)
    return frozenset(existing)


def _with_history(turn: StoredTurn, existing: Collection[str]) -> StoredTurn:
    """Return a turn with its history in its input if its parent no longer exists."""
    if turn.history is None or turn.response.parent in existing:
        return turn
    response = replace(turn.response, parent=None)
    return StoredTurn(response, (*turn.history, *turn.input), turn.output)


def _insert_arguments(response: Response) -> tuple[object, ...]:
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


async def _reserve_places(transaction: Transaction, turns: Sequence[StoredTurn]) -> dict[str, int]:
    """Reserve places in conversations for the items of turns; return them by response id."""
    places: dict[str, int] = {}
    for turn in sorted(turns, key=lambda turn: turn.response.conversation or ""):
        response = turn.response
        if response.conversation is None or response.status not in APPENDED_TO_CONVERSATION:
            continue
        count = len(turn.input) + len(turn.output)
        place = await reserve_places(transaction, response.owner, response.conversation, count)
        # The conversation may have been deleted meanwhile.
        if place is not None:
            places[response.id] = place
    return places


def _locate(
    turns: Iterable[StoredTurn], places: dict[str, int]
) -> Iterator[tuple[ItemLocation, Sequence[Item]]]:
    """Return the items of turns with their locations."""
    for turn in turns:
        owner, response_id = turn.response.owner, turn.response.id
        place = places.get(response_id, 0)
        conversation = turn.response.conversation if response_id in places else None
        yield ItemLocation(owner, response_id, INPUT, conversation, place), turn.input
        place += len(turn.input)
        yield ItemLocation(owner, response_id, OUTPUT, conversation, place), turn.output


async def _delete(transaction: Transaction, batch: Sequence[tuple[str, str]]) -> Sequence[bool]:
    deleted = [await _delete_one(transaction, *one) for one in batch]
    await delete_orphaned_items(transaction)
    return deleted


async def _delete_one(transaction: Transaction, owner: str, response_id: str) -> bool:
    """Mark a response as deleted; remove marked responses that no other response continues."""
    if not await transaction.fetch(_MARK_DELETED, response_id, owner, b"null"):
        return False
    for statement in _DELETE_JOB:
        await transaction.fetch(statement, response_id)
    transaction.notify(response_id)
    last: str | None = response_id
    while last is not None:
        removed = await transaction.fetch(_DELETE_UNCONTINUED, last)
        if not removed:
            break
        await transaction.fetch(_DETACH_ITEMS, last)
        last = removed[0][0]
    return True
