"""OpenTelemetry traces: a span for each request and a child span for the backend.

This module needs the extra `dragoman[tracing]`, so it is imported only if tracing is configured.
"""

from litestar.plugins.opentelemetry import OpenTelemetryConfig, OpenTelemetryPlugin
from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from gateway.config.schema import TracingConfig
from gateway.observability.record import ExchangeRecord


class Tracer:
    """Creates spans, and exports them in a separate thread."""

    def __init__(self, settings: TracingConfig) -> None:
        resource = Resource.create({SERVICE_NAME: settings.service_name})
        self._provider = TracerProvider(resource=resource)
        exporter = OTLPSpanExporter(endpoint=settings.endpoint)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("dragoman")
        # Open spans by the id of their record.
        self._spans: dict[int, trace.Span] = {}

    def plugin(self) -> OpenTelemetryPlugin:
        """Return Litestar's plugin, configured without a span for every chunk of a stream."""
        return OpenTelemetryPlugin(
            OpenTelemetryConfig(
                tracer_provider=self._provider,
                exclude=["/health", "/ready", "/metrics"],
                exclude_spans=["receive", "send"],
            )
        )

    def start_span(self, record: ExchangeRecord) -> dict[str, str]:
        """Start the span of a backend request; return the headers that propagate the trace."""
        # A request that is sent to another backend after a failure gets a new span.
        self.end_span(record)
        span = self._tracer.start_span("backend request", kind=trace.SpanKind.CLIENT)
        self._spans[id(record)] = span
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        return carrier

    def end_span(self, record: ExchangeRecord) -> None:
        """Add the attributes of the exchange to its span, if it has one, and end the span."""
        span = self._spans.pop(id(record), None)
        if span is None:
            return
        span.set_attributes(
            {
                "dragoman.client_dialect": record.client_dialect,
                "dragoman.backend_dialect": record.backend_dialect,
                "dragoman.backend": record.backend,
                "dragoman.outcome": record.outcome,
                "dragoman.loss_count": len(record.losses),
                "gen_ai.request.model": record.model,
            }
        )
        if record.usage is not None:
            span.set_attribute("gen_ai.usage.input_tokens", record.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", record.usage.output_tokens)
        span.end()

    def close(self) -> None:
        """Export the remaining spans and stop the thread."""
        self._provider.shutdown()
