"""Prometheus metrics of exchanges, in addition to those of Litestar's plugin.

Clients choose the names of models freely, so only a limited number of them are labels; the others
are counted together. So the number of time series is limited.
"""

from functools import cache
from http import HTTPStatus

from litestar.plugins.prometheus import PrometheusConfig, PrometheusController
from prometheus_client import Counter, Gauge, Histogram

from adapters.legacy import LEGACY
from gateway.observability.health_metrics import CIRCUIT_STATES, CircuitState
from gateway.observability.record import ExchangeRecord, Outcome

_ROUTE_LABELS = ("client_dialect", "backend_dialect", "backend")
# From an immediate error to a long reply of a slow model.
_BUCKETS_SECONDS = (0.005, 0.02, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)

_REQUESTS = Counter(
    "dragoman_requests_total",
    "Requests that were sent to a backend or rejected, by status and outcome",
    (*_ROUTE_LABELS, "model", "status", "outcome"),
)
_DURATION = Histogram(
    "dragoman_request_duration_seconds",
    "Time from the request to the end of the reply",
    _ROUTE_LABELS,
    buckets=_BUCKETS_SECONDS,
)
_TIME_TO_FIRST_BYTE = Histogram(
    "dragoman_time_to_first_byte_seconds",
    "Time from the request to the first byte of the reply",
    _ROUTE_LABELS,
    buckets=_BUCKETS_SECONDS,
)
_TOKENS = Counter(
    "dragoman_tokens_total",
    "Tokens as reported by backends",
    ("backend", "model", "token_type"),
)
_LOSSES = Counter(
    "dragoman_losses_total",
    "Losses reported by translations",
    ("client_dialect", "backend_dialect", "action", "severity"),
)

_REFUSED_FIELDS = Counter(
    "dragoman_refused_fields_total",
    "Fields that a backend refused, and that are left out for the model for an hour",
    ("backend", "field"),
)

_LEGACY_REQUESTS = Counter(
    "dragoman_legacy_requests_total",
    "Requests of legacy clients, by the name of their key and by model",
    ("key", "model"),
)
# Further models are counted as one.
_MAX_MODELS = 100
_OTHER_MODELS = "other"
_models: set[str] = set()

_RECORDINGS = Counter(
    "dragoman_recordings_total",
    "Recordings of exchanges: written, failed, or dropped because of a limit",
    ("outcome",),
)

_RETRIES = Counter("dragoman_retries_total", "Requests that were sent again", ("backend",))
_FAILOVERS = Counter(
    "dragoman_failovers_total",
    "Requests that were sent to the next backend, by the backend that could not be reached",
    ("backend",),
)
_CIRCUIT = Gauge(
    "dragoman_circuit_state",
    "State of a backend's circuit breaker: 1 for the current state",
    ("backend", "state"),
    multiprocess_mode="livemax",
)
_UP = Gauge(
    "dragoman_backend_up",
    "Whether the latest request reached the backend",
    ("backend",),
    multiprocess_mode="livemin",
)

_Route = tuple[str, str, str]


class MetricsController(PrometheusController):
    """The metrics at `/metrics`."""

    include_in_schema = False


class VersionedMetricsController(MetricsController):
    """The metrics at `/v1/metrics`, because every path is served under `/v1` too."""

    path = "/v1/metrics"


# Grouped by route, so that requests for unknown paths do not create new labels. The endpoints of
# exchanges are excluded, because the middleware would cost more than the rest of Litestar.
HTTP_METRICS = PrometheusConfig(
    app_name="dragoman",
    prefix="dragoman_http",
    group_path=True,
    exclude=["/chat/completions$", "/responses$"],
)


# The label lookups are cached because they take longer than counting.
@cache
def _requests(route: _Route, model: str, status: int, outcome: Outcome) -> Counter:
    return _REQUESTS.labels(*route, model, status, outcome)


@cache
def _times(route: _Route) -> tuple[Histogram, Histogram]:
    return _DURATION.labels(*route), _TIME_TO_FIRST_BYTE.labels(*route)


@cache
def _tokens(backend: str, model: str) -> tuple[Counter, Counter]:
    return _TOKENS.labels(backend, model, "input"), _TOKENS.labels(backend, model, "output")


def record_metrics(record: ExchangeRecord) -> None:
    """Add one exchange to the metrics."""
    route = (record.client_dialect, record.backend_dialect, record.backend)
    model = _model_label(record)
    _requests(route, model, record.status, record.outcome).inc()
    duration, time_to_first_byte = _times(route)
    duration.observe(record.elapsed())
    if record.time_to_first_byte is not None:
        time_to_first_byte.observe(record.time_to_first_byte)
    if record.usage is not None:
        input_tokens, output_tokens = _tokens(record.backend, model)
        input_tokens.inc(max(record.usage.input_tokens, 0))
        output_tokens.inc(max(record.usage.output_tokens, 0))
    if record.client_dialect == LEGACY.name:
        _LEGACY_REQUESTS.labels(record.key_name or "", model).inc()
    for name in record.failed_backends:
        _FAILOVERS.labels(name).inc()
    for name in record.refused_fields:
        _REFUSED_FIELDS.labels(record.backend, name).inc()
    for loss in record.losses:
        _LOSSES.labels(*route[:2], loss.action, loss.severity).inc()


def _model_label(record: ExchangeRecord) -> str:
    """Return the label of a model, so that a client cannot create series without end.

    Models of failed requests are not added, because any client can send such names.
    """
    model = record.model
    if model in _models:
        return model
    failed = record.outcome != "ok" or record.status >= HTTPStatus.BAD_REQUEST
    if not model or failed or len(_models) >= _MAX_MODELS:
        return _OTHER_MODELS if model else ""
    _models.add(model)
    return model


class BackendMetrics:
    """The metrics of the health of backends."""

    def set_circuit(self, backend: str, state: CircuitState) -> None:
        """Set the state of a circuit."""
        for name in CIRCUIT_STATES:
            _CIRCUIT.labels(backend, name).set(name == state)

    def set_up(self, backend: str, *, up: bool) -> None:
        """Set whether the latest request reached the backend."""
        _UP.labels(backend).set(up)

    def count_retry(self, backend: str) -> None:
        """Count a retry."""
        _RETRIES.labels(backend).inc()


def count_recording(outcome: str) -> None:
    """Count one recording."""
    _RECORDINGS.labels(outcome).inc()
