"""A turn: one request with its history, before its reply."""

from dataclasses import dataclass

from gateway.http.request_body import ParsedRequest
from gateway.store import Item


@dataclass(frozen=True, slots=True)
class Turn:
    """A request with its history, whose reply can be continued by a later request."""

    owner: str
    # The request for the backend, with the history in its input.
    request: ParsedRequest
    store: bool
    background: bool
    stream: bool
    response_id: str
    created: int
    # The response that the request continues, if it is stored.
    parent: str | None
    conversation: str | None
    # The new items in their stored form, and the items before them.
    input: tuple[Item, ...]
    history: tuple[Item, ...]
    # Fields of the response object that the gateway sets.
    overrides: dict[str, object]

    @property
    def model(self) -> str:
        """The model in the request, or else that of the continued response."""
        return self.request.model

    @property
    def stored_input(self) -> tuple[Item, ...]:
        """The items to store with this turn, with the history if it is not stored already."""
        linked = self.parent is not None or self.conversation is not None
        return self.input if linked else (*self.history, *self.input)
