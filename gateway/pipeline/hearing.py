"""How a backend's answer is heard: as what, in which pieces, and for how long after its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import httpx

from adapters import Exchange
from adapters.translation.streams import StreamCollector
from gateway.config.schema import TimeoutConfig

# How a body ends that is not whole.
CUT: Final = (httpx.TransportError, httpx.DecodingError)
# A backend that has said its last word may keep the connection open; for so long we wait for the
# end, so that the connection can be used again.
LINGER: Final = 1.0
# One that has finished its answer may still say what it cost, or never say its last word; for so
# long that is waited for, and no longer than for anything else it may say.
_LAST_WORD: Final = 10.0


def last_word(timeouts: TimeoutConfig) -> float:
    """Tell how long to wait for the last word of an answer that is finished."""
    return min(_LAST_WORD, timeouts.idle or _LAST_WORD)


def is_streamed(headers: dict[str, str], exchange: Exchange) -> bool:
    """Tell what a backend sends by what it says of it, or else by what it was asked for."""
    kind = headers.get("content-type", "").lower()
    if "event-stream" in kind:
        return True
    return exchange.backend_streams and "json" not in kind


def pieces_of(response: httpx.Response, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """Give the body as it comes; decompressed, if a backend compresses without being asked."""
    if "content-encoding" in headers:
        return response.aiter_bytes()
    return aiter(stream_of(response))


def stream_of(response: httpx.Response) -> httpx.AsyncByteStream:
    """Give the body of an answer; asked for and closed by itself it costs less than by httpx."""
    stream = response.stream
    if not isinstance(stream, httpx.AsyncByteStream):
        raise TypeError("a response of an asynchronous transport has an asynchronous stream")
    return stream


async def complete(collector: StreamCollector, pieces: AsyncIterator[bytes]) -> None:
    """Take what comes until the last word of a stream."""
    while not collector.done:
        piece = await anext(pieces, None)
        if piece is None:
            return
        collector.feed(piece)


async def exhaust(pieces: AsyncIterator[bytes]) -> None:
    """Wait a little for the end of a stream that has said its last word."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            async for _ in pieces:
                pass


async def once(body: bytes) -> AsyncIterator[bytes]:
    """Give a body that is there already as one that comes."""
    yield body
