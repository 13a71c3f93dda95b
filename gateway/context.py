"""The application context: the components of the service that requests use."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from adapters import IdSource
from gateway.backends.models import ModelList
from gateway.backends.routing import Router
from gateway.config.schema import Config
from gateway.crypto import SealingKeys
from gateway.http.auth import Authenticator, Principal
from gateway.http.headers import Headers
from gateway.http.sinks import ReplySink
from gateway.observability.record import ExchangeRecord
from gateway.store import Store
from gateway.turns.service import TurnService
from gateway.turns.turn import Turn

if TYPE_CHECKING:
    from gateway.observability.tracing import Tracer


class Background(Protocol):
    """Runs requests in the background."""

    @property
    def stopping(self) -> bool:
        """Whether the shutdown has begun."""
        ...

    async def accept(self, principal: Principal, turn: Turn, sink: ReplySink) -> None:
        """Queue a request, and send the queued response or all its events."""
        ...


@dataclass(slots=True)
class AppContext:
    """The components of the service; those with `init=False` are set at its start."""

    config: Config
    router: Router
    models: ModelList
    authenticator: Authenticator
    ids: IdSource
    # Writes an exchange to the log, the metrics and the traces.
    record_exchange: Callable[[ExchangeRecord], None]
    # None if requests are not traced.
    tracer: "Tracer | None"
    # The limit for each body that is kept for the log or a recording; 0 to keep none.
    capture_limit: int
    # The headers of replies to legacy clients.
    legacy_headers: Headers
    store: Store = field(init=False)
    turns: TurnService = field(init=False)
    # Encrypts data that clients carry from one request to the next.
    sealing_keys: SealingKeys = field(init=False)
    background: Background = field(init=False)

    def take_over(self, previous: "AppContext") -> None:
        """Use the components that an earlier context has set at the start of the service."""
        self.store, self.turns = previous.store, previous.turns
        self.sealing_keys, self.background = previous.sealing_keys, previous.background


@dataclass(slots=True)
class CurrentContext:
    """The context of new requests; running ones keep theirs when a reload replaces it."""

    value: AppContext
