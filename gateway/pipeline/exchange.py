"""A request that was sent, and the backend's open response."""

from collections.abc import AsyncIterator

import httpx
from msgspec import Struct

from adapters import Loss, ReplyTranslator
from gateway.backends.client import BackendClient
from gateway.http.headers import Headers


class Exchange(Struct, frozen=True):
    """A request that was sent, and the backend's open response."""

    backend: BackendClient
    response: httpx.Response
    chunks: AsyncIterator[bytes]
    reply: ReplyTranslator
    # Headers of the backend's response that the client gets.
    headers: Headers
    # The backend's id of the request, which is among the headers.
    request_id: str | None
    # What was lost of the request.
    losses: tuple[Loss, ...]
    # Under which the client's reasoning is stored; None if it must not be.
    reasoning_scope: str | None

    async def release(self) -> None:
        """Close the response; one that was read to its end leaves its connection to the pool."""
        await body_of(self.response).aclose()


def body_of(response: httpx.Response) -> httpx.AsyncByteStream:
    """Return the body of a response; iterating over it costs less than httpx's own iterators."""
    stream = response.stream
    if not isinstance(stream, httpx.AsyncByteStream):
        raise TypeError("a response of an asynchronous transport has an asynchronous stream")
    return stream
