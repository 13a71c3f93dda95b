"""The record of one exchange, for the log, the metrics and the traces."""

import time
from dataclasses import dataclass, field
from typing import Literal

from adapters import Loss
from adapters.ir.types import Usage
from adapters.wire.error_body import Redact

Outcome = Literal["ok", "error", "client_disconnected"]

# Instead of a longer body, only its size is logged.
MAX_LOGGED_BODY_BYTES = 1024 * 1024


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
    stream: bool = False
    status: int = 0
    # Independent of the status, because a reply may fail after its status was sent.
    outcome: Outcome = "ok"
    # Error code of the gateway or of the backend.
    error_code: str | None = None
    # Seconds from the request.
    time_to_first_byte: float | None = None
    usage: Usage | None = None
    losses: list[Loss] = field(default_factory=list)
    # The fields that the backend refused in this exchange.
    refused_fields: list[str] = field(default_factory=list)
    request_id: str | None = None
    # None if bodies are not logged.
    request_body: bytes | None = None
    response_chunks: list[bytes] = field(default_factory=list)
    response_size: int = 0
    # Redacts the backend's key.
    redact: Redact | None = None

    def note_error(self, code: str | None) -> None:
        """Note that the exchange failed."""
        self.outcome = "error"
        self.error_code = code

    def note_response_chunk(self, data: bytes) -> None:
        """Keep a chunk of the response for the log, up to the size limit."""
        self.response_size += len(data)
        if self.response_size <= MAX_LOGGED_BODY_BYTES:
            self.response_chunks.append(data)

    def elapsed(self) -> float:
        """Return the seconds since the request."""
        return time.perf_counter() - self.started
