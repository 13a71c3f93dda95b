"""Stored chat completions."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from gateway.store.database import Database, GroupCommitter, Row, Transaction
from gateway.store.records import Completion, Listing, Page, listing, order_of, size_of

_METADATA: Final = msgspec.json.Decoder(dict[str, str])

_COLUMNS: Final = "id, owner, created, body, messages, model, metadata"
_GET: Final = f"SELECT {_COLUMNS} FROM completions WHERE id = $1 AND owner = $2"
_NUMBER: Final = "SELECT number FROM completions WHERE id = $1 AND owner = $2"
# Before the first and after the last.
_ANYWHERE: Final = -1


def _read(row: Row) -> Completion:
    name, owner, created, body, messages, model, metadata = row
    labels = _METADATA.decode(metadata)
    return Completion(name, owner, created, Raw(body), Raw(messages), model, labels)


class CompletionStore:
    """Keeps chat completions."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def save(self, completion: Completion) -> None:
        """Keep a completion."""
        await self._writer.write(_save, completion)

    async def load(self, owner: str, completion_id: str) -> Completion | None:
        """Give a completion."""
        rows = await self._database.fetch(_GET, completion_id, owner)
        return _read(rows[0]) if rows else None

    async def list(
        self, owner: str, page: Page, model: str | None, metadata: dict[str, str]
    ) -> Listing[Completion] | None:
        """Give a part of the completions that fit."""
        number = await self._start(owner, page)
        if number is None:
            return None
        statement, arguments = _list(page, model, metadata)
        rows = await self._database.fetch(statement, owner, number, size_of(page), *arguments)
        return listing([_read(row) for row in rows], page)

    async def _start(self, owner: str, page: Page) -> int | None:
        if page.after is None:
            return _ANYWHERE
        rows = await self._database.fetch(_NUMBER, page.after, owner)
        return rows[0][0] if rows else None

    async def update_metadata(
        self, owner: str, completion_id: str, metadata: dict[str, str]
    ) -> bool:
        """Give it other metadata."""
        return await self._writer.write(_update, (owner, completion_id, metadata))

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Forget a completion."""
        return await self._writer.write(_delete, (owner, completion_id))


def _list(page: Page, model: str | None, metadata: dict[str, str]) -> tuple[str, list[str]]:
    """Write the query for a part of a list; the arguments are those after the first three."""
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
    where = " AND ".join(conditions)
    statement = (
        f"SELECT {_COLUMNS} FROM completions WHERE {where}"
        f" ORDER BY number {order_of(page)} LIMIT $3"
    )
    return statement, arguments


_INSERT: Final = f"""
    INSERT INTO completions ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_LABEL: Final = """
    INSERT INTO labels (completion, name, value)
    SELECT number, $3, $4 FROM completions WHERE owner = $1 AND id = $2
"""
_UPDATE: Final = """
    UPDATE completions SET metadata = $3 WHERE owner = $1 AND id = $2 RETURNING id
"""
_UNLABEL: Final = """
    DELETE FROM labels
    WHERE completion IN (SELECT number FROM completions WHERE owner = $1 AND id = $2)
"""
_DELETE: Final = "DELETE FROM completions WHERE owner = $1 AND id = $2 RETURNING id"


async def _save(transaction: Transaction, batch: Sequence[Completion]) -> Sequence[None]:
    """Keep completions; of several that an owner knows by one id, the latest."""
    latest = {(it.owner, it.id): it for it in batch}
    # In the same order on all nodes, so that they cannot wait for each other.
    keys = sorted(latest)
    await transaction.execute_many(_UNLABEL, keys)
    await transaction.execute_many(_DELETE, keys)
    await transaction.execute_many(_INSERT, [_row(it) for it in latest.values()])
    await _label(transaction, ((*key, it.metadata) for key, it in latest.items()))
    return [None] * len(batch)


def _row(completion: Completion) -> tuple[object, ...]:
    return (
        completion.id,
        completion.owner,
        completion.created,
        bytes(completion.body),
        bytes(completion.messages),
        completion.model,
        msgspec.json.encode(completion.metadata),
    )


async def _label(
    transaction: Transaction, labels: Iterable[tuple[str, str, dict[str, str]]]
) -> None:
    rows = [(*key, *pair) for *key, metadata in labels for pair in metadata.items()]
    if rows:
        await transaction.execute_many(_LABEL, rows)


async def _update(
    transaction: Transaction, wanted: Sequence[tuple[str, str, dict[str, str]]]
) -> Sequence[bool]:
    updated: list[bool] = []
    for owner, name, metadata in wanted:
        encoded = msgspec.json.encode(metadata)
        found = bool(await transaction.fetch(_UPDATE, owner, name, encoded))
        if found:
            await transaction.fetch(_UNLABEL, owner, name)
            await _label(transaction, [(owner, name, metadata)])
        updated.append(found)
    return updated


async def _delete(transaction: Transaction, wanted: Sequence[tuple[str, str]]) -> Sequence[bool]:
    deleted: list[bool] = []
    for owner, name in wanted:
        await transaction.fetch(_UNLABEL, owner, name)
        deleted.append(bool(await transaction.fetch(_DELETE, owner, name)))
    return deleted
