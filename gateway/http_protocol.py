"""The server's side of HTTP, mended in four places.

A client may offer to go on in another protocol (`Upgrade: h2c`, as Java's client and `curl --http2`
do) and goes on in HTTP/1.1 if the offer is not taken (RFC 9110, 7.8). The parser stops at such an
offer as if it had been taken, and the body would be lost. A connection on which nothing ever comes
is closed as one is on which nothing comes any more. What is no HTTP is refused in our own envelope.
And that the server stops is told to whoever wants to know, as long as there are connections:
without any, the application is told at once.
"""

import asyncio

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway import statuses, stopping
from gateway.problems import write_message

_WEBSOCKET = b"websocket"
# Where a WebSocket may be opened. Anywhere else such an offer is answered as if it were none.
_SOCKETS = (b"/v1/responses", b"/responses")
_BODIES = (b"content-length", b"transfer-encoding")


class PatientProtocol(HttpToolsProtocol):
    """Declines every offer but a WebSocket; where there is none, that is refused in words."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        """Expect a first request, but not for ever."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def shutdown(self) -> None:
        """Let the running answer be the last."""
        stopping.tell()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Take what came; keep it while it may have to be read again."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._refuse()
        except httptools.HttpParserUpgrade as offer:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            elif self._get_upgrade() != _WEBSOCKET:
                self._decline(data[offer.args[0] :])

    def _refuse(self) -> None:
        """Say that what came is not HTTP, in the words that clients of all dialects know."""
        body = write_message(statuses.BAD_REQUEST, "what was sent is not HTTP/1.1")
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
        rest = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(head + rest + body)
        self.transport.close()

    def on_headers_complete(self) -> None:
        """Begin to answer; a request that comes with an offer is read again first."""
        if not self._is_offered():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the body, of a request that has begun."""
        if not self._is_offered():
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        """Tell whether to go on as a WebSocket, which begins with a GET that has no body."""
        return (
            super()._should_upgrade()
            and self.url.partition(b"?")[0].rstrip(b"/") in _SOCKETS
            and self.parser.get_method() == b"GET"
            # In an older version nobody may take an offer (RFC 9110, 7.8): a proxy that speaks it
            # would wait for an answer that never comes.
            and self.parser.get_http_version() == "1.1"
            and not any(name in _BODIES for name, _ in self.headers)
        )

    def _is_offered(self) -> bool:
        return self.parser.should_upgrade() and self._get_upgrade() != _WEBSOCKET

    def _decline(self, rest: bytes) -> None:
        """Read the request again as if nothing had been offered."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [
            b"%b: %b" % (name, value)
            for name, value in self.headers
            if name not in (b"upgrade", b"http2-settings", b"connection")
        ]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)
