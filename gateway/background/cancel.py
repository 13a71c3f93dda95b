"""Ends a response that is made in the background, whichever node works at it."""

from typing import Final

import msgspec
from msgspec import Struct

from gateway.background.errors import NotCancellableError
from gateway.store import RUNNING, Response, Store, StoredTurn
from gateway.turns.errors import ResponseNotFoundError
from gateway.turns.retrieval import find_turn

# So long the node that works at it may take, if it lives.
_PATIENCE: Final = 10.0


class _Made(Struct):
    background: bool | None = None


_MADE: Final = msgspec.json.Decoder(_Made)


def is_background(response: Response) -> bool:
    """Tell whether a response was made in the background, so that there are events of it."""
    return bool(_MADE.decode(response.body).background)


async def cancel(store: Store, owner: str, response_id: str, lease: float) -> StoredTurn:
    """End a response; give it as it then is.

    If its node died, whoever takes it over ends it. If nobody does so in time, it is given as it
    is: the wish stays in the store.
    """
    turn = await find_turn(store, owner, response_id)
    if turn.response.status in RUNNING:
        await store.jobs.cancel(owner, response_id)
        settled = await store.jobs.settled(owner, response_id, lease + _PATIENCE)
        if settled is None:
            raise ResponseNotFoundError(response_id)
        turn = settled
    status = turn.response.status
    background = is_background(turn.response)
    if not background or (status != "cancelled" and status not in RUNNING):
        raise NotCancellableError(status, background=background)
    return turn
