"""Looks whether a conversation is too long before it is answered, and has it summed up if so."""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Raw, Struct

from adapters import IdSource, Loss, Policy, Sealer
from adapters.stages.summary_item import PrependItem
from adapters.wire.json_object import MISSING, read_body
from gateway import statuses
from gateway.backends.client import BackendClient
from gateway.compaction.managing import (
    Ask,
    CompactedRequest,
    Compactor,
    GeneratedSummary,
    read_wish,
)
from gateway.compaction.spoken import Reshape, accepts_foreign_summaries
from gateway.compaction.window import Window, read_window
from gateway.errors import ClientDisconnectedError, ShuttingDownError
from gateway.http.auth import Principal
from gateway.http.client_connection import ClientConnection
from gateway.http.sinks import Gathered
from gateway.observability.record import ExchangeRecord
from gateway.token_counting import count_locally


class Beforehand(Struct, frozen=True):
    """A request that is ready to be answered."""

    body: bytes
    losses: tuple[Loss, ...] = ()
    # Set if it goes on from a summary.
    window: Window | None = None
    reshape: Reshape | None = None

    def told(self, path: str) -> str:
        """Name a place of the body as it was called before."""
        return path if self.window is None else self.window.client_path(path)


class Preparing(Struct, frozen=True):
    """What is needed to look."""

    seal: Sealer
    mint: IdSource
    policy: Policy
    upstream: BackendClient
    # How many of the items are of earlier turns.
    past: int

    async def prepare(self, body: bytes, ask: Ask) -> Beforehand:
        """Give the request that is to be answered, which may go on from a summary."""
        wish, body = read_wish(body, self.policy)
        ready = Beforehand(body, wish.losses)
        if wish.threshold is None:
            return ready
        passes = accepts_foreign_summaries(self.upstream)
        window = read_window(body, self.seal, passes=passes, past=self.past)
        if window.triggered:
            return ready
        opened = read_body(body).encode_with(input=window.raws)
        if (await count_locally(opened)).tokens < wish.threshold:
            return ready
        managed = await Compactor(self.seal, self.mint, self.policy).manage(body, window, ask)
        return _ready(managed, ready)


def _ready(managed: CompactedRequest | Loss, ready: Beforehand) -> Beforehand:
    if isinstance(managed, Loss):
        return Beforehand(ready.body, (*ready.losses, managed))
    item, usage = managed.item, managed.usage
    losses = (*ready.losses, *managed.losses)
    return Beforehand(managed.body, losses, managed.window, lambda _: PrependItem(item, usage))


# The request for the summary


class Serves(Protocol):
    """Whoever serves a request."""

    async def serve(self, caller: Principal, body: bytes) -> None:
        """Serve it."""
        ...


class _Output(Struct):
    output: list[Raw] = []
    status: Raw = MISSING


_OUTPUT: Final = msgspec.json.Decoder(_Output)


async def ask_aside(
    body: bytes,
    caller: Principal,
    client: ClientConnection,
    visit: Callable[[ClientConnection, ExchangeRecord], Serves],
    tell: Callable[[ExchangeRecord], None],
) -> GeneratedSummary | None:
    """Have a summary made in an exchange of its own; None if it failed.

    `visit` makes who serves it; the exchange is told of like any other.
    """
    answer, record = Gathered(), ExchangeRecord(client.path)
    try:
        await visit(client.nested(answer.send, record), record).serve(caller, body)
    except ClientDisconnectedError:
        record.outcome = "client_disconnected"
        raise
    finally:
        tell(record)
    if record.error_code == ShuttingDownError.code:
        raise ShuttingDownError(None, "the gateway is stopping")
    if answer.status != statuses.WHOLE:
        return None
    output = _OUTPUT.decode(answer.body).output
    return GeneratedSummary(output[0], record.usage, tuple(record.losses)) if output else None
