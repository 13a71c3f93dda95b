"""Answers a handshake as a request is answered (ASGI's "WebSocket Denial Response")."""

from litestar.types import Message, Send
from litestar.types.asgi_types import WebSocketResponseBodyEvent, WebSocketResponseStartEvent


class HandshakeRejection:
    """Gives the messages of an HTTP answer the names that they have before a socket is open."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def send(self, message: Message) -> None:
        """Send one of them."""
        if message["type"] == "http.response.start":
            start: WebSocketResponseStartEvent = {
                "type": "websocket.http.response.start",
                "status": message["status"],
                "headers": message["headers"],
            }
            await self._send(start)
        elif message["type"] == "http.response.body":
            body: WebSocketResponseBodyEvent = {
                "type": "websocket.http.response.body",
                "body": message["body"],
                "more_body": message["more_body"],
            }
            await self._send(body)
