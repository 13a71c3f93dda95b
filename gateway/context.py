"""What every request is served with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from adapters import IdSource
from gateway.backends.routing import Router
from gateway.config.schema import Config
from gateway.crypto import SealingKeys
from gateway.http.auth import Authenticator, Principal
from gateway.http.sinks import ReplySink
from gateway.observability.record import ExchangeRecord
from gateway.store import Store
from gateway.turns.service import TurnService
from gateway.turns.turn import Turn


class Background(Protocol):
    """Takes requests, and answers them later."""

    async def accept(self, principal: Principal, turn: Turn, sink: ReplySink) -> None:
        """Keep a request, and tell the client that it is queued; it may want all events, too."""
        ...


@dataclass(slots=True)
class AppContext:
    """The parts of the service, for whoever serves a request."""

    config: Config
    router: Router
    gatekeeper: Authenticator
    mint: IdSource
    # Writes down what happened, once for each request.
    record_exchange: Callable[[ExchangeRecord], None]
    # Gives the headers by which a backend joins a trace.
    trace: Callable[[ExchangeRecord], dict[str, str]]
    # Keeps what clients do not carry; opened with the application.
    store: Store = field(init=False)
    turns: TurnService = field(init=False)
    # Seals what clients carry; its key may be kept in the store.
    sealing_keys: SealingKeys = field(init=False)
    # Takes what is to be answered in the background.
    background: Background = field(init=False)
