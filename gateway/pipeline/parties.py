"""Who takes part in one answer."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from adapters import Exchange, Loss
from gateway.backends.client import BackendClient
from gateway.http.client_connection import ClientConnection
from gateway.http.monitor import ExchangeMonitor
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.notary import Notary


class Parties(Struct, frozen=True):
    """All of them, and what was lost of the request."""

    exchange: Exchange
    losses: tuple[Loss, ...]
    client: ClientConnection
    watch: ExchangeMonitor
    upstream: BackendClient
    record: ExchangeRecord
    # Says what is wrong with the input of custom tools; it may take a while.
    judge: Callable[[], Awaitable[list[Loss]]]
    notary: Notary
