"""The documentation lists all metrics with their labels."""

import re

import pytest
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from gateway.observability import metrics
from gateway.observability.metrics import record_metrics
from gateway.observability.record import ExchangeRecord
from tests.gateway.gateway_process import ROOT

TYPES = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
ROW = re.compile(r"^\| `(dragoman_\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)


def test_page_lists_all_metrics() -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    listed = {
        (name, TYPES[kind], tuple(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(page)
    }
    defined = [one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase)]
    assert listed == {_description(one) for one in defined}


def _description(metric: MetricWrapperBase) -> tuple[str, type, tuple[str, ...]]:
    [family] = metric.describe()
    # The labels have no public name.
    labels: tuple[str, ...] = getattr(metric, "_labelnames")  # noqa: B009 - it is protected
    return family.name, type(metric), labels


def test_clients_cannot_create_series_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    known: set[str] = set()
    monkeypatch.setattr(metrics, "_models", known)
    for number in range(250):
        record = ExchangeRecord("/responses", client_dialect="chat", backend="limited")
        record.model, record.status = f"limited-{number}", 200 if number % 2 else 404
        record_metrics(record)
    assert len(known) == 100
    assert "limited-0" not in known
