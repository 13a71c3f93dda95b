"""What a request asks of the memory, and what was found there."""

import re
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Raw

from gateway.store import Item

_PLACE: Final = re.compile(r"input\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, before it is answered."""

    owner: str
    model: str
    # For the backend: the history stands before the input, and nothing refers to it any more.
    body: bytes
    store: bool
    background: bool
    stream: bool
    response_id: str
    created: int
    # What the client says that it continues, and that response if it is in the store.
    previous: str | None
    parent: str | None
    conversation: str | None
    # The new items, as they are kept, and those that stand before them.
    input: tuple[Item, ...]
    history: tuple[Item, ...]
    # What the response says of itself, whatever the backend says.
    stamp: dict[str, object]

    @property
    def kept_input(self) -> tuple[Item, ...]:
        """Give the items that are kept with this turn: with nothing to link to, the history too."""
        linked = self.parent is not None or self.conversation is not None
        return self.input if linked else (*self.history, *self.input)

    def client_path(self, path: str) -> str:
        """Name a place of the body as the client knows it, who did not write the history."""
        return _PLACE.sub(self._placed, path) if self.history else path

    def _placed(self, found: re.Match[str]) -> str:
        place = int(found[1]) - len(self.history)
        return f"input[{place}]" if place >= 0 else f"history[{int(found[1])}]"


class UnstoredResponses(Protocol):
    """What a connection remembers of answers that are not stored."""

    def find(self, response_id: str) -> tuple[Item, ...] | None:
        """Give the whole history up to a response, that one included."""
        ...

    def remember(self, plan: Turn, response: Raw) -> None:
        """Remember an answer."""
        ...
