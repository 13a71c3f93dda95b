"""Forgetting what nobody has used for long."""

from collections.abc import Sequence
from typing import Final

from gateway.store.database import Transaction
from gateway.store.responses import delete_orphaned_items

_OLD_CHAINS: Final = """
    SELECT id FROM responses WHERE id = chain AND touched < $1 ORDER BY touched LIMIT $2
"""
_MEMBERS: Final = "(SELECT id FROM responses WHERE chain = $1)"
_FORGET_CHAIN: Final = (
    f"UPDATE items SET response = NULL WHERE response IN {_MEMBERS}",
    f"DELETE FROM events WHERE response IN {_MEMBERS}",
    f"DELETE FROM jobs WHERE response IN {_MEMBERS}",
    "DELETE FROM responses WHERE chain = $1",
)
# Whoever continues a response that was made in one stands on what had been said there before. Asked
# as a value: to ask whether there is such a response, PostgreSQL may read all that there are.
_OLD_CONVERSATIONS: Final = """
    SELECT id FROM conversations
    WHERE touched < $1 AND $1 > COALESCE((
        SELECT MAX(responses.touched) FROM items JOIN responses ON responses.id = items.response
        WHERE items.conversation = conversations.id
    ), 0)
    LIMIT $2
"""
_FORGET_CONVERSATION: Final = (
    "UPDATE items SET conversation = NULL, place = NULL WHERE conversation = $1",
    "DELETE FROM conversations WHERE id = $1",
)
_OLD_COMPLETIONS: Final = "SELECT number FROM completions WHERE created < $1 LIMIT $2"
_FORGET_COMPLETION: Final = (
    "DELETE FROM labels WHERE completion = $1",
    "DELETE FROM completions WHERE number = $1",
)
_OLD_NOTES: Final = "SELECT scope, name FROM notes WHERE touched < $1 LIMIT $2"
_FORGET_NOTE: Final = ("DELETE FROM notes WHERE scope = $1 AND name = $2",)

_KINDS: Final = (
    (_OLD_CHAINS, _FORGET_CHAIN),
    (_OLD_CONVERSATIONS, _FORGET_CONVERSATION),
    (_OLD_COMPLETIONS, _FORGET_COMPLETION),
    (_OLD_NOTES, _FORGET_NOTE),
)


async def sweep(transaction: Transaction, wanted: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Forget what was last used before a time; give how much."""
    return [await _sweep(transaction, *one) for one in wanted]


async def _sweep(transaction: Transaction, before: int, limit: int) -> int:
    count = 0
    for find, forget in _KINDS:
        names = [tuple(row) for row in await transaction.fetch(find, before, limit)]
        count += len(names)
        for statement in forget if names else ():
            await transaction.each(statement, names)
    await delete_orphaned_items(transaction)
    return count
