"""Reads the bodies of requests: within a limit, and decompressed.

Codex and others compress what they send (P154). The limit holds for what comes out: a small body
that would become a huge one is refused while it grows.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol, cast

# It comes without types; the little that is used of it has some below.
import brotli  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] # as said above
import zstandard
from litestar.types import Receive

from adapters import InvalidRequestError
from adapters.sse import BYTE_ORDER_MARK
from gateway.errors import (
    ClientDisconnectedError,
    RequestTimeoutError,
    RequestTooLargeError,
    UnsupportedEncodingError,
)

# So much is decompressed at once before the limit is checked again.
_STEP = 256 * 1024
# So much is given to a decompressor at once that hands back what it did not take: were it all of a
# body, a large one would be copied again and again.
_SLICE = 16 * 1024
# What is larger is decompressed in a thread, so that nobody else waits for it.
_LARGE = 64 * 1024
# A client that sends no more keeps nobody waiting longer than this.
_PATIENCE = 120
# So much tells whether there is a zlib header.
_HEADER = 16
# The memory that a zstd body may ask for; by default compressors ask for 8 MiB or less.
_ZSTD_WINDOW = 64 * 1024 * 1024


class _BrotliStream(Protocol):
    """What is used of `brotli.Decompressor`."""

    def process(self, data: bytes, output_buffer_limit: int) -> bytes: ...
    def is_finished(self) -> bool: ...


_BROTLI_STREAM = cast("Callable[[], _BrotliStream]", brotli.Decompressor)
_BROTLI_ERROR = cast("type[Exception]", brotli.error)


class Decompressor(Protocol):
    """Takes compressed bytes; gives no more at once than asked for."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress all of a body, piece by piece."""
        ...


class Inflate:
    """gzip and deflate. What calls itself deflate comes with or without a zlib header."""

    def __init__(self, *bits: int) -> None:
        self._bits = bits

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress all of a body, piece by piece."""
        bits = self._fitting(data)
        inflate = zlib.decompressobj(bits)
        for piece in _slices(data):
            left = piece
            # Some pad the end with zeros, as tapes did.
            while left := left.lstrip(b"\0") if inflate.eof else left:
                if inflate.eof:
                    # Some clients write gzip in several members, which count as one body.
                    inflate = zlib.decompressobj(bits)
                yield inflate.decompress(left, _STEP)
                left = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
        if data and not inflate.eof:
            raise zlib.error("it ends too early")

    def _fitting(self, data: bytes) -> int:
        """Find the form that the first bytes are in."""
        for bits in self._bits[:-1]:
            try:
                zlib.decompressobj(bits).decompress(data[:_HEADER], 1)
            except zlib.error:
                continue
            return bits
        return self._bits[-1]


class Brotli:
    """br."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress all of a body, piece by piece."""
        decompressor = _BROTLI_STREAM()
        yield decompressor.process(data, output_buffer_limit=_STEP)
        while not decompressor.is_finished():
            piece = decompressor.process(b"", output_buffer_limit=_STEP)
            if not piece:
                raise _BROTLI_ERROR("it ends too early")
            yield piece


class Zstandard:
    """zstd."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress all of a body, piece by piece."""
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        reader = decompressor.stream_reader(data, read_across_frames=True)
        while piece := reader.read(_STEP):
            yield piece


_DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    "gzip": lambda: Inflate(zlib.MAX_WBITS | 16),
    "x-gzip": lambda: Inflate(zlib.MAX_WBITS | 16),
    "deflate": lambda: Inflate(zlib.MAX_WBITS, -zlib.MAX_WBITS),
    "br": Brotli,
    "zstd": Zstandard,
}
_ERRORS = (zlib.error, _BROTLI_ERROR, zstandard.ZstdError)


async def read_body(receive: Receive, headers: dict[str, str], limit: int) -> bytes:
    """Read a whole body, however it is compressed."""
    try:
        async with asyncio.timeout(_PATIENCE) as timer:
            body = await _receive_all(receive, headers, limit, timer)
    except TimeoutError:
        raise RequestTimeoutError(
            None, f"nothing more of the body came for {_PATIENCE} seconds"
        ) from None
    encoding = headers.get("content-encoding")
    if encoding is not None and len(body) > _LARGE:
        body = await asyncio.to_thread(decompress, body, encoding, limit)
    elif encoding is not None:
        body = decompress(body, encoding, limit)
    return body.removeprefix(BYTE_ORDER_MARK)


async def _receive_all(
    receive: Receive, headers: dict[str, str], limit: int, timer: asyncio.Timeout
) -> bytes:
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnectedError
        piece = message["body"]
        if not message["more_body"] and not pieces:
            return _within(piece, limit)
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        if not message["more_body"]:
            return b"".join(pieces)
        timer.reschedule(asyncio.get_running_loop().time() + _PATIENCE)


def decompress(body: bytes, encodings: str, limit: int) -> bytes:
    """Undo the encodings of a body, the last applied first."""
    for encoding in reversed([one.strip().lower() for one in encodings.split(",")]):
        if encoding in ("", "identity"):
            continue
        make = _DECOMPRESSORS.get(encoding)
        if make is None:
            known = ", ".join(_DECOMPRESSORS)
            raise UnsupportedEncodingError(
                None, f"content-encoding {encoding!r} is none of {known}"
            )
        body = _decompress_one(body, encoding, make(), limit)
    return body


def _decompress_one(body: bytes, encoding: str, decompressor: Decompressor, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in decompressor.pieces(body):
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
    except _ERRORS as error:
        raise InvalidRequestError(None, f"the body is not {encoding}: {error}") from None
    return b"".join(pieces)


def _slices(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _SLICE):
        yield data[start : start + _SLICE]


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> RequestTooLargeError:
    return RequestTooLargeError(None, f"the body is over {limit} bytes")
