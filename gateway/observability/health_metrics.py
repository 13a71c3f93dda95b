"""The metrics of the health of backends, which are optional."""

from typing import Literal, Protocol

# "closed": requests are sent. "open": none are sent. "half_open": one is sent to find out whether
# the backend has recovered.
CircuitState = Literal["closed", "open", "half_open"]
CIRCUIT_STATES: tuple[CircuitState, ...] = ("closed", "open", "half_open")


class HealthMetrics(Protocol):
    """Counts what happens to the requests to backends."""

    def set_circuit(self, backend: str, state: CircuitState) -> None:
        """Set the state of a circuit."""

    def set_up(self, backend: str, *, up: bool) -> None:
        """Set whether the latest request reached the backend."""

    def count_retry(self, backend: str) -> None:
        """Count a retry."""
