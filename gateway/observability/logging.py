"""Logging: one line for each exchange, in the same format as the messages of libraries."""

import logging
import os
import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus

import structlog
from litestar.logging.config import LoggingConfig, StructLoggingConfig
from litestar.serialization import encode_json
from structlog.typing import FilteringBoundLogger, Processor

from adapters import TransformError
from adapters.losses import Loss, LossGroup, summarize_losses
from adapters.wire.error_body import redact_text
from gateway.config.schema import LogConfig
from gateway.observability.body_redaction import redact_body
from gateway.observability.capture import Capture, CapturedBody
from gateway.observability.record import ExchangeRecord

# Instead of a longer body, only its size is logged.
MAX_LOGGED_BODY_BYTES = 1024 * 1024

LOG: FilteringBoundLogger = structlog.get_logger("dragoman")


def logging_config(settings: LogConfig) -> StructLoggingConfig:
    """Configure structlog and the standard library to write one format to standard error.

    Litestar's structlog plugin does the same, but imports Litestar's command line.
    """
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
    ]
    renderer: Processor
    if _writes_json(settings):
        renderer = structlog.processors.JSONRenderer(serializer=_encode)
        factory: object = structlog.BytesLoggerFactory(sys.stderr.buffer)
    else:
        renderer = _console_renderer()
        factory = structlog.PrintLoggerFactory(sys.stderr)
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    standard_library = _standard_library_config(settings, shared)
    standard_library.configure()
    return StructLoggingConfig(
        processors=[*shared, renderer],
        logger_factory=factory,  # type: ignore[arg-type]  # a Callable to Litestar, typed to structlog
        wrapper_class=structlog.make_filtering_bound_logger(level),
        log_exceptions="never",
        standard_lib_logging_config=standard_library,
        # A reload of the configuration may change the level.
        cache_logger_on_first_use=False,
    )


def _writes_json(settings: LogConfig) -> bool:
    return settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())


def _console_renderer() -> Processor:
    """Return a renderer of readable lines, coloured unless the variable NO_COLOR is set."""
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    )


def log_fault(fault: TransformError, path: str) -> None:
    """Log the fault of a transform with the traceback of its cause."""
    LOG.error("transform failed", path=path, error=fault.message, exc_info=fault.__cause__ or fault)


class _UpgradeWarningFilter(logging.Filter):
    """Removes uvicorn's warnings about WebSocket requests, which the gateway rejects itself."""

    _MESSAGES = ("Unsupported upgrade request.", "No supported WebSocket library detected.")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        return not record.getMessage().startswith(self._MESSAGES)


def _standard_library_config(settings: LogConfig, shared: list[Processor]) -> LoggingConfig:
    """Return the configuration that formats messages of libraries such as uvicorn."""
    renderer: Processor = (
        structlog.processors.JSONRenderer(serializer=_encode_text)
        if _writes_json(settings)
        else _console_renderer()
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        "foreign_pre_chain": shared,
    }
    filters = ["upgrade_warnings"]
    handler = {"class": "logging.StreamHandler", "formatter": "shared", "filters": filters}
    return LoggingConfig(
        formatters={"shared": formatter},
        filters={"upgrade_warnings": {"()": _UpgradeWarningFilter}},
        handlers={"stderr": handler},
        root={"handlers": ["stderr"], "level": settings.level.upper()},
        # At the level "debug", httpcore logs the headers of backends, which may contain their keys.
        loggers={"litestar": {"level": "WARNING"}, "httpcore": {"level": "INFO"}},
        log_exceptions="never",
    )


def _encode(fields: object, **_: object) -> bytes:
    return encode_json(fields)


def _encode_text(fields: object, **_: object) -> str:
    return encode_json(fields).decode()


def exchange_logger(*, bodies: bool) -> Callable[[ExchangeRecord], None]:
    """Return a function that logs an exchange; call this after logging is configured."""
    # Bound once, because binding a logger costs more than writing a line.
    bound: FilteringBoundLogger = LOG.bind()
    lists_all_losses = bound.is_enabled_for(logging.DEBUG)

    def log(record: ExchangeRecord) -> None:
        losses = record.losses if lists_all_losses else summarize_losses(record.losses)
        fields = _fields(record, losses)
        if bodies and record.capture is not None:
            fields |= _bodies(record, record.capture)
        if record.error_message is not None:
            fields |= _error(record)
        bound.log(_level(record), "request", **fields)

    return log


def _level(record: ExchangeRecord) -> int:
    """Return the level of the line: errors of clients are no problem of the gateway."""
    if record.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return logging.ERROR
    failed_later = record.outcome == "error" and record.status < HTTPStatus.BAD_REQUEST
    if record.status > HTTPStatus.INTERNAL_SERVER_ERROR or failed_later:
        return logging.WARNING
    return logging.INFO


def _error(record: ExchangeRecord) -> dict[str, object]:
    """Return the message of an error, the parameter that it names, and its cause."""
    fields = {
        "error": record.error_message,
        "error_parameter": record.error_parameter,
        "error_cause": record.error_cause,
    }
    return {name: _redact(record, text) for name, text in fields.items() if text}


def _fields(record: ExchangeRecord, losses: Iterable[Loss | LossGroup]) -> dict[str, object]:
    usage = record.usage
    return {
        "client_dialect": record.client_dialect,
        "backend_dialect": record.backend_dialect,
        "backend": record.backend,
        "model": record.model,
        "status": record.status,
        "outcome": record.outcome,
        "error_code": record.error_code,
        "stream": record.stream,
        "time_to_first_byte_ms": _milliseconds(record.time_to_first_byte),
        "duration_ms": _milliseconds(record.elapsed()),
        "input_tokens": None if usage is None else usage.input_tokens,
        "output_tokens": None if usage is None else usage.output_tokens,
        "losses": [_redact(record, str(loss)) for loss in losses],
        "key_name": record.key_name,
        "user_agent": record.user_agent,
        "request_id": record.request_id,
        "path": record.path,
    }


def _bodies(record: ExchangeRecord, capture: Capture) -> dict[str, object]:
    """Return the bodies of a request that was read, and of its reply."""
    if capture.request is None:
        return {}
    return {
        "request_body": _format_body(record, capture.request),
        "response_body": _format_body(record, capture.reply),
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _redact(record: ExchangeRecord, text: str) -> str:
    return text if record.redact is None else record.redact(text)


def _format_body(record: ExchangeRecord, body: CapturedBody) -> str:
    """Redact a body; replace a long one by its size."""
    if body.size > MAX_LOGGED_BODY_BYTES:
        return f"[{body.size} bytes]"
    return redact_body(redact_text(body.join(), record.redact))
