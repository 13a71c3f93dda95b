"""Encrypted reasoning, stored by tool call id for clients that cannot carry the reasoning."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gateway.store.database import Database, GroupCommitter, Transaction, json_array

# Ids of calls are short, and an index entry has a maximum size.
_MAX_NAME_LENGTH: Final = 256

FIND_NOTES: Final = "SELECT name, text FROM notes WHERE scope = $1 AND name {in_array}"
_SAVE: Final = """
    INSERT INTO notes (scope, name, text, touched) VALUES ($1, $2, $3, {now})
    ON CONFLICT (scope, name) DO UPDATE SET text = excluded.text, touched = excluded.touched
"""


class ReasoningNoteStore:
    """Encrypted texts, by scope (one client at one backend) and name."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def save(self, scope: str, texts: Mapping[str, str]) -> None:
        """Save texts under their names; replace older texts."""
        if texts:
            await self._writer.write(_save, (scope, texts))

    async def find(self, scope: str, names: Iterable[str]) -> dict[str, str]:
        """Find the texts that are still stored."""
        rows = await self._database.fetch_small(FIND_NOTES, scope, json_array(names))
        return dict(map(tuple, rows))


async def _save(
    transaction: Transaction, batch: Sequence[tuple[str, Mapping[str, str]]]
) -> Sequence[None]:
    rows = {
        (scope, name): text
        for scope, texts in batch
        for name, text in texts.items()
        if len(name) <= _MAX_NAME_LENGTH
    }
    # All nodes lock rows in sorted order, so that they cannot deadlock.
    await transaction.execute_many(_SAVE, [(*key, text) for key, text in sorted(rows.items())])
    return [None] * len(batch)
