"""Stored chat completions."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from gateway.store.database import Database, GroupCommitter, Row, Transaction
from gateway.store.records import Completion, Listing, Page

_METADATA: Final = msgspec.json.Decoder(dict[str, str])

_COLUMNS: Final = "id, owner, created, body, messages, model, metadata"
_LOAD: Final = f"SELECT {_COLUMNS} FROM completions WHERE id = $1 AND owner = $2"
_NUMBER: Final = "SELECT number FROM completions WHERE id = $1 AND owner = $2"
_INSERT: Final = f"INSERT INTO completions ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)"
# Labels are copies of the metadata for searches.
_INSERT_LABEL: Final = """
    INSERT INTO labels (completion, name, value)
    SELECT number, $3, $4 FROM completions WHERE owner = $1 AND id = $2
"""
_UPDATE_METADATA: Final = """
    UPDATE completions SET metadata = $3 WHERE owner = $1 AND id = $2 RETURNING id
"""
_DELETE_LABELS: Final = """
    DELETE FROM labels
    WHERE completion IN (SELECT number FROM completions WHERE owner = $1 AND id = $2)
"""
_DELETE: Final = "DELETE FROM completions WHERE owner = $1 AND id = $2 RETURNING id"
_ANY_NUMBER: Final = -1


class CompletionStore:
    """Chat completions with their messages."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def save(self, completion: Completion) -> None:
        """Save a completion; replace one of the same owner with the same id."""
        await self._writer.write(_save, completion)

    async def load(self, owner: str, completion_id: str) -> Completion | None:
        """Load a completion."""
        rows = await self._database.fetch(_LOAD, completion_id, owner)
        return _read(rows[0]) if rows else None

    async def list(
        self, owner: str, page: Page, model: str | None, metadata: dict[str, str]
    ) -> Listing[Completion] | None:
        """List completions by model and metadata; return None if `page.after` does not exist."""
        number = _ANY_NUMBER
        if page.after is not None:
            rows = await self._database.fetch(_NUMBER, page.after, owner)
            if not rows:
                return None
            number = rows[0][0]
        statement, arguments = _list_statement(page, model, metadata)
        rows = await self._database.fetch(statement, owner, number, page.row_limit, *arguments)
        return page.listing([_read(row) for row in rows])

    async def update_metadata(
        self, owner: str, completion_id: str, metadata: dict[str, str]
    ) -> bool:
        """Replace the metadata of a completion."""
        return await self._writer.write(_update_metadata, (owner, completion_id, metadata))

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Delete a completion."""
        return await self._writer.write(_delete, (owner, completion_id))


def _read(row: Row) -> Completion:
    completion_id, owner, created, body, messages, model, encoded = row
    metadata = _METADATA.decode(encoded)
    return Completion(completion_id, owner, created, Raw(body), Raw(messages), model, metadata)


def _list_statement(
    page: Page, model: str | None, metadata: dict[str, str]
) -> tuple[str, list[str]]:
    """Return the query for a page, and its arguments from the fourth on."""
    arguments: list[str] = []
    conditions = [f"owner = $1 AND ($2 < 0 OR number {'<' if page.newest_first else '>'} $2)"]
    if model is not None:
        arguments.append(model)
        conditions.append("model = $4")
    for pair in metadata.items():
        arguments += pair
        last = len(arguments) + 3
        conditions.append(
            "EXISTS (SELECT 1 FROM labels WHERE labels.completion = completions.number"
            f" AND labels.name = ${last - 1} AND labels.value = ${last})"
        )
    statement = (
        f"SELECT {_COLUMNS} FROM completions WHERE {' AND '.join(conditions)}"
        f" ORDER BY number {page.sort_order} LIMIT $3"
    )
    return statement, arguments


async def _save(transaction: Transaction, batch: Sequence[Completion]) -> Sequence[None]:
    # Only the last of several completions with the same id is saved.
    latest = {(it.owner, it.id): it for it in batch}
    # All nodes lock rows in sorted order, so that they cannot deadlock.
    keys = sorted(latest)
    await transaction.execute_many(_DELETE_LABELS, keys)
    await transaction.execute_many(_DELETE, keys)
    await transaction.execute_many(_INSERT, [_insert_arguments(it) for it in latest.values()])
    await _insert_labels(transaction, ((*key, it.metadata) for key, it in latest.items()))
    return [None] * len(batch)


def _insert_arguments(completion: Completion) -> tuple[object, ...]:
    return (
        completion.id,
        completion.owner,
        completion.created,
        bytes(completion.body),
        bytes(completion.messages),
        completion.model,
        msgspec.json.encode(completion.metadata),
    )


async def _insert_labels(
    transaction: Transaction, completions: Iterable[tuple[str, str, dict[str, str]]]
) -> None:
    rows = [(*key, *pair) for *key, metadata in completions for pair in metadata.items()]
    if rows:
        await transaction.execute_many(_INSERT_LABEL, rows)


async def _update_metadata(
    transaction: Transaction, batch: Sequence[tuple[str, str, dict[str, str]]]
) -> Sequence[bool]:
    updated: list[bool] = []
    for owner, completion_id, metadata in batch:
        encoded = msgspec.json.encode(metadata)
        found = bool(await transaction.fetch(_UPDATE_METADATA, owner, completion_id, encoded))
        if found:
            await transaction.fetch(_DELETE_LABELS, owner, completion_id)
            await _insert_labels(transaction, [(owner, completion_id, metadata)])
        updated.append(found)
    return updated


async def _delete(transaction: Transaction, batch: Sequence[tuple[str, str]]) -> Sequence[bool]:
    deleted: list[bool] = []
    for owner, completion_id in batch:
        await transaction.fetch(_DELETE_LABELS, owner, completion_id)
        deleted.append(bool(await transaction.fetch(_DELETE, owner, completion_id)))
    return deleted
