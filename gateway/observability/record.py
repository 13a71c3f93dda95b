"""What happened in one exchange, for the log and the metrics."""

import time
from dataclasses import dataclass, field
from typing import Literal

from adapters import Loss
from adapters.ir.types import Usage
from adapters.translation.redaction import Redact

Ending = Literal["ok", "failed", "client gone"]

# A body is logged, where bodies are, if it is no longer than this.
LOGGED = 1024 * 1024


@dataclass(slots=True)
class ExchangeRecord:
    """Filled while an exchange goes on; told once, at its end."""

    path: str
    started: float = field(default_factory=time.perf_counter)
    client: str = ""
    backend: str = ""
    dialect: str = ""
    model: str = ""
    key: str | None = None
    streamed: bool = False
    status: int = 0
    # How it ended, which the status does not say of an answer that had begun.
    ended: Ending = "ok"
    # The code of what went wrong, by us or by the backend.
    error: str | None = None
    # Seconds from the request.
    first_byte: float | None = None
    usage: Usage | None = None
    losses: list[Loss] = field(default_factory=list)
    request_id: str | None = None
    # Filled only where bodies are to be logged.
    request_body: bytes | None = None
    answer_body: list[bytes] = field(default_factory=list)
    answer_size: int = 0
    # Redacts the key of the backend in what is logged.
    redact: Redact | None = None

    def note_first_byte(self) -> None:
        """Note that the first byte of the answer is on its way to the client."""
        if self.first_byte is None:
            self.first_byte = time.perf_counter() - self.started

    def note_failure(self, code: str | None) -> None:
        """Note that it did not end well."""
        self.ended = "failed"
        self.error = code

    def note_answer(self, data: bytes) -> None:
        """Keep a piece of the answer, if bodies are to be logged; not without end."""
        if self.request_body is None:
            return
        self.answer_size += len(data)
        if self.answer_size <= LOGGED:
            self.answer_body.append(data)

    def seconds(self) -> float:
        """Tell how long it has taken."""
        return time.perf_counter() - self.started
