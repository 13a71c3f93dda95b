"""What a connection remembers of answers that are not stored.

Each lane remembers its latest few responses, so that what was forked a moment ago is still there;
together they hold no more bytes than one request may have, and the oldest go first. A longer
history could not be sent again by the client either.
"""

from dataclasses import dataclass
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from gateway.store import ChainLink, Item
from gateway.turns.history import chain_items
from gateway.turns.service import TurnService
from gateway.turns.turn import Turn

# The protocol asks for one.
_LATEST: Final = 4


@dataclass(frozen=True, slots=True)
class _Remembered:
    lane: str | None
    model: str
    items: tuple[Item, ...]
    size: int


class ResponseCache:
    """What one connection remembers."""

    def __init__(self, ledger: TurnService, limit: int) -> None:
        self._ledger = ledger
        # In bytes.
        self._limit = limit
        # The oldest first.
        self._known: dict[str, _Remembered] = {}

    def of(self, lane: str | None) -> "StreamResponseCache":
        """Give it as one lane has it: any lane may begin where another has come to."""
        return StreamResponseCache(self, lane)

    def get(self, response_id: str | None) -> _Remembered | None:
        """Give what is remembered of a response."""
        return None if response_id is None else self._known.get(response_id)

    def add(self, lane: str | None, plan: Turn, response: Raw) -> None:
        """Remember a response, and forget others for it."""
        turn = self._ledger.turn(plan, response)
        if turn.response.status == "failed":
            return
        before = (*plan.history, *map(_apart, plan.input))
        output = tuple(map(_apart, turn.output))
        step = ChainLink(plan.response_id, turn.response.status, Raw(b"null"), before, output)
        items = tuple(chain_items((step,)))
        size = sum(len(bytes(item.body)) for item in items)
        self._known[plan.response_id] = _Remembered(lane, plan.model, items, size)
        self._forget_older(lane)
        self._forget_much()

    def drop(self, lane: str | None, response_id: str | None) -> None:
        """Forget a response of a lane: what continued it there has failed."""
        known = self.get(response_id)
        if response_id is not None and known is not None and known.lane == lane:
            del self._known[response_id]

    def _forget_older(self, lane: str | None) -> None:
        own = [name for name, known in self._known.items() if known.lane == lane]
        for name in own[:-_LATEST]:
            del self._known[name]

    def _forget_much(self) -> None:
        size = sum(known.size for known in self._known.values())
        while size > self._limit:
            size -= self._known.pop(next(iter(self._known))).size


def _apart(item: Item) -> Item:
    """Give an item that does not hold the whole message which it came in."""
    return replace(item, body=item.body.copy())


class StreamResponseCache:
    """What one lane remembers, as the memory asks for it (see `Nearby`)."""

    def __init__(self, whole: ResponseCache, lane: str | None) -> None:
        self._whole = whole
        self._lane = lane

    def find(self, response_id: str) -> tuple[Item, ...] | None:
        """Give the whole history up to a response, that one included."""
        known = self._whole.get(response_id)
        return None if known is None else known.items

    def model_of(self, response_id: str | None) -> str | None:
        """Tell which model made a response."""
        known = self._whole.get(response_id)
        return None if known is None else known.model

    def remember(self, plan: Turn, response: Raw) -> None:
        """Remember an answer."""
        self._whole.add(self._lane, plan, response)

    def forget(self, response_id: str | None) -> None:
        """Forget an answer of this lane."""
        self._whole.drop(self._lane, response_id)
