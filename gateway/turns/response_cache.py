"""The cached responses of a connection, which can be continued without being stored.

Each stream of a connection keeps its latest responses. All together are limited to the size of one
request, because the client could not send a longer history itself.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gateway.store import Item, StoredTurn
from gateway.turns.history import History, append_output
from gateway.turns.turn import Turn

# Open Responses requires one. With several, a client can continue an earlier response.
_MAX_RESPONSES_PER_STREAM: Final = 4


class CachedResponse(Struct, frozen=True):
    """The history up to and including a response, and the stream of the response."""

    stream_id: str | None
    history: History
    size: int


class ResponseCache:
    """The responses of one connection, for the turns of one of its streams."""

    def __init__(
        self, responses: dict[str, CachedResponse], max_bytes: int, stream_id: str | None
    ) -> None:
        # By id, the oldest first; shared by all streams of the connection.
        self._responses = responses
        self._max_bytes = max_bytes
        self._stream_id = stream_id

    def find(self, response_id: str | None) -> History | None:
        """Return the history up to and including a response of any stream."""
        cached = self._responses.get(response_id or "")
        return None if cached is None else cached.history

    def add(self, turn: Turn, stored: StoredTurn) -> None:
        """Add a response, unless it failed; remove the oldest responses."""
        if stored.response.status == "failed":
            return
        items = [*turn.history, *map(_copied, turn.input)]
        append_output(items, tuple(map(_copied, stored.output)))
        history = History(tuple(items), model=turn.model)
        size = sum(len(bytes(item.body)) for item in history.items)
        responses = self._responses
        responses[turn.response_id] = CachedResponse(self._stream_id, history, size)
        own = [name for name, it in responses.items() if it.stream_id == self._stream_id]
        for name in own[:-_MAX_RESPONSES_PER_STREAM]:
            del responses[name]
        total = sum(it.size for it in responses.values())
        while total > self._max_bytes:
            total -= responses.pop(next(iter(responses))).size

    def discard(self, response_id: str | None) -> None:
        """Remove a response of this stream, because a turn that continued it failed."""
        cached = self._responses.get(response_id or "")
        if response_id is not None and cached and cached.stream_id == self._stream_id:
            del self._responses[response_id]


def _copied(item: Item) -> Item:
    """Copy an item, because its body would keep the whole client message in memory."""
    return replace(item, body=item.body.copy())
