"""The server's side of WebSockets, mended where the service stops and where handshakes fail."""

import asyncio
import logging
from typing import Final, cast

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request

from gateway import statuses
from gateway.errors import write_message

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
