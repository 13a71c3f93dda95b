"""Where a reply goes: an HTTP client, or a buffer for requests that the gateway makes itself."""

from abc import ABC, abstractmethod
from typing import ClassVar, Final

from litestar.types import Receive, Send

from adapters import Dialect, DragomanError
from adapters.responses import RESPONSES
from adapters.wire.error_body import to_error
from gateway.http.headers import (
    JSON,
    Headers,
    new_request_id,
    request_id_header,
    retry_after_header,
)
from gateway.observability.capture import (
    Capture,
    CapturedBody,
    Transport,
    current_capture,
    is_unstored,
)
from gateway.observability.record import ExchangeRecord

# A limit for logged user agents, which clients choose freely.
_MAX_USER_AGENT: Final = 200


class ReplySink(ABC):
    """Where one reply is sent.

    A reply is sent whole by `send_response`, or as `start`, any number of `write`s and `end`. Each
    chunk of a stream consists of whole events.
    """

    # Where the request came from, as recordings name it.
    transport: ClassVar[Transport] = "http"

    def __init__(
        self,
        headers: dict[str, str],
        receive: Receive,
        record: ExchangeRecord,
        dialect: Dialect = RESPONSES,
        path_model: str = "",
    ) -> None:
        # The model that is named in the path of the request.
        self.path_model = path_model
        # The headers of the request.
        self.headers = headers
        # Returns a disconnect message when the client has disconnected.
        self.receive = receive
        self.record = record
        # The dialect of the gateway's own errors.
        self.dialect = dialect
        # Whether the status was sent, so that it can no longer change.
        self.started = False
        # Headers of the reply, whether it succeeds or fails.
        self.reply_headers: Headers = []
        record.user_agent = headers.get("user-agent", "")[:_MAX_USER_AGENT]

    def capture(self, limit: int) -> Capture:
        """Keep the bodies of the exchange, each up to a limit; return the capture of the record."""
        record = self.record
        if record.capture is None:
            record.capture = Capture(
                limit,
                CapturedBody(limit),
                self.transport,
                self.dialect.name,
                self.headers,
                within_unstored=is_unstored(current_capture()),
            )
        return record.capture

    async def send_response(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole reply."""
        length = (b"content-length", b"%d" % len(body))
        await self.start(status, [*headers, length])
        await self.end(body)

    async def send_error(self, error: DragomanError) -> None:
        """Send an error of the gateway."""
        body = self.dialect.write_error(to_error(error))
        await self.send_response(error.status, [*JSON, *retry_after_header(error)], body)

    async def start(self, status: int, headers: Headers) -> None:
        """Send the status and the headers."""
        record = self.record
        self.started = True
        if self.reply_headers:
            headers = [*headers, *self.reply_headers]
        record.status = status
        if record.time_to_first_byte is None:
            record.time_to_first_byte = record.elapsed()
        if record.request_id is None:
            # No backend has sent a request id, which would be among the headers already.
            record.request_id = new_request_id()
            headers = [*headers, request_id_header(record.request_id)]
        if record.capture is not None:
            record.capture.begin_reply(headers)
        await self._send_head(status, headers)

    async def write(self, data: bytes) -> None:
        """Send a chunk; wait while the client is slow to read."""
        if self.record.capture is not None:
            self.record.capture.reply.add(data)
        await self._send_body(data, more=True)

    async def end(self, data: bytes = b"") -> None:
        """Send the last chunk."""
        if self.record.capture is not None:
            self.record.capture.reply.add(data)
        await self._send_body(data, more=False)

    @abstractmethod
    async def _send_head(self, status: int, headers: Headers) -> None:
        """Send the status and the headers."""

    @abstractmethod
    async def _send_body(self, data: bytes, *, more: bool) -> None:
        """Send a chunk of the body."""


class AsgiSink(ReplySink):
    """An HTTP client behind an ASGI server."""

    def __init__(
        self,
        headers: dict[str, str],
        receive: Receive,
        send: Send,
        record: ExchangeRecord,
        dialect: Dialect = RESPONSES,
        path_model: str = "",
    ) -> None:
        super().__init__(headers, receive, record, dialect, path_model)
        self._send = send

    async def _send_head(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


class BufferSink(ReplySink):
    """A buffer that holds a whole reply."""

    transport = "summary"

    def __init__(self, headers: dict[str, str], receive: Receive, record: ExchangeRecord) -> None:
        super().__init__(headers, receive, record)
        self.status = 0
        self.response_headers: Headers = []
        self._chunks: list[bytes] = []

    async def _send_head(self, status: int, headers: Headers) -> None:
        self.status, self.response_headers = status, headers

    async def _send_body(self, data: bytes, *, more: bool) -> None:
        del more
        self._chunks.append(data)

    @property
    def body(self) -> bytes:
        """Return all chunks that were sent so far."""
        return b"".join(self._chunks)
