"""Reads a stored response as clients are shown it, and what its input was."""

from typing import Final

import msgspec
from msgspec import Raw

from gateway.store import Item, Store, StoredTurn
from gateway.turns.errors import ResponseNotFoundError
from gateway.turns.history import whole_chain

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


async def find_turn(store: Store, owner: str, response_id: str) -> StoredTurn:
    """Find a response; raise `ResponseNotFound` if this owner has none of that name."""
    turn = await store.responses.get(owner, response_id)
    if turn is None:
        raise ResponseNotFoundError(response_id)
    return turn


def response_body(turn: StoredTurn) -> bytes:
    """Write the object of a response; its items, which are kept apart, are put back."""
    if not turn.output:
        return bytes(turn.response.body)
    output = {"output": [item.body for item in turn.output]}
    return _ENCODER.encode(_OBJECT.decode(turn.response.body) | output)


async def input_of(store: Store, owner: str, response_id: str) -> tuple[Item, ...]:
    """Give all that a response was made from, the oldest first: what it continues comes with it."""
    turn = await find_turn(store, owner, response_id)
    return (*await _before(store, owner, turn), *turn.input)


async def _before(store: Store, owner: str, turn: StoredTurn) -> tuple[Item, ...]:
    response = turn.response
    if response.parent is not None:
        steps = await store.responses.chain(owner, response.id) or ()
        return tuple(await whole_chain(store, owner, steps[:-1])) if steps else ()
    if response.conversation is not None:
        # Where it was deleted since, what the response itself brought is still there.
        return await store.conversations.before(owner, response.conversation, response.id)
    return ()
