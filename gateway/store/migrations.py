"""The database schema and its migrations.

A released migration is never changed; every change of the schema is a new migration. Opening a
store runs all new migrations in one transaction, while other nodes wait.
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
        -- The first response of its chain, or itself.
        chain TEXT NOT NULL REFERENCES responses (id),
        -- When the chain was last used; only maintained in its first response.
        touched BIGINT NOT NULL,
        -- 1 if it was deleted while others continued it.
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
        -- It belongs to a response, to a conversation, or to both.
        response TEXT,
        -- 0: input, 1: output.
        side SMALLINT NOT NULL,
        position INTEGER NOT NULL,
        conversation TEXT,
        place BIGINT,
        -- The item whose body it shares; then it has none of its own.
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
    # Backends choose the ids, and some repeat them: completions of two owners may have the same id.
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

MIGRATIONS: Final = (
    (*_RESPONSES, *_ITEMS, *_JOBS, *_CONVERSATIONS, *_COMPLETIONS, *_NOTES, *_SECRETS),
)


async def migrate(database: Database, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Run the new migrations; raise `NewerSchemaError` if the database has later ones."""
    newest = len(migrations)
    async with database.transaction() as transaction:
        await transaction.fetch("{global_lock}")
        version = await _load_version(transaction)
        if version > newest:
            raise NewerSchemaError(
                f"the database has schema version {version}, but this release supports only"
                f" {newest}; upgrade the gateway"
            )
        for statements in migrations[version:]:
            for statement in statements:
                await transaction.fetch(statement)
        if version < newest:
            await transaction.fetch("UPDATE schema_version SET version = $1", newest)


async def _load_version(transaction: Transaction) -> int:
    # CREATE TABLE IF NOT EXISTS would fail for a role that may use tables but not create them.
    if not await transaction.fetch("SELECT 1 FROM {tables} WHERE name = 'schema_version'"):
        await transaction.fetch("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    rows = await transaction.fetch("SELECT version FROM schema_version")
    if not rows:
        await transaction.fetch("INSERT INTO schema_version VALUES (0)")
        return 0
    version: int = rows[0][0]
    return version
