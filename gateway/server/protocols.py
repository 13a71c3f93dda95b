"""Overrides of uvicorn's HTTP and WebSocket protocols."""

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

from gateway.errors import write_framework_error
from gateway.http.paths import rewrite_path
from gateway.server.shutdown import notify_shutdown

# The extension of an ASGI scope with the event that is set on shutdown.
SHUTDOWN_EXTENSION: Final = "dragoman.shutdown"

# The limit for consecutive bytes without a body: headers or trailers. Clients and proxies send much
# less (nginx accepts 32 KiB, Node.js 16 KiB).
_MAX_HEAD_BYTES: Final = 64 * 1024
_WEBSOCKET: Final = b"websocket"
_WEBSOCKET_PATHS: Final = ("/v1/responses", "/responses")
_BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")
_UPGRADE_HEADERS: Final = (b"upgrade", b"http2-settings", b"connection")

# Silences websockets: the gateway logs each exchange, and errors of the protocol end a connection.
_WEBSOCKET_LOG: Final = logging.getLogger("dragoman.websocket")
_WEBSOCKET_LOG.setLevel(logging.CRITICAL)


def _rejection(status: HTTPStatus, message: str) -> bytes:
    """Return an HTTP response with an error in the form that all dialects share."""
    body = write_framework_error(status, message)
    head = (
        f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


class GatewayHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with these changes.

    - An offer to switch to another protocol is ignored (RFC 9110, 7.8). The parser stops at such an
      offer (`Upgrade: h2c` of Java's client and `curl --http2`), so the request is parsed again
      without it.
    - A connection is closed if no request or no complete head arrives in time.
    - A head that is too long and data that is not HTTP are rejected with a JSON error.
    - An HTTP/1.0 client gets no chunked response.
    - Listeners of the shutdown are called as soon as it starts.
    """

    # The number of bytes since the end of a head or the last byte of a body.
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        """Start the timeout for the first request."""
        super().connection_made(transport)
        self._arm_idle_timeout()

    def _arm_idle_timeout(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def shutdown(self) -> None:
        """Call the listeners of the shutdown; close the connection after the running response."""
        notify_shutdown()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parse data of the client."""
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._reject(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP/1.1")
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            elif self._get_upgrade() != _WEBSOCKET:
                self._parse_without_upgrade(data[upgrade.args[0] :])
        else:
            if self._head_bytes > _MAX_HEAD_BYTES:
                message = f"the headers exceed {_MAX_HEAD_BYTES} bytes"
                self._reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)

    def _reject(self, status: HTTPStatus, message: str) -> None:
        self.transport.write(_rejection(status, message))
        self.transport.close()

    def on_message_begin(self) -> None:
        """Start the timeout for the rest of the head, unless a response is running."""
        super().on_message_begin()
        if self.timeout_keep_alive_task is not None:
            self._arm_idle_timeout()

    def on_headers_complete(self) -> None:
        """Start the response, unless the request will be parsed again."""
        self._head_bytes = 0
        self._unset_keepalive_if_required()
        if self._ignores_upgrade():
            return
        super().on_headers_complete()
        if self.parser.get_http_version() == "1.0":
            _disable_chunked_encoding(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Receive a chunk of the body."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body, unless the request will be parsed again."""
        self._head_bytes = 0
        if not self._ignores_upgrade():
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        """Whether a request starts a WebSocket: a GET request to its path without a body."""
        return (
            super()._should_upgrade()
            and rewrite_path(self._path())[0] in _WEBSOCKET_PATHS
            and self.parser.get_method() == b"GET"
            # HTTP/1.0 has no upgrade (RFC 9110, 7.8): a proxy would never get a response.
            and self.parser.get_http_version() == "1.1"
            and not any(name in _BODY_HEADERS for name, _ in self.headers)
        )

    def _path(self) -> str:
        return self.url.partition(b"?")[0].rstrip(b"/").decode("latin-1")

    def _ignores_upgrade(self) -> bool:
        return self.parser.should_upgrade() and self._get_upgrade() != _WEBSOCKET

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Parse the request again without the headers that offer another protocol."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [
            b"%b: %b" % (name, value)
            for name, value in self.headers
            if name not in _UPGRADE_HEADERS
        ]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)


def _disable_chunked_encoding(cycle: RequestResponseCycle) -> None:
    """End a response without a length by closing the connection, instead of sending chunks.

    HTTP/1.0 has no chunks (RFC 9112, 6.1), but uvicorn would send them. Older versions of nginx use
    HTTP/1.0 by default.
    """
    send = cycle.send
    has_length = True

    async def send_unchunked(message: ASGISendEvent) -> None:
        nonlocal has_length
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            has_length = b"content-length" in names
            if not has_length:
                cycle.chunked_encoding = False
        elif message["type"] == "http.response.body" and not has_length:
            # uvicorn compares the length of a body without chunks with this number.
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    cycle.send = send_unchunked  # type: ignore[method-assign] # uvicorn has no other hook


class GatewayWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol, except that running replies are completed on shutdown."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = self.conn.logger = _WEBSOCKET_LOG
        self._shutdown_event = asyncio.Event()

    def handle_connect(self, event: Request) -> None:
        """Start the application with the shutdown event in its scope."""
        super().handle_connect(event)
        if not self.close_sent:
            extensions = cast("dict[str, object]", self.scope.get("extensions"))
            extensions[SHUTDOWN_EXTENSION] = self._shutdown_event

    def shutdown(self) -> None:
        """Set the event; the application closes the connection after the running replies."""
        if self.handshake_complete and not self.close_sent:
            self._shutdown_event.set()
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parse data of the client; reject a handshake that is invalid or too large."""
        super().data_received(data)
        error = self.conn.handshake_exc
        if error is not None and not self.handshake_initiated and not self.close_sent:
            self.close_sent = True
            message = f"the WebSocket handshake is invalid: {error}"
            self.transport.write(_rejection(HTTPStatus.BAD_REQUEST, message))
            self.transport.close()
