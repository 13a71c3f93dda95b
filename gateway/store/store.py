"""The store: everything that the gateway saves, in one SQLite or PostgreSQL database."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from gateway.store.completions import CompletionStore
from gateway.store.conversations import ConversationStore
from gateway.store.database import Database, GroupCommitter, Password, Transaction
from gateway.store.items import delete_orphaned_items
from gateway.store.jobs import JobStore
from gateway.store.migrations import migrate
from gateway.store.reasoning_notes import ReasoningNoteStore
from gateway.store.records import StoreError, StoreUnavailableError
from gateway.store.responses import ResponseStore
from gateway.store.secrets import SecretStore

_SQLITE_SCHEME: Final = "sqlite:"


class Store:
    """All stored objects.

    Every object belongs to an owner, the digest of the API key that it was created with, and does
    not exist for other owners. For a missing object, methods return None or False. A change is
    committed when its method returns: it survives a crash and is visible to all nodes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = GroupCommitter(database)
        self.responses = ResponseStore(database, self._writer)
        self.jobs = JobStore(database, self._writer, self.responses)
        self.conversations = ConversationStore(database, self._writer)
        self.completions = CompletionStore(database, self._writer)
        self.reasoning_notes = ReasoningNoteStore(database, self._writer)
        self.secrets = SecretStore(self._writer)

    async def now(self) -> int:
        """Return the seconds since 1970, by the clock of the database that all nodes share."""
        return int((await self._database.fetch("SELECT {now}"))[0][0])

    async def delete_unused(self, before: int, limit: int = 100) -> int:
        """Delete objects last used before this time; return their number.

        Call this until it returns 0: a call deletes at most `limit` objects of each kind, because
        other writers wait for it. Continuing a response uses its whole chain.
        """
        return await self._writer.write(_delete_unused, (before, limit), long=True)

    async def close(self) -> None:
        """Finish pending writes and close the database."""
        await self._writer.close()
        await self._database.close()


async def open_store(url: str, password: Password = None) -> Store:
    """Open a database and run its migrations; raise `StoreError` if it cannot be used.

    The URL is `sqlite:FILE`, `postgresql://…`, or `memory:` for a store that ends with the process.
    """
    database = await open_database(url, password)
    try:
        await migrate(database)
    except BaseException as error:
        await database.close()
        if isinstance(error, StoreUnavailableError):
            raise StoreError(f"the database cannot be used: {error.__cause__}") from error
        raise
    return Store(database)


async def open_database(url: str, password: Password = None) -> Database:
    """Connect to a database; import only the driver that it needs."""
    if not url.startswith((_SQLITE_SCHEME, "memory:")):
        from gateway.store.postgresql import open_postgresql  # noqa: PLC0415 - slow to import

        return await open_postgresql(url, password)
    from gateway.store.sqlite import open_sqlite  # noqa: PLC0415 - not needed for PostgreSQL

    path = url.removeprefix(_SQLITE_SCHEME) if url.startswith(_SQLITE_SCHEME) else ""
    try:
        return await open_sqlite(path)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


# Retention. For each kind of object, a query for the keys of unused objects and the statements that
# delete one object.
_MEMBERS: Final = "(SELECT id FROM responses WHERE chain = $1)"
_CHAINS: Final = (
    "SELECT id FROM responses WHERE id = chain AND touched < $1 ORDER BY touched LIMIT $2",
    f"UPDATE items SET response = NULL WHERE response IN {_MEMBERS}",
    f"DELETE FROM events WHERE response IN {_MEMBERS}",
    f"DELETE FROM jobs WHERE response IN {_MEMBERS}",
    "DELETE FROM responses WHERE chain = $1",
)
# A chain that started in a conversation needs the items before it. The subquery is a single value,
# because PostgreSQL may read all responses for an EXISTS.
_CONVERSATIONS: Final = (
    """
    SELECT id FROM conversations
    WHERE touched < $1 AND $1 > COALESCE((
        SELECT MAX(responses.touched) FROM items JOIN responses ON responses.id = items.response
        WHERE items.conversation = conversations.id
    ), 0)
    LIMIT $2
    """,
    "UPDATE items SET conversation = NULL, place = NULL WHERE conversation = $1",
    "DELETE FROM conversations WHERE id = $1",
)
_COMPLETIONS: Final = (
    "SELECT number FROM completions WHERE created < $1 LIMIT $2",
    "DELETE FROM labels WHERE completion = $1",
    "DELETE FROM completions WHERE number = $1",
)
_NOTES: Final = (
    "SELECT scope, name FROM notes WHERE touched < $1 LIMIT $2",
    "DELETE FROM notes WHERE scope = $1 AND name = $2",
)


async def _delete_unused(
    transaction: Transaction, batch: Sequence[tuple[int, int]]
) -> Sequence[int]:
    counts: list[int] = []
    for before, limit in batch:
        count = 0
        for select_keys, *deletions in (_CHAINS, _CONVERSATIONS, _COMPLETIONS, _NOTES):
            keys = [tuple(row) for row in await transaction.fetch(select_keys, before, limit)]
            count += len(keys)
            for statement in deletions if keys else ():
                await transaction.execute_many(statement, keys)
        await delete_orphaned_items(transaction)
        counts.append(count)
    return counts
