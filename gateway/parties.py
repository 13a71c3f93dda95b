"""Who takes part in one answer."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from adapters import Exchange, Loss
from gateway.client import Client
from gateway.notary import Notary
from gateway.record import Record
from gateway.upstream import Upstream
from gateway.watch import Watch


class Parties(Struct, frozen=True):
    """All of them, and what was lost of the request."""

    exchange: Exchange
    losses: tuple[Loss, ...]
    client: Client
    watch: Watch
    upstream: Upstream
    record: Record
    # Says what is wrong with the input of custom tools; it may take a while.
    judge: Callable[[], Awaitable[list[Loss]]]
    notary: Notary
