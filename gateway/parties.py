"""Who takes part in one answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from adapters import Exchange, Loss
from gateway.client import Client
from gateway.notary import Notary
from gateway.record import Record
from gateway.upstream import Upstream
from gateway.watch import Watch


@dataclass(frozen=True, slots=True)
class Parties:
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
