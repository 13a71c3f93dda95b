"""What the store needs of a database, so that its SQL is written once for both.

Statements are written as PostgreSQL has them, `$1` for the first argument. A few words in braces
stand for what the two databases say differently:

    {bytes}   the type of bytes
    {serial}  a column that numbers its rows
    {now}     seconds since 1970, by the clock of the database: those of machines differ
    {among}   after a column: it is one of the texts of a JSON array in $2
    {shared}  after a query: until the commit, nobody changes or deletes the rows that it gives
    {alone}   waits until no other transaction is past this point
    {tables}  a table of all tables, with their `name`
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from gateway.store.signals import Signals

Row: TypeAlias = Sequence[Any]


class Transaction(Protocol):
    """Statements that are done together or not at all."""

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement and give its rows."""
        ...

    async def each(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement once for each row of arguments."""
        ...

    def announce(self, name: str) -> None:
        """Tell those who wait for this name, on all nodes, once it is committed."""
        ...


class Database(Protocol):
    """One database, and this process's connections to it."""

    signals: Signals
    # After so many seconds, who waits for a signal looks for itself.
    poll_interval: float

    async def fetch(self, statement: str, *arguments: object) -> list[Row]:
        """Run a statement that only reads, on what has been committed."""
        ...

    async def fetch_small(self, statement: str, *arguments: object) -> list[Row]:
        """Do the same with a statement that finds a few small rows by an index."""
        ...

    def transaction(self, *, long: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction; commit it in the end, or roll it back if anything is raised.

        One that may change any number of rows, and not just those that a request brings, is long.
        """
        ...

    async def listen(self) -> None:
        """See to it that the announcements of other nodes arrive here, if they can."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


def sanitize_text(text: str) -> str:
    """Give a text that every database takes: names come from clients, and may be anything.

    PostgreSQL keeps no NUL, and neither keeps half of a surrogate pair. With something else in its
    place a name is found nowhere, as it should be.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def plain_row(row: Sequence[object]) -> tuple[object, ...]:
    """Give the arguments of a statement, all texts among them plain."""
    return tuple([sanitize_text(value) if isinstance(value, str) else value for value in row])


def render_sql(statement: str, words: dict[str, str]) -> str:
    """Put the words of one database into a statement."""
    for word, meaning in words.items():
        statement = statement.replace(word, meaning)
    return statement
