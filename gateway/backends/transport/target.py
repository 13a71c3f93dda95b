"""Requests that are built from prepared parts: httpx itself takes several times as long."""

from collections.abc import AsyncIterator, Callable, Sequence

import httpx

from gateway.backends.pool import Origin

PORTS = {"http": 80, "https": 443}
# The extension of a request that says where it goes.
ORIGIN = "dragoman.origin"
# The extension with whom to tell that there is a connection, and the request is now sent.
CONNECTED = "dragoman.connected"


def origin_of(url: httpx.URL) -> Origin:
    """Tell where connections for a URL go."""
    if url.scheme not in PORTS:
        raise httpx.UnsupportedProtocol(f"No way to speak {url.scheme!r}.")
    return Origin(url.scheme, url.raw_host.decode("ascii"), url.port or PORTS[url.scheme])


class Content(httpx.AsyncByteStream):
    """The body of a request, all of it."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.content


class Target:
    """One address of a backend, with the headers that every request there has.

    `connect_timeout` is in seconds, for a connection and for a place in the pool; None: no limit.
    """

    def __init__(
        self,
        url: httpx.URL | str,
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        connect_timeout: float | None = None,
    ) -> None:
        self._url = httpx.URL(url)
        self._headers = [(b"Host", self._url.netloc), *headers]
        # The others are there because httpx's own transport asks for all four.
        limits = {"connect": connect_timeout, "pool": connect_timeout, "read": None, "write": None}
        # Found out once, so that the transport need not take every URL apart.
        self._extensions = {"timeout": limits, ORIGIN: origin_of(self._url)}

    def post(
        self,
        content: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        on_connected: Callable[[], None] | None = None,
    ) -> httpx.Request:
        """Build a POST request, with more headers for this one."""
        length = (b"Content-Length", b"%d" % len(content))
        return httpx.Request(
            "POST",
            self._url,
            headers=[*self._headers, *headers, length],
            stream=Content(content),
            extensions={**self._extensions, CONNECTED: on_connected},
        )

    def get(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> httpx.Request:
        """Build a GET request, with more headers for this one."""
        return httpx.Request(
            "GET",
            self._url,
            headers=[*self._headers, *headers],
            stream=Content(b""),
            extensions=self._extensions,
        )
