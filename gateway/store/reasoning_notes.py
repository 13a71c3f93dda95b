"""Sealed texts that clients cannot carry, by the ids of calls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gateway.store.database import Database, GroupCommitter, Transaction, sanitize_text

# Calls have short ids; an index takes only so much.
_LONGEST_NAME: Final = 256

FIND_NOTES: Final = "SELECT name, text FROM notes WHERE scope = $1 AND name {among}"
_KEEP: Final = """
    INSERT INTO notes (scope, name, text, touched) VALUES ($1, $2, $3, {now})
    ON CONFLICT (scope, name) DO UPDATE SET text = excluded.text, touched = excluded.touched
"""


class ReasoningNoteStore:
    """Keeps texts until nobody has used them for long."""

    def __init__(self, database: Database, writer: GroupCommitter) -> None:
        self._database = database
        self._writer = writer

    async def save(self, scope: str, texts: Mapping[str, str]) -> None:
        """Keep some texts; a name that is known gets the new one."""
        if texts:
            await self._writer.write(_keep, (scope, texts))

    async def find(self, scope: str, names: Iterable[str]) -> dict[str, str]:
        """Find those that are still there."""
        wanted = msgspec.json.encode([sanitize_text(name) for name in names]).decode()
        return dict(map(tuple, await self._database.fetch_small(FIND_NOTES, scope, wanted)))


async def _keep(
    transaction: Transaction, wanted: Sequence[tuple[str, Mapping[str, str]]]
) -> Sequence[None]:
    rows = {
        (scope, name): text
        for scope, texts in wanted
        for name, text in texts.items()
        if len(name) <= _LONGEST_NAME
    }
    # In the same order on all nodes, so that they cannot wait for each other.
    await transaction.execute_many(_KEEP, [(*key, text) for key, text in sorted(rows.items())])
    return [None] * len(wanted)
