"""Secrets that all nodes on one database share: whoever comes first makes them."""

from collections.abc import Sequence
from typing import Final

from gateway.store.database import GroupCommitter, Transaction

# Of two nodes that start at once, the second waits here for the first, and then changes nothing.
_OFFER: Final = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
_READ: Final = "SELECT value FROM secrets WHERE name = $1"


class SecretStore:
    """Keeps secrets for ever, by their names."""

    def __init__(self, writer: GroupCommitter) -> None:
        self._writer = writer

    async def get_or_create(self, name: str, offered: bytes) -> bytes:
        """Give the secret of this name; if there is none yet, it is the one that is offered."""
        return await self._writer.write(_agree, (name, offered))


async def _agree(transaction: Transaction, wanted: Sequence[tuple[str, bytes]]) -> Sequence[bytes]:
    return [await _agree_on_one(transaction, name, offered) for name, offered in wanted]


async def _agree_on_one(transaction: Transaction, name: str, offered: bytes) -> bytes:
    await transaction.fetch(_OFFER, name, offered)
    rows = await transaction.fetch(_READ, name)
    return bytes(rows[0][0])
