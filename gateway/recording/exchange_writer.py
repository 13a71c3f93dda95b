"""Write a captured exchange as a recording: redact it, check its streams, make its folder."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import accumulate
from secrets import token_hex
from sys import intern
from typing import Final, cast

import httpx
import msgspec
from msgspec import Struct
from msgspec.structs import replace

import adapters
from adapters import Capabilities, DragomanError, Loss, Violation
from adapters.json_text import DECODE_ERRORS
from adapters.model_rules import BackendCapabilities
from gateway.config.schema import BackendConfig, backend_capabilities
from gateway.http.headers import read_headers
from gateway.observability.capture import Capture, CapturedBody, CapturedCall, RawHeaders
from gateway.observability.record import Outcome
from gateway.recording.format import (
    CLIENT_REPLY,
    CLIENT_REQUEST,
    FORMAT,
    BackendCall,
    Body,
    Client,
    Exchange,
    Recording,
    backend_body,
    make_body,
)
from gateway.recording.redaction import RedactedBody, Redactor
from gateway.recording.secrets import header_secrets, tool_secrets

# The headers that are recorded; the values of all others may be secret.
_HEADERS: Final = frozenset(
    (
        "accept",
        "content-encoding",
        "content-type",
        "dragoman-loss",
        "openai-beta",
        "openai-processing-ms",
        "openai-version",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "user-agent",
        "x-request-id",
        "x-should-retry",
    )
)
_HEADER_PREFIXES: Final = ("ratelimit", "x-ratelimit-", "x-stainless-")
# The violations in one stream that are recorded.
_MAX_VIOLATIONS: Final = 100


class FinishedExchange(Struct, tag=True):
    """A captured exchange with its result."""

    path: str
    dialect: str
    model: str
    status: int
    outcome: Outcome
    error_code: str | None
    # Seconds from the request.
    first_byte: float | None
    duration: float
    losses: list[Loss]
    capture: Capture


class RecordingMaker:
    """Makes recordings of exchanges of one gateway."""

    def __init__(self, secrets: Iterable[str], backends: Iterable[BackendConfig]) -> None:
        self._secrets = [*secrets]
        self._backends = {backend.name: backend for backend in backends}

    def make(self, exchange: FinishedExchange) -> Recording:
        """Return the redacted recording of an exchange."""
        capture = exchange.capture
        redactor = Redactor([*self._secrets, *_secrets_of(capture)])
        bodies: dict[str, Body] = {}
        if capture.request is not None:
            bodies[CLIENT_REQUEST], _ = _make_body(redactor, capture.request)
        calls: list[BackendCall] = []
        for number, call in enumerate(capture.calls):
            bodies[backend_body("request", number)], _ = _make_body(redactor, call.request)
            reply, reads = _make_body(redactor, call.reply, _decoded(call))
            bodies[backend_body("reply", number)] = reply
            calls.append(self._make_call(call, bodies, number, reads))
        bodies[CLIENT_REPLY], _ = _make_body(redactor, capture.reply)
        made = _make_exchange(exchange, calls, bodies[CLIENT_REPLY])
        # Headers, paths, losses and error codes may contain secrets, too.
        redacted = redactor.redact(msgspec.json.encode(made))
        if redacted is None:
            raise ValueError("the description of the exchange contains secrets")
        described = msgspec.json.decode(redacted.data, type=Exchange)
        described = replace(described, redactions=redactor.count)
        present = {name: body for name, body in bodies.items() if body.data or body.omitted_bytes}
        return Recording(described, present)

    def _make_call(
        self,
        call: CapturedCall,
        bodies: Mapping[str, Body],
        number: int,
        reads: tuple[tuple[float, int], ...],
    ) -> BackendCall:
        config = self._backends[call.backend]
        cut = call.status is not None and not call.complete and call.error is None
        reply = bodies[backend_body("reply", number)]
        model = _model_of(bodies[backend_body("request", number)].data)
        profile, capabilities = _in_force(backend_capabilities(config), model)
        return BackendCall(
            backend=call.backend,
            dialect=config.dialect,
            model=model,
            profile=profile,
            capabilities=capabilities,
            # Interned, because msgspec omits a default only if it is the same object.
            method=intern(call.method),
            path=call.path,
            headers=_recorded_headers(read_headers(call.headers)),
            sent_ms=_milliseconds(call.sent),
            status=call.status,
            reply_headers=_recorded_headers(read_headers(call.reply_headers)),
            reads=reads,
            error=call.error,
            cut=cut,
            violations=() if cut else _check(config.dialect, reply),
        )


def _make_exchange(
    exchange: FinishedExchange, calls: Iterable[BackendCall], reply: Body
) -> Exchange:
    capture, dialect = exchange.capture, exchange.dialect or exchange.capture.dialect
    disconnected = exchange.outcome == "client_disconnected"
    client = Client(
        dialect=dialect,
        transport=capture.transport,
        path=exchange.path,
        headers=_recorded_headers(capture.headers),
        status=exchange.status or None,
        reply_headers=_recorded_headers(read_headers(capture.reply_headers)),
        violations=() if disconnected else _check(dialect, reply),
    )
    time = datetime.fromtimestamp(capture.arrived, UTC).isoformat(timespec="milliseconds")
    first = exchange.first_byte
    return Exchange(
        FORMAT,
        id=token_hex(4),
        time=time.replace("+00:00", "Z"),
        model=exchange.model,
        outcome=exchange.outcome,
        error_code=exchange.error_code,
        first_byte_ms=None if first is None else _milliseconds(first),
        duration_ms=_milliseconds(exchange.duration),
        losses=tuple(exchange.losses),
        client=client,
        calls=tuple(calls),
    )


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


# Secrets and headers


def _secrets_of(capture: Capture) -> Iterator[str]:
    """Yield the credentials of an exchange."""
    yield from header_secrets(capture.headers.items())
    if capture.request is not None:
        yield from tool_secrets(capture.request.join())
    for call in capture.calls:
        yield from header_secrets(_header_pairs(call.headers))
        yield from header_secrets(_header_pairs(call.reply_headers))


def _header_pairs(raw: RawHeaders) -> Iterator[tuple[str, str]]:
    return ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw)


def _recorded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(headers.items())
        if name in _HEADERS or name.startswith(_HEADER_PREFIXES)
    }


# Bodies


def _make_body(
    redactor: Redactor, captured: CapturedBody, data: bytes | None = None
) -> tuple[Body, tuple[tuple[float, int], ...]]:
    """Return the redacted body, and its reads in milliseconds and bytes."""
    if captured.size > captured.limit:
        return Body(b"", ".txt", captured.size), ()
    whole = captured.join()
    reads = captured.reads
    if data is not None and data != whole:
        # Which bytes a read brought is not known after decompression.
        whole, reads = data, [(reads[-1][0], len(data))] if reads else []
    redacted = redactor.redact(whole, [*accumulate(size for _, size in reads)])
    if redacted is None:
        return Body(b"", ".txt", len(whole)), ()
    return make_body(redacted.data), _move_reads(reads, redacted)


def _move_reads(
    reads: Iterable[tuple[float, int]], redacted: RedactedBody
) -> tuple[tuple[float, int], ...]:
    """Return the reads of a redacted body."""
    before = (0, *redacted.cuts)
    return tuple(
        (_milliseconds(seconds), cut - start)
        for (seconds, _), start, cut in zip(reads, before, redacted.cuts, strict=False)
    )


def _decoded(call: CapturedCall) -> bytes:
    """Return the decompressed body of a response; as it is if that fails."""
    data, headers = call.reply.join(), read_headers(call.reply_headers)
    encoding = headers.get("content-encoding")
    if encoding is None or not data:
        return data
    try:
        return httpx.Response(200, headers={"content-encoding": encoding}, content=data).content
    except httpx.DecodingError:
        return data


def _check(dialect: str, body: Body) -> tuple[Violation, ...]:
    """Return the violations of the dialect's rules in a stream."""
    if not body.streamed:
        return ()
    return tuple(adapters.check(dialect, body.data)[:_MAX_VIOLATIONS])


# Routes


def _model_of(request: bytes) -> str:
    try:
        return adapters.parse_body(request).model or ""
    except (*DECODE_ERRORS, DragomanError):
        return ""


def _in_force(backend: BackendCapabilities, model: str) -> tuple[str | None, dict[str, object]]:
    """Return the profile for a model, and the capabilities that differ from it."""
    profile = backend.profile_for(model)
    plain = _fields(BackendCapabilities(profile).for_model(model))
    given = _fields(backend.for_model(model))
    return profile, {name: value for name, value in given.items() if value != plain[name]}


def _fields(capabilities: Capabilities) -> dict[str, object]:
    return cast("dict[str, object]", msgspec.to_builtins(capabilities))
