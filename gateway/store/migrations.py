"""The tables, as the steps by which they came to be.

A step that was ever released is never changed: what is to be different gets a step of its own. They
run when a store is opened, all in one transaction; of several nodes that start at once, one does it
and the others wait.
"""

from collections.abc import Sequence
from typing import Final

from gateway.store.database import Database, Transaction
from gateway.store.records import NewerSchemaError

_RESPONSES: Final = (
    """
    CREATE TABLE responses (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        created BIGINT NOT NULL,
        status TEXT NOT NULL,
        model TEXT NOT NULL,
        parent TEXT,
        conversation TEXT,
        -- The first response of those that it continues, or itself.
        chain TEXT NOT NULL REFERENCES responses (id),
        -- When the chain was last used; kept true only on the first of it.
        touched BIGINT NOT NULL,
        -- 1 for one that was deleted while others stood on it.
        deleted SMALLINT NOT NULL DEFAULT 0,
        settings {bytes} NOT NULL,
        body {bytes} NOT NULL
    )
    """,
    "CREATE INDEX responses_by_parent ON responses (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX responses_by_chain ON responses (chain)",
    "CREATE INDEX responses_by_use ON responses (touched) WHERE id = chain",
)

_ITEMS: Final = (
    """
    CREATE TABLE items (
        number {serial},
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        -- Where it belongs: to a response, to a conversation, or to both.
        response TEXT,
        -- 0: input, 1: output.
        side SMALLINT NOT NULL,
        position INTEGER NOT NULL,
        conversation TEXT,
        place BIGINT,
        -- The item of which this one is a repetition; then it has no body of its own.
        source BIGINT REFERENCES items (number),
        body {bytes}
    )
    """,
    "CREATE INDEX items_by_id ON items (id)",
    "CREATE INDEX items_by_response ON items (response) WHERE response IS NOT NULL",
    """
    CREATE UNIQUE INDEX items_by_conversation ON items (conversation, place)
    WHERE conversation IS NOT NULL
    """,
    "CREATE INDEX items_by_source ON items (source) WHERE source IS NOT NULL",
    """
    CREATE INDEX items_of_nobody ON items (number)
    WHERE response IS NULL AND conversation IS NULL
    """,
)

_JOBS: Final = (
    """
    CREATE TABLE jobs (
        response TEXT PRIMARY KEY,
        node TEXT NOT NULL,
        lease DOUBLE PRECISION NOT NULL,
        cancelled SMALLINT NOT NULL DEFAULT 0,
        request {bytes} NOT NULL
    )
    """,
    """
    CREATE TABLE events (
        response TEXT NOT NULL,
        number BIGINT NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (response, number)
    )
    """,
)

_CONVERSATIONS: Final = (
    """
    CREATE TABLE conversations (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        created BIGINT NOT NULL,
        touched DOUBLE PRECISION NOT NULL,
        -- The place of the next item.
        next BIGINT NOT NULL,
        metadata {bytes} NOT NULL
    )
    """,
    "CREATE INDEX conversations_by_use ON conversations (touched)",
)

_COMPLETIONS: Final = (
    """
    CREATE TABLE completions (
        number {serial},
        id TEXT NOT NULL,
        owner TEXT NOT NULL,
        created BIGINT NOT NULL,
        model TEXT NOT NULL,
        metadata {bytes} NOT NULL,
        messages {bytes} NOT NULL,
        body {bytes} NOT NULL
    )
    """,
    # Backends make the ids, and many begin again with the same: owners may share them.
    "CREATE UNIQUE INDEX completions_by_id ON completions (owner, id)",
    "CREATE INDEX completions_by_owner ON completions (owner, number)",
    "CREATE INDEX completions_by_age ON completions (created)",
    """
    CREATE TABLE labels (
        -- The number of a completion.
        completion BIGINT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (completion, name)
    )
    """,
)

_NOTES: Final = (
    """
    CREATE TABLE notes (
        scope TEXT NOT NULL,
        name TEXT NOT NULL,
        text TEXT NOT NULL,
        touched DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (scope, name)
    )
    """,
    "CREATE INDEX notes_by_use ON notes (touched)",
)

_SECRETS: Final = ("CREATE TABLE secrets (name TEXT PRIMARY KEY, value {bytes} NOT NULL)",)

STEPS: Final = ((*_RESPONSES, *_ITEMS, *_JOBS, *_CONVERSATIONS, *_COMPLETIONS, *_NOTES, *_SECRETS),)


async def migrate(database: Database, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Bring a database to the newest version; refuse one that is newer."""
    async with database.transaction() as transaction:
        await transaction.fetch("{alone}")
        version = await _version(transaction)
        if version > len(steps):
            raise NewerSchemaError(
                f"the database has version {version}, and this gateway knows {len(steps)}:"
                " it was made by a later one"
            )
        if version == len(steps):
            return
        for step in steps[version:]:
            for statement in step:
                await transaction.fetch(statement)
        await transaction.fetch("UPDATE schema_version SET version = $1", len(steps))


async def _version(transaction: Transaction) -> int:
    # Who may make no tables can still use those that are there: even to make one only if there is
    # none needs the right to make it.
    if not await transaction.fetch("SELECT 1 FROM {tables} WHERE name = 'schema_version'"):
        await transaction.fetch("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    rows = await transaction.fetch("SELECT version FROM schema_version")
    if not rows:
        await transaction.fetch("INSERT INTO schema_version VALUES (0)")
        return 0
    version: int = rows[0][0]
    return version
