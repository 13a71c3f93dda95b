"""Answers in HTTP/1.0, which knows no chunks: what has no length ends with the connection.

The server would send chunks all the same, which nobody may (RFC 9112, 6.1). Some proxies and load
generators still speak it.
"""

import asyncio
import logging
from http import HTTPStatus
from typing import Final, cast

import httptools
from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request

from gateway import statuses
from gateway.errors import write_message
from gateway.server import shutdown as stopping


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


# The server's side of HTTP, mended in six places.
#
# A client may offer to go on in another protocol (`Upgrade: h2c`, as Java's client and `curl
# --http2`
# do) and goes on in HTTP/1.1 if the offer is not taken (RFC 9110, 7.8). The parser stops at such an
# offer as if it had been taken, and the body would be lost. A connection on which nothing ever
# comes,
# or a request that never gets beyond its head, is closed as one is on which nothing comes any
# more. A
# head without end is refused, and what is no HTTP, in our own envelope. A client of HTTP/1.0 is
# sent
# no chunks. And that the server stops is told to whoever wants to know, as long as there are
# connections: without any, the application is told at once.


# So much may come in a row without one byte of a body: a head, or trailers. Well above what clients
# and proxies send (nginx takes 32 KiB, Node 16), and nobody can fill the memory with more.
_LONGEST_HEAD = 64 * 1024
_WEBSOCKET = b"websocket"
# Where a WebSocket may be opened. Anywhere else such an offer is answered as if it were none.
_SOCKETS = (b"/v1/responses", b"/responses")
_BODIES = (b"content-length", b"transfer-encoding")


class GatewayHttpProtocol(HttpToolsProtocol):
    """Declines every offer but a WebSocket; where there is none, that is refused in words."""

    # How much came since the last byte of a body, or the end of a head.
    _fruitless = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        """Expect a first request, but not for ever."""
        super().connection_made(transport)
        self._arm_idle_timeout()

    def _arm_idle_timeout(self) -> None:
        """Close the connection unless something happens in time."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def shutdown(self) -> None:
        """Let the running answer be the last."""
        stopping.notify_shutdown()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Take what came; keep it while it may have to be read again."""
        self._fruitless += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._refuse(HTTPStatus.BAD_REQUEST, "what was sent is not HTTP/1.1")
        except httptools.HttpParserUpgrade as offer:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            elif self._get_upgrade() != _WEBSOCKET:
                self._decline(data[offer.args[0] :])
        else:
            if self._fruitless > _LONGEST_HEAD:
                why = f"the headers are over {_LONGEST_HEAD} bytes"
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        """Say why nothing is answered, in the words that clients of all dialects know."""
        body = write_message(status, why)
        head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\n"
        rest = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(f"{head}{rest}".encode() + body)
        self.transport.close()

    def on_message_begin(self) -> None:
        """Expect the rest of the head, but not for ever; an answer that is running goes on."""
        super().on_message_begin()
        if self.timeout_keep_alive_task is not None:
            self._arm_idle_timeout()

    def on_headers_complete(self) -> None:
        """Begin to answer; a request that comes with an offer is read again first."""
        self._fruitless = 0
        self._unset_keepalive_if_required()
        if self._has_declined_upgrade():
            return
        super().on_headers_complete()
        if self.parser.get_http_version() == "1.0":
            use_http10_framing(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._fruitless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body, of a request that has begun."""
        self._fruitless = 0
        if not self._has_declined_upgrade():
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

    def _has_declined_upgrade(self) -> bool:
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


# The server's side of WebSockets, mended where the service stops and where handshakes fail.


# Under this name the application finds, in the scope, the event that is set when we stop.
STOPPING: Final = "dragoman.stopping"
# Each exchange has a line of its own; whoever sends what is no text is closed on, and that is all.
_LOG: Final = logging.getLogger("dragoman.websocket")
_LOG.setLevel(logging.CRITICAL)


class GatewayWebSocketProtocol(WebSocketsSansIOProtocol):
    """Lets running answers end when the service stops."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = self.conn.logger = _LOG
        self._stopping = asyncio.Event()

    def handle_connect(self, event: Request) -> None:
        """Begin; the application, which runs a moment later, will learn when we stop."""
        super().handle_connect(event)
        if not self.close_sent:
            cast("dict[str, object]", self.scope.get("extensions"))[STOPPING] = self._stopping

    def shutdown(self) -> None:
        """Tell the application, which closes the socket when its answers have ended."""
        if self.handshake_complete and not self.close_sent:
            self._stopping.set()
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Take what came; a handshake that cannot be read, as with a huge header, is answered."""
        super().data_received(data)
        problem = self.conn.handshake_exc
        if problem is not None and not self.handshake_initiated and not self.close_sent:
            self._refuse(f"the handshake cannot be read: {problem}")

    def _refuse(self, message: str) -> None:
        self.close_sent = True
        body = write_message(statuses.BAD_REQUEST, message)
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
