"""Encrypted reasoning, stored by tool call id for clients that do not carry the reasoning."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gateway.store.database import Database, GroupCommitter, Transaction, json_array

# Ids of calls are short, and an index entry has a maximum size.
_MAX_NAME_LENGTH: Final = 256

# The scope of the models of a backend that have sent reasoning.
_MODELS: Final = "{} models"
# A model that has sent no reasoning is looked up again after this time: it may have sent its first
# reasoning through another node.
_RECHECK_SECONDS: Final = 1.0
# A model that sends reasoning is saved again after this time, so that retention keeps it.
_RESAVE_SECONDS: Final = 3600.0
# Clients choose the names of models freely.
_MAX_MODELS: Final = 1000

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
        # By scope and model: when it was last saved that it sends reasoning, or when it was last
        # looked up in vain.
        self._saved: dict[tuple[str, str], float] = {}
        self._absent: dict[tuple[str, str], float] = {}

    async def save(self, scope: str, texts: Mapping[str, str]) -> None:
        """Save texts under their names; replace older texts."""
        if texts:
            await self._writer.write(_save, (scope, texts))

    async def find(self, scope: str, names: Iterable[str]) -> dict[str, str]:
        """Find the texts that are still stored."""
        rows = await self._database.fetch_small(FIND_NOTES, scope, json_array(names))
        return dict(map(tuple, rows))

    # The models that send reasoning, so that nothing is looked up for other models.

    async def add_model(self, backend: str, model: str) -> None:
        """Save that a model of a backend sends reasoning."""
        key = _MODELS.format(backend), model[:_MAX_NAME_LENGTH]
        now = asyncio.get_running_loop().time()
        if key in self._saved and now - self._saved[key] < _RESAVE_SECONDS:
            return
        await self.save(key[0], {key[1]: ""})
        _add(self._saved, key, now)

    async def has_model(self, backend: str, model: str) -> bool:
        """Whether a model of a backend has sent reasoning, to any node."""
        key = _MODELS.format(backend), model[:_MAX_NAME_LENGTH]
        if key in self._saved:
            return True
        now = asyncio.get_running_loop().time()
        if key in self._absent and now - self._absent[key] < _RECHECK_SECONDS:
            return False
        # Set before the lookup, so that a database that cannot be reached is not tried each time.
        _add(self._absent, key, now)
        if await self.find(key[0], (key[1],)):
            # Not saved by this process, so that the next reasoning saves it again.
            _add(self._saved, key, now - _RESAVE_SECONDS)
            return True
        return False


def _add(times: dict[tuple[str, str], float], key: tuple[str, str], now: float) -> None:
    if len(times) >= _MAX_MODELS:
        times.clear()
    times[key] = now


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
