"""Looks whether a conversation is too long before it is answered, and has it summed up if so."""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Raw, Struct

from adapters import Loss, Mint, Policy, Seal
from adapters.fields import ABSENT, read_body
from adapters.prefacing import Prefacing
from gateway import statuses
from gateway.access import Caller
from gateway.client import Client
from gateway.compaction.managing import Ask, Made, Managed, Manager, read_wish
from gateway.compaction.spoken import Reshape, passes_foreign
from gateway.compaction.window import Window, read_window
from gateway.counting.local import count_locally
from gateway.problems import ClientGone, Stopping
from gateway.record import Record
from gateway.sink import Gathered
from gateway.upstream import Upstream


class Beforehand(Struct, frozen=True):
    """A request that is ready to be answered."""

    body: bytes
    losses: tuple[Loss, ...] = ()
    # Set if it goes on from a summary.
    window: Window | None = None
    reshape: Reshape | None = None

    def told(self, path: str) -> str:
        """Name a place of the body as it was called before."""
        return path if self.window is None else self.window.told(path)


class Preparing(Struct, frozen=True):
    """What is needed to look."""

    seal: Seal
    mint: Mint
    policy: Policy
    upstream: Upstream
    # How many of the items are of earlier turns.
    past: int

    async def prepare(self, body: bytes, ask: Ask) -> Beforehand:
        """Give the request that is to be answered, which may go on from a summary."""
        wish, body = read_wish(body, self.policy)
        ready = Beforehand(body, wish.losses)
        if wish.threshold is None:
            return ready
        passes = passes_foreign(self.upstream)
        window = read_window(body, self.seal, passes=passes, past=self.past)
        if window.triggered:
            return ready
        opened = read_body(body).spelled(input=window.raws)
        if (await count_locally(opened)).tokens < wish.threshold:
            return ready
        managed = await Manager(self.seal, self.mint, self.policy).manage(body, window, ask)
        return _ready(managed, ready)


def _ready(managed: Managed | Loss, ready: Beforehand) -> Beforehand:
    if isinstance(managed, Loss):
        return Beforehand(ready.body, (*ready.losses, managed))
    item, usage = managed.item, managed.usage
    losses = (*ready.losses, *managed.losses)
    return Beforehand(managed.body, losses, managed.window, lambda _: Prefacing(item, usage))


# The request for the summary


class Serves(Protocol):
    """Whoever serves a request."""

    async def serve(self, caller: Caller, body: bytes) -> None:
        """Serve it."""
        ...


class _Output(Struct):
    output: list[Raw] = []
    status: Raw = ABSENT


_OUTPUT: Final = msgspec.json.Decoder(_Output)


async def ask_aside(
    body: bytes,
    caller: Caller,
    client: Client,
    visit: Callable[[Client, Record], Serves],
    tell: Callable[[Record], None],
) -> Made | None:
    """Have a summary made in an exchange of its own; None if it failed.

    `visit` makes who serves it; the exchange is told of like any other.
    """
    answer, record = Gathered(), Record(client.path)
    try:
        await visit(client.aside(answer.send, record), record).serve(caller, body)
    except ClientGone:
        record.ended = "client gone"
        raise
    finally:
        tell(record)
    if record.error == Stopping.code:
        raise Stopping(None, "the gateway is stopping")
    if answer.status != statuses.WHOLE:
        return None
    output = _OUTPUT.decode(answer.body).output
    return Made(output[0], record.usage, tuple(record.losses)) if output else None
