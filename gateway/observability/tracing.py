"""Traces, for those who collect them: a span for each request, and one in it for the backend.

The packages that this needs are an extra of ours (`dragoman[tracing]`), so this module is imported
only where traces are configured.
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
    """Collects spans and sends them on, in a thread of its own."""

    def __init__(self, tracing: TracingConfig) -> None:
        resource = Resource.create({SERVICE_NAME: tracing.service_name})
        self._provider = TracerProvider(resource=resource)
        exporter = OTLPSpanExporter(endpoint=tracing.endpoint)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("dragoman")
        # Of the exchanges that go on, by their records.
        self._spans: dict[int, trace.Span] = {}

    def plugin(self) -> OpenTelemetryPlugin:
        """Give Litestar's own plugin; spans for every piece of a stream would drown the rest."""
        return OpenTelemetryPlugin(
            OpenTelemetryConfig(
                tracer_provider=self._provider,
                exclude=["/health", "/ready", "/metrics"],
                exclude_spans=["receive", "send"],
            )
        )

    def begin(self, record: ExchangeRecord) -> dict[str, str]:
        """Begin the span of a backend; give the headers by which it joins the trace."""
        self.tell(record)
        span = self._tracer.start_span("exchange", kind=trace.SpanKind.CLIENT)
        self._spans[id(record)] = span
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        return carrier

    def tell(self, record: ExchangeRecord) -> None:
        """End the span of a backend, if there is one, with what was exchanged."""
        span = self._spans.pop(id(record), None)
        if span is None:
            return
        span.set_attributes(
            {
                "dragoman.client": record.client,
                "dragoman.dialect": record.dialect,
                "dragoman.backend": record.backend,
                "dragoman.ended": record.ended,
                "dragoman.losses": len(record.losses),
                "gen_ai.request.model": record.model,
            }
        )
        if record.usage is not None:
            span.set_attribute("gen_ai.usage.input_tokens", record.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", record.usage.output_tokens)
        span.end()

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
