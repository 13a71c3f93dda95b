"""What is logged: a line of JSON for each exchange, and the words of everything beneath."""

import logging
import re
import sys
from collections.abc import Callable

import msgspec
import structlog
from litestar.logging.config import LoggingConfig, StructLoggingConfig
from litestar.serialization import encode_json
from structlog.typing import FilteringBoundLogger, Processor

from adapters.json_text import DECODE_ERRORS
from adapters.translation.redaction import redact_text
from adapters.wire.json_object import Json
from gateway.config.schema import LogConfig
from gateway.http.headers import REDACTED
from gateway.observability.record import LOGGED, ExchangeRecord

# Blacks out secrets in bodies that are logged.
#
# JSON is taken apart, so that what counts is the name of a field; text that holds JSON, as the
# arguments of a call do, is taken apart again. What looks like a key is blacked out wherever it
# stands. The pieces in which arguments are streamed cannot be judged one by one: they are left out.


# Fields whose values are nobody's business. `max_tokens` and its like are no secrets.
_SECRET_NAME = re.compile(
    r"api[-_]?key|authorization|credential|passw|passphrase|secret|private[-_]?key|token$|cookie",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\b(?:sk|dk|pk|rk|xox[a-z])-[A-Za-z0-9_-]{8,}"
    r"|\b(?:gsk|hf|ghp|gho|ghs|ghu|github_pat|glpat)[_-][A-Za-z0-9_-]{8,}"
    r"|\bAKIA[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{20,}"
    r"|\b(?:Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}"
)
_DATA = "data:"
_LEFT_OUT = "[arguments]"
# How deep text in text in text is taken apart.
_DEPTH = 4

_JSON: msgspec.json.Decoder[Json] = msgspec.json.Decoder()


def redacted(body: bytes) -> str:
    """Black out what looks like a secret, in a body of JSON or in a stream of it."""
    text = body.decode("utf-8", "replace")
    whole = _taken_apart(text, _clean)
    if whole is not None:
        return whole
    return "\n".join(_redact_line(line) for line in text.split("\n"))


def _redact_line(line: str) -> str:
    if not line.startswith(_DATA):
        return _KEY.sub(REDACTED, line)
    event = line[len(_DATA) :].strip()
    clean = _taken_apart(event, _clean_event)
    return f"{_DATA} {_KEY.sub(REDACTED, event) if clean is None else clean}"


def _taken_apart(text: str, clean: Callable[[Json, int], Json]) -> str | None:
    """Clean a text that is an object or a list; None: it is neither."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.encode(clean(_JSON.decode(text), _DEPTH)).decode()
    except (*DECODE_ERRORS, UnicodeEncodeError):
        return None


def _clean_event(event: Json, depth: int) -> Json:
    """Clean one event of a stream, and leave out its piece of arguments."""
    if isinstance(event, dict):
        kind = str(event.get("type", ""))
        if kind.endswith(("arguments.delta", "input.delta")):
            event = event | {"delta": _LEFT_OUT}
        elif isinstance(event.get("choices"), list):
            event = event | {"choices": _without_pieces(event["choices"])}
    return _clean(event, depth)


def _without_pieces(value: Json) -> Json:
    match value:
        case dict():
            return {
                name: _LEFT_OUT if name in ("arguments", "input") else _without_pieces(inner)
                for name, inner in value.items()
            }
        case list():
            return [_without_pieces(inner) for inner in value]
        case _:
            return value


def _clean(value: Json, depth: int) -> Json:
    match value:
        case dict():
            return {
                name: REDACTED if inner and _SECRET_NAME.search(name) else _clean(inner, depth)
                for name, inner in value.items()
            }
        case list():
            return [_clean(inner, depth) for inner in value]
        case str():
            inner = _taken_apart(value, lambda one, _: _clean(one, depth - 1)) if depth else None
            return _KEY.sub(REDACTED, value) if inner is None else inner
        case _:
            return value


LOG: FilteringBoundLogger = structlog.get_logger("dragoman")


def logging_config(logging_: LogConfig) -> StructLoggingConfig:
    """Set up structlog, and what libraries log in the usual way, to one stream and one form.

    Litestar's plugin for structlog would do the same, but imports its command line for it.
    """
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
    ]
    render: list[Processor]
    if logging_.format == "json":
        render = [structlog.processors.JSONRenderer(serializer=_encode)]
        factory: object = structlog.BytesLoggerFactory(sys.stderr.buffer)
    else:
        render = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        factory = structlog.PrintLoggerFactory(sys.stderr)
    level = logging.getLevelNamesMapping()[logging_.level.upper()]
    libraries = _standard(logging_, shared)
    libraries.configure()
    return StructLoggingConfig(
        processors=[*shared, *render],
        logger_factory=factory,  # type: ignore[arg-type]  # a Callable to Litestar, typed to structlog
        wrapper_class=structlog.make_filtering_bound_logger(level),
        log_exceptions="never",
        standard_lib_logging_config=libraries,
    )


class _Noise(logging.Filter):
    """Leaves out what the server says when we refuse a WebSocket: that is as it should be."""

    _SAID = ("Unsupported upgrade request.", "No supported WebSocket library detected.")

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is to be written."""
        return not record.getMessage().startswith(self._SAID)


def _standard(logging_: LogConfig, shared: list[Processor]) -> LoggingConfig:
    """Give the words of libraries, such as the server's, the same form."""
    renderer: Processor = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    if logging_.format == "json":
        renderer = structlog.processors.JSONRenderer(serializer=_encode_text)
    return LoggingConfig(
        formatters={
            "shared": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    renderer,
                ],
                "foreign_pre_chain": shared,
            }
        },
        filters={"noise": {"()": _Noise}},
        handlers={
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "shared",
                "filters": ["noise"],
            },
        },
        root={"handlers": ["stderr"], "level": logging_.level.upper()},
        loggers={"litestar": {"level": "WARNING"}},
        log_exceptions="never",
    )


def _encode(line: object, **_: object) -> bytes:
    return encode_json(line)


def _encode_text(line: object, **_: object) -> str:
    return encode_json(line).decode()


def exchange_logger() -> Callable[[ExchangeRecord], None]:
    """Give what writes the one line of an exchange, once logging is set up."""
    # To bind anew for each line would cost more than the line.
    bound: FilteringBoundLogger = LOG.bind()

    def log(record: ExchangeRecord) -> None:
        bound.info("exchange", **_line(record))

    return log


def _shown(record: ExchangeRecord, body: bytes, size: int) -> str:
    """Show a body, or how long it is: of one that is cut nobody knows where the secrets end."""
    return redacted(redact_text(body, record.redact)) if size <= LOGGED else f"[{size} bytes]"


def _told(record: ExchangeRecord, text: str) -> str:
    """Return a text as it may be logged."""
    return text if record.redact is None else record.redact(text)


def _line(record: ExchangeRecord) -> dict[str, object]:
    usage = record.usage
    line: dict[str, object] = {
        "client": record.client,
        "dialect": record.dialect,
        "backend": record.backend,
        "model": record.model,
        "status": record.status,
        "ended": record.ended,
        "error": record.error,
        "streamed": record.streamed,
        "first_byte_ms": None if record.first_byte is None else round(record.first_byte * 1000, 1),
        "total_ms": round(record.seconds() * 1000, 1),
        "input_tokens": None if usage is None else usage.input_tokens,
        "output_tokens": None if usage is None else usage.output_tokens,
        "losses": [_told(record, str(loss)) for loss in record.losses],
        "key": record.key,
        "request_id": record.request_id,
        "path": record.path,
    }
    if record.request_body is not None:
        line["request"] = _shown(record, record.request_body, len(record.request_body))
        line["answer"] = _shown(record, b"".join(record.answer_body), record.answer_size)
    return line
