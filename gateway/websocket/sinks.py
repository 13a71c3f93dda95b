"""Send replies over a WebSocket, or in place of one."""

from contextlib import suppress
from http import HTTPStatus
from typing import Final

from litestar.exceptions import WebSocketDisconnect
from litestar.types import Receive, Send
from litestar.types.asgi_types import (
    WebSocketResponseBodyEvent,
    WebSocketResponseStartEvent,
    WebSocketSendEvent,
)

from adapters.sse import Decoder
from adapters.wire.error_body import read_error
from gateway.http.headers import Headers
from gateway.http.sinks import ReplySink
from gateway.observability.record import ExchangeRecord
from gateway.websocket.messages import with_stream_id, write_error_event

# Headers that describe an HTTP response and are not repeated in an error event.
_HTTP_HEADERS: Final = frozenset((b"content-type", b"content-length", b"dragoman-loss"))


async def send_event(send: Send, event: bytes) -> None:
    """Send an event; wait while the client is slow to read.

    A client that has left is noticed by the task that reads from it.
    """
    message: WebSocketSendEvent = {
        "type": "websocket.send",
        "bytes": None,
        "text": event.decode("utf-8", "replace"),
    }
    with suppress(OSError, WebSocketDisconnect):
        await send(message)


class WebSocketSink(ReplySink):
    """Sends a stream as one message for each event, and an error as one event with its status."""

    def __init__(
        self,
        headers: dict[str, str],
        receive: Receive,
        send: Send,
        record: ExchangeRecord,
        stream_id: str | None,
    ) -> None:
        super().__init__(headers, receive, record)
        self._send = send
        self._stream_id = stream_id
        self._status = 0
        self._response_headers: Headers = []
        self._decoder = Decoder()
        self._error_body: list[bytes] = []

    async def _send_head(self, status: int, headers: Headers) -> None:
        self._status, self._response_headers = status, headers

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        if self._status < HTTPStatus.BAD_REQUEST:
            # Comments and `[DONE]` exist only in SSE.
            for frame in self._decoder.feed(data):
                if frame.data.startswith(b"{"):
                    await send_event(self._send, with_stream_id(frame.data, self._stream_id))
            return
        self._error_body.append(data)
        if not more:
            error = read_error(self._status, b"".join(self._error_body))
            headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in self._response_headers
                if name not in _HTTP_HEADERS
            }
            event = write_error_event(self._status, error, self._stream_id, headers)
            await send_event(self._send, event)


class RejectionSink(ReplySink):
    """Sends an HTTP response in place of a WebSocket (ASGI's "WebSocket Denial Response")."""

    def __init__(
        self, headers: dict[str, str], receive: Receive, send: Send, record: ExchangeRecord
    ) -> None:
        super().__init__(headers, receive, record)
        self._send = send

    async def _send_head(self, status: int, headers: Headers) -> None:
        start: WebSocketResponseStartEvent = {
            "type": "websocket.http.response.start",
            "status": status,
            "headers": headers,
        }
        await self._send(start)

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        body: WebSocketResponseBodyEvent = {
            "type": "websocket.http.response.body",
            "body": data,
            "more_body": more,
        }
        await self._send(body)
