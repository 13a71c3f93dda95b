"""Secrets that all nodes on one database share; the first node creates them."""

from collections.abc import Sequence
from typing import Final

from gateway.store.database import GroupCommitter, Transaction

# If two nodes start at once, the second waits for the commit of the first and inserts nothing.
_INSERT: Final = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
_LOAD: Final = "SELECT value FROM secrets WHERE name = $1"


class SecretStore:
    """Secrets by name, stored for ever."""

    def __init__(self, writer: GroupCommitter) -> None:
        self._writer = writer

    async def get_or_create(self, name: str, new: bytes) -> bytes:
        """Return the secret of this name; save the new value if there is none."""
        return await self._writer.write(_get_or_create, (name, new))


async def _get_or_create(
    transaction: Transaction, batch: Sequence[tuple[str, bytes]]
) -> Sequence[bytes]:
    secrets: list[bytes] = []
    for name, new in batch:
        await transaction.fetch(_INSERT, name, new)
        rows = await transaction.fetch(_LOAD, name)
        secrets.append(bytes(rows[0][0]))
    return secrets
