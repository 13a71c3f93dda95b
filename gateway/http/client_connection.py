"""The client's side of one exchange: what is written to it, and whether anything was."""

from secrets import token_hex

from litestar.types import Receive, Send
from litestar.types.asgi_types import HTTPResponseBodyEvent, HTTPResponseStartEvent

from adapters import DragomanError
from gateway.errors import write_error_body
from gateway.http.headers import JSON, Headers
from gateway.observability.record import ExchangeRecord


class ClientConnection:
    """One client, waiting for one answer.

    The answer goes, as the messages of ASGI, to whatever `send` is; `receive` says when the client
    has left. Of a stream, every piece consists of whole events.
    """

    def __init__(
        self, headers: dict[str, str], receive: Receive, send: Send, record: ExchangeRecord
    ) -> None:
        self.headers = headers
        self.receive = receive
        self._send = send
        self._record = record
        # Whether the head of the answer is sent: then its status can no longer change.
        self.begun = False

    @property
    def path(self) -> str:
        """Give the address that the client has called."""
        return self._record.path

    def nested(self, send: Send, record: ExchangeRecord) -> "ClientConnection":
        """Give somebody who asks in the name of this client, and leaves when it does."""
        return ClientConnection(self.headers, self.receive, send, record)

    async def send_response(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        length = (b"content-length", b"%d" % len(body))
        await self.send_headers(status, [*headers, length])
        await self._write(body, more=False)

    async def send_error(self, problem: DragomanError, headers: Headers | None = None) -> None:
        """Send one of our own errors."""
        await self.send_response(
            problem.status, [*JSON, *(headers or ())], write_error_body(problem)
        )

    async def send_headers(self, status: int, headers: Headers) -> None:
        """Send the head of an answer."""
        record = self._record
        self.begun = True
        record.status = status
        record.note_first_byte()
        if record.request_id is None:
            # The backend's own is among the headers already.
            record.request_id = f"req_{token_hex(16)}"
            headers = [*headers, (b"x-request-id", record.request_id.encode())]
        start: HTTPResponseStartEvent = {
            "type": "http.response.start",
            "status": status,
            "headers": headers,
        }
        await self._send(start)

    async def write(self, data: bytes) -> None:
        """Send a piece of an answer; wait while the client is slow to take it."""
        await self._write(data, more=True)

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece."""
        await self._write(data, more=False)

    async def _write(self, data: bytes, *, more: bool) -> None:
        self._record.note_response_chunk(data)
        piece: HTTPResponseBodyEvent = {
            "type": "http.response.body",
            "body": data,
            "more_body": more,
        }
        await self._send(piece)
