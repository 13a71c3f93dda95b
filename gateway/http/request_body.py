"""Request bodies: read within a limit, decompressed, and parsed.

The limit applies to the decompressed body and is checked during decompression.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast

import brotli  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] # typed below
import msgspec
import zstandard
from litestar.types import Receive
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import (
    DIALECTS,
    Dialect,
    InvalidRequestError,
    RequestBody,
    dialects_by_path,
    parse_body,
)
from adapters.json_text import DECODE_ERRORS
from adapters.sse import BYTE_ORDER_MARK
from adapters.wire.json_object import NULL
from gateway.errors import (
    ClientDisconnectedError,
    RequestTimeoutError,
    RequestTooLargeError,
    UnsupportedEncodingError,
)

# The size of the parts in which a body is decompressed; the limit is checked after each part.
_OUTPUT_BYTES = 256 * 1024
# zlib gets its input in small parts, because it copies the rest of a part with each output.
_INPUT_BYTES = 16 * 1024
# Larger bodies are decompressed in a thread, so that other requests do not wait.
_MAX_INLINE_BYTES = 64 * 1024
# The longest time between two parts of a body.
BODY_TIMEOUT_SECONDS = 120
# Enough to recognize a zlib header.
_ZLIB_HEADER_BYTES = 16
# The window that a zstd body may require; by default compressors use 8 MiB or less.
_MAX_ZSTD_WINDOW_BYTES = 64 * 1024 * 1024
_TEXT: Final = msgspec.json.Decoder(str)
_TRUE: Final = Raw(b"true")


class _BrotliDecompressor(Protocol):
    """The part of `brotli.Decompressor` that is used here."""

    def process(self, data: bytes, output_buffer_limit: int) -> bytes: ...
    def is_finished(self) -> bool: ...


_NEW_BROTLI = cast("Callable[[], _BrotliDecompressor]", brotli.Decompressor)
_BROTLI_ERROR = cast("type[Exception]", brotli.error)


def _inflate(data: bytes, bits: int = zlib.MAX_WBITS | 16) -> Iterator[bytes]:
    """Decompress a form of zlib; the default of `bits` selects gzip."""
    inflate = zlib.decompressobj(bits)
    for start in range(0, len(data), _INPUT_BYTES):
        left = data[start : start + _INPUT_BYTES]
        # Zeros after the end are ignored, because some clients add them.
        while left := left.lstrip(b"\0") if inflate.eof else left:
            if inflate.eof:
                # A gzip body may have several members.
                inflate = zlib.decompressobj(bits)
            yield inflate.decompress(left, _OUTPUT_BYTES)
            left = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
    if data and not inflate.eof:
        raise zlib.error("unexpected end of data")


def _inflate_deflate(data: bytes) -> Iterator[bytes]:
    """Decompress `deflate`, which some clients send without a zlib header."""
    try:
        zlib.decompressobj().decompress(data[:_ZLIB_HEADER_BYTES], 1)
    except zlib.error:
        return _inflate(data, -zlib.MAX_WBITS)
    return _inflate(data, zlib.MAX_WBITS)


def _decompress_brotli(data: bytes) -> Iterator[bytes]:
    decompressor = _NEW_BROTLI()
    yield decompressor.process(data, output_buffer_limit=_OUTPUT_BYTES)
    while not decompressor.is_finished():
        part = decompressor.process(b"", output_buffer_limit=_OUTPUT_BYTES)
        if not part:
            raise _BROTLI_ERROR("unexpected end of data")
        yield part


def _decompress_zstd(data: bytes) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW_BYTES)
    reader = decompressor.stream_reader(data, read_across_frames=True)
    while part := reader.read(_OUTPUT_BYTES):
        yield part


_DECOMPRESSORS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _inflate,
    "x-gzip": _inflate,
    "deflate": _inflate_deflate,
    "br": _decompress_brotli,
    "zstd": _decompress_zstd,
}
_ERRORS = (zlib.error, _BROTLI_ERROR, zstandard.ZstdError)


async def read_body(receive: Receive, headers: dict[str, str], limit: int) -> bytes:
    """Read a whole body and decompress it.

    Raises `RequestTooLargeError`, `RequestTimeoutError`, `UnsupportedEncodingError`,
    `InvalidRequestError` or `ClientDisconnectedError`.
    """
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS) as timer:
            body = await _receive_all(receive, limit, timer)
    except TimeoutError:
        raise RequestTimeoutError(
            None, f"no data of the body received for {BODY_TIMEOUT_SECONDS} seconds"
        ) from None
    encoding = headers.get("content-encoding")
    if encoding is not None and len(body) > _MAX_INLINE_BYTES:
        body = await asyncio.to_thread(decompress, body, encoding, limit)
    elif encoding is not None:
        body = decompress(body, encoding, limit)
    return body.removeprefix(BYTE_ORDER_MARK)


async def _receive_all(receive: Receive, limit: int, timer: asyncio.Timeout) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnectedError
        parts.append(message["body"])
        size += len(message["body"])
        if size > limit:
            raise _too_large(limit)
        if not message["more_body"]:
            return b"".join(parts)
        timer.reschedule(asyncio.get_running_loop().time() + BODY_TIMEOUT_SECONDS)


def decompress(body: bytes, encodings: str, limit: int) -> bytes:
    """Decompress a body; `encodings` lists its encodings in the order of their application."""
    for encoding in reversed([one.strip().lower() for one in encodings.split(",")]):
        if encoding in ("", "identity"):
            continue
        if encoding not in _DECOMPRESSORS:
            known = ", ".join(_DECOMPRESSORS)
            raise UnsupportedEncodingError(
                None, f"content-encoding must be one of {known}, not {encoding!r}"
            )
        body = _decompress_one(body, encoding, limit)
    return body


def _decompress_one(body: bytes, encoding: str, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        for part in _DECOMPRESSORS[encoding](body):
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            parts.append(part)
    except _ERRORS as error:
        raise InvalidRequestError(None, f"the body is not valid {encoding}: {error}") from None
    return b"".join(parts)


def _too_large(limit: int) -> RequestTooLargeError:
    return RequestTooLargeError(None, f"the body exceeds {limit} bytes")


class ParsedRequest(Struct, frozen=True):
    """A create request with decoded top-level fields."""

    body: RequestBody
    dialect: Dialect
    # Empty if the request has none; then the model of its history is used.
    model: str

    @property
    def store(self) -> bool | None:
        """Return the field `store`, or None if it is absent or no boolean."""
        raw = self.body.fields.get("store", NULL)
        return {b"true": True, b"false": False}.get(bytes(raw))

    @property
    def stream(self) -> bool:
        """Whether the client requests a stream."""
        return self.body.fields.get("stream") == _TRUE


def parse_request(body: bytes | RequestBody, path: str, path_model: str = "") -> ParsedRequest:
    """Parse a request to an endpoint, which several dialects may share.

    `path_model` is the model of a body that has none.

    Raises `InvalidRequestError` if the body is malformed or belongs to another endpoint.
    """
    parsed = parse_body(body) if isinstance(body, bytes) else body
    candidates = dialects_by_path()[path]
    if parsed.items is None and parsed.fields.get(candidates[0].names["items"], NULL) == NULL:
        _check_endpoint(parsed, path)
    dialect = next(one for one in candidates if one.matches(parsed))
    model = _read_model(parsed)
    if path_model and not model:
        model, named = path_model, {"model": Raw(msgspec.json.encode(path_model))}
        parsed = replace(parsed, fields=parsed.fields | named, raw=None)
    return ParsedRequest(parsed, dialect, model)


def _check_endpoint(body: RequestBody, path: str) -> None:
    for other in DIALECTS.values():
        field = other.names["items"]
        if other.path != path and body.fields.get(field, NULL) != NULL:
            why = f"is not supported by this endpoint; send the request to /v1{other.path}"
            raise InvalidRequestError(field, why)


def _read_model(body: RequestBody) -> str:
    raw = body.fields.get("model", NULL)
    if raw == NULL:
        return ""
    try:
        return _TEXT.decode(raw)
    except DECODE_ERRORS:
        raise InvalidRequestError("model", "must be a string") from None
