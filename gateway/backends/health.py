"""The health of a backend, as its requests show it: the circuit breaker and the retry budget."""

import time
from collections.abc import Callable

from gateway.config.schema import CircuitBreakerConfig, RetryConfig
from gateway.errors import BackendUnavailableError
from gateway.observability.health_metrics import CircuitState, HealthMetrics
from gateway.observability.logging import LOG

# The retries that are allowed at once, after a time without any.
_MAX_SAVED_RETRIES = 10


class BackendHealth:
    """What the requests to one backend have shown.

    After several failures in a row, the circuit opens: requests fail at once, without being sent.
    After a pause, one request is sent as a trial, whose result closes or opens the circuit again.
    """

    def __init__(
        self,
        name: str,
        circuit: CircuitBreakerConfig,
        retries: RetryConfig,
        metrics: HealthMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self.config = circuit
        self._metrics = metrics
        self._clock = clock
        self._state: CircuitState = "closed"
        # Failures since the latest success.
        self._failures = 0
        # When the circuit was opened.
        self._opened_at = 0.0
        # Whether the trial of a half-open circuit is running.
        self._has_trial = False
        # Whether the latest request reached the backend; None before the first one.
        self.up: bool | None = None
        # The latest failure, and when it and the latest success happened.
        self.error: str | None = None
        self.failed_at: float | None = None
        self.succeeded_at: float | None = None
        self.retries = retries
        self._saved_retries = float(_MAX_SAVED_RETRIES)

    @property
    def circuit(self) -> CircuitState:
        """The state of the circuit."""
        if self._state == "open" and not self._seconds_until_trial():
            return "half_open"
        return self._state

    def seconds_since(self, moment: float | None) -> float | None:
        """Return the seconds since `failed_at` or `succeeded_at`."""
        return None if moment is None else self._clock() - moment

    def begin(self) -> None:
        """Begin a request; raise `BackendUnavailableError` while the circuit is open.

        Its result must be noted by `succeed`, `fail` or `abandon`.
        """
        if self._state == "closed":
            return
        wait = self._seconds_until_trial()
        if wait or self._has_trial:
            raise BackendUnavailableError(
                f"the backend {self._name} has failed repeatedly; no request is sent to it for now",
                retry_after=wait or self.config.open_seconds,
            )
        self._has_trial = True
        self._set_state("half_open")

    def succeed(self) -> None:
        """Note that a request was answered."""
        self._failures, self._has_trial = 0, False
        self.succeeded_at = self._clock()
        self._set_up(up=True)
        if self._state != "closed":
            self._set_state("closed")
            LOG.info("circuit closed", backend=self._name)

    def fail(self, error: str) -> None:
        """Note that a request failed because of the backend."""
        self._failures += 1
        self.error, self.failed_at = error, self._clock()
        self._set_up(up=False)
        limit = self.config.failures
        if self._has_trial or (limit and self._failures >= limit and self._state == "closed"):
            self._has_trial = False
            self._opened_at = self.failed_at
            self._set_state("open")
            seconds = self.config.open_seconds
            LOG.warning("circuit opened", backend=self._name, error=error, seconds=seconds)

    def abandon(self) -> None:
        """Note that a request ended without a result, for example because its client left."""
        if self._has_trial:
            self._has_trial = False
            self._set_state("open")

    def _seconds_until_trial(self) -> float:
        return max(self._opened_at + self.config.open_seconds - self._clock(), 0)

    def _set_state(self, state: CircuitState) -> None:
        self._state = state
        if self._metrics is not None:
            self._metrics.set_circuit(self._name, state)

    def _set_up(self, *, up: bool) -> None:
        if self.up is not up:
            self.up = up
            if self._metrics is not None:
                self._metrics.set_up(self._name, up=up)
                self._metrics.set_circuit(self._name, self._state)

    # The retry budget

    def note_request(self) -> None:
        """Save the share of a retry that a new request allows."""
        if self._saved_retries < _MAX_SAVED_RETRIES:
            self._saved_retries = min(self._saved_retries + self.retries.budget, _MAX_SAVED_RETRIES)

    def may_retry(self) -> bool:
        """Whether one more retry is within the budget; if so, count it."""
        if self._saved_retries < 1:
            return False
        self._saved_retries -= 1
        if self._metrics is not None:
            self._metrics.count_retry(self._name)
        return True
