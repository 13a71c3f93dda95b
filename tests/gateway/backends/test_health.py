"""The circuit breaker and the retry budget of a backend."""

import pytest

from gateway.backends.health import BackendHealth
from gateway.config.schema import CircuitBreakerConfig, RetryConfig
from gateway.errors import BackendUnavailableError
from gateway.observability.health_metrics import CircuitState


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Metrics:
    def __init__(self) -> None:
        self.circuits: list[CircuitState] = []
        self.up: list[bool] = []
        self.retries = 0

    def set_circuit(self, backend: str, state: CircuitState) -> None:
        assert backend == "local"
        self.circuits.append(state)

    def set_up(self, backend: str, *, up: bool) -> None:
        assert backend == "local"
        self.up.append(up)

    def count_retry(self, backend: str) -> None:
        assert backend == "local"
        self.retries += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def health(clock: Clock, metrics: Metrics) -> BackendHealth:
    circuit = CircuitBreakerConfig(failures=3, open_seconds=10)
    return BackendHealth("local", circuit, RetryConfig(budget=0.5), metrics, clock)


def fail(health: BackendHealth, times: int = 1) -> None:
    for _ in range(times):
        health.begin()
        health.fail("refused")


def state(health: BackendHealth) -> CircuitState:
    return health.circuit


def test_circuit_opens_after_failures_in_a_row(health: BackendHealth, metrics: Metrics) -> None:
    fail(health, 2)
    health.begin()
    health.succeed()
    fail(health, 2)
    assert state(health) == "closed"
    fail(health)
    assert (health.circuit, health.up, health.error) == ("open", False, "refused")
    with pytest.raises(BackendUnavailableError, match="local has failed repeatedly") as raised:
        health.begin()
    assert raised.value.retry_after == 10
    assert metrics.up == [False, True, False]
    assert metrics.circuits[-1] == "open"


def test_one_trial_decides_after_the_pause(health: BackendHealth, clock: Clock) -> None:
    fail(health, 3)
    clock.now += 10
    assert state(health) == "half_open"
    health.begin()
    with pytest.raises(BackendUnavailableError):
        health.begin()
    health.fail("refused")
    assert state(health) == "open"
    clock.now += 10
    health.begin()
    health.succeed()
    assert (health.circuit, health.up) == ("closed", True)
    fail(health)
    assert state(health) == "closed"


def test_trial_without_a_result_is_repeated(health: BackendHealth, clock: Clock) -> None:
    fail(health, 3)
    clock.now += 10
    health.begin()
    health.abandon()
    health.begin()
    health.succeed()
    assert state(health) == "closed"


def test_requests_from_before_the_opening_do_not_extend_it(
    health: BackendHealth, clock: Clock
) -> None:
    fail(health, 3)
    clock.now += 5
    health.fail("late")
    clock.now += 5
    assert state(health) == "half_open"


def test_circuit_breaker_can_be_disabled(clock: Clock) -> None:
    health = BackendHealth("local", CircuitBreakerConfig(failures=0), RetryConfig(), clock=clock)
    fail(health, 100)
    health.begin()


def test_retries_are_limited_by_the_requests(health: BackendHealth, metrics: Metrics) -> None:
    assert [health.may_retry() for _ in range(11)] == [True] * 10 + [False]
    for _ in range(4):
        health.note_request()
    assert [health.may_retry() for _ in range(3)] == [True, True, False]
    assert metrics.retries == 12
