"""Answers in HTTP/1.0, which knows no chunks: what has no length ends with the connection.

The server would send chunks all the same, which nobody may (RFC 9112, 6.1). Some proxies and load
generators still speak it.
"""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def use_http10_framing(cycle: RequestResponseCycle) -> None:
    """Have one answer sent without chunks. Its connection is closed after it in any case."""
    send = cycle.send
    ends_with_connection = False

    async def send_plainly(message: ASGISendEvent) -> None:
        nonlocal ends_with_connection
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            ends_with_connection = b"content-length" not in names
            if ends_with_connection:
                cycle.chunked_encoding = False
        elif message["type"] == "http.response.body" and ends_with_connection:
            # Of a length that nobody said, each piece is all that is expected.
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    cycle.send = send_plainly  # type: ignore[method-assign] # the server offers no other way
