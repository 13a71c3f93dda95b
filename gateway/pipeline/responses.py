"""The responses of backends: their status, their form and the chunks of their bodies."""

from collections.abc import AsyncIterator
from typing import Final

import httpx

# Not only 200, because some frameworks reply to every POST with 201 by default.
SUCCESS: Final = frozenset((200, 201, 202, 203))


def is_stream(content_type: str, *, requested: bool) -> bool:
    """Whether a successful response is a stream; a backend may ignore the requested form."""
    content_type = content_type.lower()
    return "event-stream" in content_type or (requested and "json" not in content_type)


def response_chunks(response: httpx.Response, *, compressed: bool) -> AsyncIterator[bytes]:
    """Return the decompressed chunks of a response."""
    # Without compression, reading the body directly costs less than with httpx.
    return response.aiter_bytes() if compressed else aiter(response_body(response))


def response_body(response: httpx.Response) -> httpx.AsyncByteStream:
    """Return the body of a response, which must be closed."""
    body = response.stream
    if not isinstance(body, httpx.AsyncByteStream):
        raise TypeError("a response of an asynchronous transport has an asynchronous stream")
    return body
