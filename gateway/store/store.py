"""The memory of the gateway, as the rest of it sees it.

Everything belongs to an owner, the digest of the key that it was made with; what belongs to another
owner is not there. What a method has done when it returns is committed: it survives a crash, and
every node that shares the database sees it.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Raw

from gateway.store.records import (
    ChainLink,
    Completion,
    Conversation,
    Event,
    Item,
    Job,
    Listing,
    Page,
    Response,
    StoredTurn,
)


class Responses(Protocol):
    """Finished responses, and the chains that they make."""

    async def save(self, turn: StoredTurn) -> None:
        """Keep a response and its items, and append those to its conversation if it has one."""
        ...

    async def get(self, owner: str, response_id: str) -> StoredTurn | None:
        """Give a response with its own items."""
        ...

    async def chain(self, owner: str, response_id: str) -> tuple[ChainLink, ...] | None:
        """Give a response and all that it continues, the oldest first.

        None if it is not there, or if anything is missing that it stands on.
        """
        ...

    async def items(self, owner: str, ids: Collection[str]) -> dict[str, Item]:
        """Give those items that are there, wherever they are kept."""
        ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response; its items stay as long as another response stands on them."""
        ...


class Jobs(Protocol):
    """Responses made in the background, by the node that holds their lease.

    A node whose job was taken over is told False by everything that it still tries to write: then
    it has to stop.
    """

    async def start(
        self,
        turn: StoredTurn,
        request: Raw,
        node: str,
        seconds: float,
        events: Sequence[Event] = (),
    ) -> None:
        """Keep a queued response and its first events, with a lease for this node."""
        ...

    async def begin(
        self, response_id: str, node: str, body: Raw, events: Sequence[Event] = ()
    ) -> bool:
        """Say that it is in progress: from here on it can only be ended, not begun again."""
        ...

    async def append(self, response_id: str, node: str, events: Sequence[Event]) -> bool:
        """Add to the events of its stream."""
        ...

    async def finish(
        self, response: Response, node: str, output: Sequence[Item], events: Sequence[Event]
    ) -> bool:
        """Keep its end: status, body, output and last events at once."""
        ...

    async def cancel(self, owner: str, response_id: str) -> bool:
        """Ask the node that works at it to end it. False if nobody does."""
        ...

    async def renew_leases(self, node: str, seconds: float) -> dict[str, bool]:
        """Renew the leases of this node; give its jobs, and of which somebody asked the end."""
        ...

    async def release(self, node: str, response_ids: Collection[str]) -> None:
        """Give up the leases of some jobs: whoever wants them may take them over at once."""
        ...

    async def wait_for_signal(self, node: str, seconds: float) -> None:
        """Wait until something is asked of this node, but not for longer than this.

        That is the end of one of its jobs, or to take over some of others. Not every database can
        tell it, so it may be asked without anybody being called.
        """
        ...

    async def claim(self, node: str, seconds: float) -> tuple[Job, ...]:
        """Take over the jobs whose leases have run out."""
        ...

    async def settled(self, owner: str, response_id: str, seconds: float) -> StoredTurn | None:
        """Wait for the end of a response, but not for longer than this; give it as it is then."""
        ...

    def follow(self, owner: str, response_id: str, after: int = -1) -> AsyncGenerator[Event]:
        """Give the events after this number, those to come as they come, until the end."""
        ...


class Conversations(Protocol):
    """Conversations and their items."""

    async def create(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        """Begin a conversation."""
        ...

    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        """Give a conversation, without its items."""
        ...

    async def update(self, owner: str, conversation_id: str, metadata: Raw) -> bool:
        """Give it other metadata."""
        ...

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Forget a conversation; responses that were made in it keep their items."""
        ...

    async def append(self, owner: str, conversation_id: str, items: Sequence[Item]) -> bool:
        """Add items to its end, all of them together."""
        ...

    async def items(self, owner: str, conversation_id: str, page: Page) -> Listing[Item] | None:
        """Give a part of its items; None if it is not there, or no item to go on from."""
        ...

    async def item(self, owner: str, conversation_id: str, item_id: str) -> Item | None:
        """Give one of its items."""
        ...

    async def before(self, owner: str, conversation_id: str, response_id: str) -> tuple[Item, ...]:
        """Give the items that stand in it before those of a response; all, if it has none there."""
        ...

    async def remove(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Take an item out of it."""
        ...


class Completions(Protocol):
    """Stored chat completions."""

    async def save(self, completion: Completion) -> None:
        """Keep a completion; one that its owner has under the same id gives way to it."""
        ...

    async def get(self, owner: str, completion_id: str) -> Completion | None:
        """Give a completion."""
        ...

    async def list(
        self, owner: str, page: Page, model: str | None, metadata: dict[str, str]
    ) -> Listing[Completion] | None:
        """Give a part of the completions with this model and at least this metadata.

        None if there is no completion to go on from.
        """
        ...

    async def update(self, owner: str, completion_id: str, metadata: dict[str, str]) -> bool:
        """Give it other metadata."""
        ...

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Forget a completion."""
        ...


class Secrets(Protocol):
    """Secrets that all nodes share."""

    async def get_or_create(self, name: str, offered: bytes) -> bytes:
        """Give the secret of this name; if there is none yet, it is the one that is offered."""
        ...


class Notes(Protocol):
    """What a backend thought before its calls, for clients that cannot carry it.

    Sealed texts, by the ids of calls; a scope is one client at one backend.
    """

    async def keep(self, scope: str, texts: Mapping[str, str]) -> None:
        """Keep some texts, perhaps not for ever."""
        ...

    async def find(self, scope: str, names: Iterable[str]) -> dict[str, str]:
        """Find those that are still there."""
        ...


class Store(Protocol):
    """All of it."""

    @property
    def responses(self) -> Responses:
        """Finished responses."""
        ...

    @property
    def jobs(self) -> Jobs:
        """Responses made in the background."""
        ...

    @property
    def conversations(self) -> Conversations:
        """Conversations."""
        ...

    @property
    def completions(self) -> Completions:
        """Stored chat completions."""
        ...

    @property
    def notes(self) -> Notes:
        """What clients cannot carry themselves."""
        ...

    @property
    def secrets(self) -> Secrets:
        """Secrets that all nodes share."""
        ...

    async def now(self) -> int:
        """Tell the time, in seconds since 1970, by the one clock that all nodes share."""
        ...

    async def sweep(self, before: int, limit: int = 100) -> int:
        """Forget what was last used before this time; give how much, to go on until it is 0.

        At most so many of each kind: others want to write too. A response is used when it is
        continued, and keeps with it all that it stands on.
        """
        ...

    async def close(self) -> None:
        """Finish what is being written and let go of the database."""
        ...
