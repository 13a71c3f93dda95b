"""Recordings of exchanges from the files of other tools."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from adapters import DragomanError, RequestBody, dialects_by_path, parse_body
from adapters.json_text import DECODE_ERRORS
from adapters.sse import BYTE_ORDER_MARK
from gateway.config.schema import BackendConfig
from gateway.http.paths import rewrite_path
from gateway.observability.capture import Capture, CapturedBody, CapturedCall, RawHeaders
from gateway.recording.cassettes import read_cassette
from gateway.recording.exchange_writer import FinishedExchange, RecordingMaker
from gateway.recording.format import Recording
from gateway.recording.har import is_har, read_har
from gateway.recording.http_exchange import HttpExchange, ImportFormatError, split_url
from gateway.recording.secrets import url_secrets

_FIRST_ERROR: Final = 400
_ID_LENGTH: Final = 8


def read_exchanges(file: Path) -> list[HttpExchange]:
    """Return the exchanges of a cassette or a HAR file.

    Raises `ImportFormatError` if the file is neither.
    """
    content = _decode(file.read_bytes())
    return list(read_har(content) if is_har(content) else read_cassette(content))


def _decode(data: bytes) -> object:
    text = data.removeprefix(BYTE_ORDER_MARK)
    try:
        if text.lstrip().startswith((b"{", b"[")):
            return msgspec.json.decode(text)
        return msgspec.yaml.decode(text)
    except DECODE_ERRORS as error:
        reason = str(error).partition("\n")[0]
        raise ImportFormatError(f"it is neither JSON nor YAML: {reason}") from None


def make_recording(exchange: HttpExchange) -> Recording | None:
    """Return the redacted recording of a request that creates a reply; None for any other.

    Both sides of the recording are equal, because there was no gateway in between.
    """
    url = split_url(exchange.url)
    endpoint, model = rewrite_path(url.path)
    suffix = next((one for one in dialects_by_path() if endpoint.rstrip("/").endswith(one)), None)
    request = _read_request(exchange.request_body, model)
    if exchange.method != "POST" or suffix is None or request is None:
        return None
    dialect = next(one.name for one in dialects_by_path()[suffix] if one.matches(request))
    secrets = [*url_secrets(exchange.url), *(value for _, value in parse_qsl(url.query))]
    backend = BackendConfig(url.hostname or "backend", exchange.url, dialect)
    captured = _capture(exchange, request, backend.name, url.path)
    recording = RecordingMaker(secrets, [backend]).make(
        FinishedExchange(
            path=url.path,
            dialect=dialect,
            model=request.model or "",
            status=exchange.status or 0,
            outcome="ok" if (exchange.status or _FIRST_ERROR) < _FIRST_ERROR else "error",
            error_code=None,
            first_byte=exchange.reads[0][0] if exchange.reads else None,
            duration=exchange.reads[-1][0] if exchange.reads else 0,
            losses=[],
            capture=captured,
        )
    )
    described = replace(recording.exchange, id=_identify(exchange), time=exchange.time)
    return replace(recording, exchange=described)


def _read_request(body: bytes, model: str | None) -> RequestBody | None:
    """Return a request with its model, which is in the path of some servers."""
    try:
        request = parse_body(body)
        if model is None or request.model is not None:
            return request
        return parse_body(request.encode(model=model))
    except DragomanError:
        return None


def _capture(exchange: HttpExchange, request: RequestBody, backend: str, path: str) -> Capture:
    sent = _body(request.encode())
    reply_headers = _raw_headers(exchange.reply_headers)
    call = CapturedCall(
        backend,
        exchange.method,
        path,
        _raw_headers(exchange.request_headers),
        sent,
        _body(exchange.reply_body, exchange.reads),
        status=exchange.status,
        reply_headers=reply_headers,
        error=None if exchange.status else "no response was recorded",
    )
    return Capture(
        sent.limit,
        _body(exchange.reply_body),
        headers=dict(exchange.request_headers),
        request=sent,
        reply_headers=reply_headers,
        calls=[call],
        arrived=0,
    )


def _body(data: bytes, reads: tuple[tuple[float, int], ...] = ()) -> CapturedBody:
    return CapturedBody(len(data), len(data), [data], [*reads])


def _raw_headers(headers: Mapping[str, str]) -> RawHeaders:
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
        # The body was decompressed.
        if name != "content-encoding"
    ]


def _identify(exchange: HttpExchange) -> str:
    """Return an id that is the same each time the file is imported."""
    content = (exchange.time, exchange.url, exchange.request_body, exchange.reply_body)
    return sha256(repr(content).encode()).hexdigest()[:_ID_LENGTH]
