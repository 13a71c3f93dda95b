"""One request and its reply in a stored chain."""

from dataclasses import dataclass

from gateway.http.request_body import ParsedRequest
from gateway.store import Item


@dataclass(frozen=True, slots=True)
class Turn:
    """A request whose reply can be continued, before there is a reply."""

    owner: str
    # The request for the backend: history before the input, no reference to it.
    request: ParsedRequest
    store: bool
    background: bool
    stream: bool
    response_id: str
    created: int
    # The response that the request continues, if that is in the store.
    parent: str | None
    conversation: str | None
    # The new items in their stored form, and those before them.
    input: tuple[Item, ...]
    history: tuple[Item, ...]
    # Fields of the response object that the gateway decides.
    overrides: dict[str, object]

    @property
    def model(self) -> str:
        """The model that the client names, or that of the response that it continues."""
        return self.request.model

    @property
    def stored_input(self) -> tuple[Item, ...]:
        """The items stored with this turn: the history too if there is nothing to link to."""
        linked = self.parent is not None or self.conversation is not None
        return self.input if linked else (*self.history, *self.input)
