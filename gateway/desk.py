"""What every request is served with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from adapters import Mint
from gateway.access import Caller, Gatekeeper
from gateway.client import Client
from gateway.configuration import Configuration
from gateway.memory.ledger import Ledger
from gateway.memory.plan import Plan
from gateway.record import Record
from gateway.routing import Router
from gateway.sealing import Sealer
from gateway.state import Store


class Background(Protocol):
    """Takes requests, and answers them later."""

    async def accept(self, caller: Caller, plan: Plan, client: Client) -> None:
        """Keep a request, and tell the client that it is queued; it may want all events, too."""
        ...


@dataclass(slots=True)
class Desk:
    """The parts of the service, for whoever serves a request."""

    configuration: Configuration
    router: Router
    gatekeeper: Gatekeeper
    mint: Mint
    # Writes down what happened, once for each request.
    tell: Callable[[Record], None]
    # Gives the headers by which a backend joins a trace.
    trace: Callable[[Record], dict[str, str]]
    # Keeps what clients do not carry; opened with the application.
    store: Store = field(init=False)
    ledger: Ledger = field(init=False)
    # Seals what clients carry; its key may be kept in the store.
    sealer: Sealer = field(init=False)
    # Takes what is to be answered in the background.
    background: Background = field(init=False)
