"""What is counted of exchanges, beside what Litestar's own plugin counts of requests.

No label holds what clients choose freely, such as the model: their number stays bounded.
"""

from functools import cache

from litestar.plugins.prometheus import PrometheusConfig, PrometheusController
from prometheus_client import Counter, Histogram

from gateway.observability.record import ExchangeRecord

Pair = tuple[str, str, str]

# From a fast error to a long answer of a slow model.
_SECONDS = (0.005, 0.02, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)

_EXCHANGES = Counter(
    "dragoman_exchanges_total",
    "Exchanges between a client and a backend, by how they ended",
    ("client", "dialect", "backend", "status", "ended"),
)
_DURATION = Histogram(
    "dragoman_exchange_seconds",
    "From the request to the end of the answer",
    ("client", "dialect", "backend"),
    buckets=_SECONDS,
)
_FIRST_BYTE = Histogram(
    "dragoman_first_byte_seconds",
    "From the request to the first byte of the answer",
    ("client", "dialect", "backend"),
    buckets=_SECONDS,
)
_TOKENS = Counter(
    "dragoman_tokens_total", "Tokens, as backends count them", ("backend", "direction")
)
_LOSSES = Counter(
    "dragoman_losses_total",
    "What could not be carried as it was said",
    ("client", "dialect", "action", "severity"),
)


class MetricsController(PrometheusController):
    """Gives the counts at `/metrics`."""

    include_in_schema = False


class VersionedMetricsController(MetricsController):
    """Gives them at `/v1/metrics`, for every address is there too."""

    path = "/v1/metrics"


# Grouped by route, so that addresses that do not exist are not counted one by one. Exchanges are
# counted below, and more cheaply: this middleware costs more than the rest of Litestar.
REQUESTS = PrometheusConfig(
    app_name="dragoman",
    prefix="dragoman_http",
    group_path=True,
    exclude=["/chat/completions$", "/responses$"],
)


# To find the counter for some labels takes longer than to count.
@cache
def _ended(pair: Pair, status: int, ended: str) -> Counter:
    return _EXCHANGES.labels(*pair, status, ended)


@cache
def _times(pair: Pair) -> tuple[Histogram, Histogram]:
    return _DURATION.labels(*pair), _FIRST_BYTE.labels(*pair)


@cache
def _tokens(backend: str) -> tuple[Counter, Counter]:
    return _TOKENS.labels(backend, "input"), _TOKENS.labels(backend, "output")


def count_exchange(record: ExchangeRecord) -> None:
    """Count one exchange."""
    pair = (record.client, record.dialect, record.backend)
    _ended(pair, record.status, record.ended).inc()
    whole, first_byte = _times(pair)
    whole.observe(record.seconds())
    if record.first_byte is not None:
        first_byte.observe(record.first_byte)
    if record.usage is not None:
        read, written = _tokens(record.backend)
        read.inc(max(record.usage.input_tokens, 0))
        written.inc(max(record.usage.output_tokens, 0))
    for loss in record.losses:
        _LOSSES.labels(record.client, record.dialect, loss.action, loss.severity).inc()
