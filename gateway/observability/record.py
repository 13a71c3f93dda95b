"""The record of one exchange, for the log, the metrics and the traces."""

import time
from dataclasses import dataclass, field
from typing import Literal

from adapters import DragomanError, Loss
from adapters.ir.types import Usage
from adapters.wire.error_body import Redact
from gateway.errors import causes_of
from gateway.observability.capture import Capture

Outcome = Literal["ok", "error", "client_disconnected"]


@dataclass(slots=True)
class ExchangeRecord:
    """A record that is filled during an exchange and reported once at its end."""

    path: str
    started: float = field(default_factory=time.perf_counter)
    client_dialect: str = ""
    backend: str = ""
    backend_dialect: str = ""
    model: str = ""
    # The name of the client's key for the gateway.
    key_name: str | None = None
    user_agent: str = ""
    stream: bool = False
    status: int = 0
    # Independent of the status, because a reply may fail after its status was sent.
    outcome: Outcome = "ok"
    # Error code of the gateway or of the backend.
    error_code: str | None = None
    # The message of the error, the parameter that it names, and its cause for operators.
    error_message: str | None = None
    error_parameter: str | None = None
    error_cause: str | None = None
    # Seconds from the request.
    time_to_first_byte: float | None = None
    usage: Usage | None = None
    losses: list[Loss] = field(default_factory=list)
    # The backends that could not be reached, before the one that the request was sent to.
    failed_backends: list[str] = field(default_factory=list)
    # The fields that the backend refused in this exchange.
    refused_fields: list[str] = field(default_factory=list)
    request_id: str | None = None
    # The bodies; None if they are neither logged nor recorded.
    capture: Capture | None = None
    # Redacts the backend's key.
    redact: Redact | None = None

    def note_error(
        self, code: str | None, message: str | None = None, parameter: str | None = None
    ) -> None:
        """Note that the exchange failed."""
        self.outcome = "error"
        self.error_code, self.error_message, self.error_parameter = code, message, parameter

    def note_exception(self, error: DragomanError) -> None:
        """Note that the exchange failed with an exception."""
        self.note_error(error.code, error.message, error.path)
        causes = [f"{type(cause).__name__}: {cause}" for cause in causes_of(error)[1:]]
        self.error_cause = causes[0] if causes else None

    def elapsed(self) -> float:
        """Return the seconds since the request."""
        return time.perf_counter() - self.started
