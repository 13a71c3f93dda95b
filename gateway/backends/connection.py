"""One HTTP/1.1 connection to a backend: it writes a request and reads the response.

The parser calls `on_header`, `on_body` and so on while it is fed. The task that waits for the
response is woken once per read from the socket, however many chunks of a body the read brought.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import cast

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

Headers = list[tuple[bytes, bytes]]

# Reading from the socket stops while more of a body than this is unread.
MAX_UNREAD_BYTES = 256 * 1024
# The limit for consecutive bytes without a body: headers, interim responses, trailers. Backends
# send far less; the limit protects the memory from a malicious backend.
MAX_HEAD_BYTES = 64 * 1024
# A close that arrives this soon after a request was probably sent before the request arrived.
STALE_DETECTION_SECONDS = 0.5

_FIRST_FINAL_STATUS = 200
_WRITE_ERRORS = frozenset({errno.EPIPE, errno.ESHUTDOWN})


class ExtraDataError(Exception):
    """Stops the parser at data that is not part of the response."""


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time.

    A body is read in a loop: call `read_available`, check `complete` and `failure`, and await
    `wait_readable`. Cancelling the wait loses no data.
    """

    def __init__(self, on_close: Callable[["Connection"], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        # Done when the socket is closed.
        self.lost: asyncio.Future[None] = self._loop.create_future()
        # Whether the connection can carry no further request.
        self._closed = False
        # Whether a request was completed: from then on the backend may close it at any time.
        self.used = False
        self.idle_since = 0.0

        self._awaiting_response = False
        self._readable: asyncio.Future[None] | None = None
        self._chunks: list[bytes] = []
        # The parser appends chunks of a body directly, without a call into Python.
        self.on_body = self._chunks.append
        self._parser = HttpResponseParser(self)
        self._paused = False
        self._reset(expects_body=True)

    def _reset(self, *, expects_body: bool) -> None:
        self.status = 0
        self.headers: Headers = []
        self.complete = False
        self.failure: httpx.TransportError | None = None
        self._expects_body = expects_body
        self._keep_alive = False
        self._nothing_received = True
        self._sent_at = self._loop.time()
        self._head_bytes = 0
        self._unread_bytes = 0
        self._chunks.clear()

    # Called by the transport and the pool

    async def send_request(self, head: bytes, body: bytes, *, expects_body: bool = True) -> None:
        """Write a request and wait for the head of its response: `status` and `headers`.

        `expects_body` is False for HEAD, whose response has no body in spite of its headers.
        """
        self._reset(expects_body=expects_body)
        self._awaiting_response = True
        if self._open_transport is None:
            self._end_response(None)
        else:
            self._open_transport.writelines((head, body))
        while self.status < _FIRST_FINAL_STATUS:
            if self.failure is not None:
                raise self.failure
            await self.wait_readable()

    def read_available(self) -> bytes:
        """Return the part of the body that has arrived and was not read yet."""
        match self._chunks:
            case []:
                return b""
            case [chunk]:
                pass
            case chunks:
                chunk = b"".join(chunks)
        self._chunks.clear()
        self._unread_bytes = 0
        if self._paused:
            self._resume_reading()
        return chunk

    def wait_readable(self) -> asyncio.Future[None]:
        """Return a future that is done when data has arrived or the response has ended."""
        self._readable = self._loop.create_future()
        return self._readable

    @property
    def stale(self) -> bool:
        """Whether the backend probably closed the connection before it received the request.

        Then the request can be sent again. After a later close it must not be, because the backend
        may have processed it.
        """
        elapsed = self._loop.time() - self._sent_at
        return self.used and self._nothing_received and elapsed < STALE_DETECTION_SECONDS

    @property
    def reusable(self) -> bool:
        """Whether the response is complete and both sides are ready for the next request."""
        return (
            self.complete
            and self._keep_alive
            and not self._paused
            and self._open_transport is not None
            # A backend may respond before the whole request is sent.
            and self._open_transport.get_write_buffer_size() == 0
        )

    @property
    def _open_transport(self) -> asyncio.Transport | None:
        """Return the transport, or None if it is closed, which uvloop reports late."""
        if self._closed or self._transport is None or self._transport.is_closing():
            return None
        return self._transport

    def mark_idle(self, now: float) -> None:
        """Note that the connection has been idle since `now`."""
        self._awaiting_response = False
        self.used = True
        self.idle_since = now

    def close(self) -> None:
        """Close gracefully; with TLS the backend is notified."""
        self._mark_closed()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, even in the middle of a response."""
        self._mark_closed()
        if self._awaiting_response:
            self._fail(httpx.ReadError("The connection was closed locally."))
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse data and wake the task that waits for it."""
        if not self._awaiting_response or self.complete:
            # Data without a request belongs to no response.
            self.abort()
            return
        self._nothing_received = False
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail_parsing(error)
            return
        if self._chunks:
            self._head_bytes = 0
            self._unread_bytes += len(data)
            if self._unread_bytes > MAX_UNREAD_BYTES:
                self._pause_reading()
        elif not self.complete:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail_parsing(HttpParserError(f"more than {MAX_HEAD_BYTES} bytes of headers"))
        self._wake()

    def eof_received(self) -> None:
        """End the response; asyncio closes the connection afterwards."""
        self._mark_closed()
        self._end_response(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response, because the socket is closed."""
        self._mark_closed()
        self._end_response(exc)
        if not self.lost.done():
            self.lost.set_result(None)

    # Called by the parser

    def on_message_begin(self) -> None:
        """Stop the parser at a second response."""
        if self.complete:
            raise ExtraDataError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header, but not a trailer."""
        if self.status < _FIRST_FINAL_STATUS:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Store the status."""
        self.status = self._parser.get_status_code()
        if not self._expects_body and self.status >= _FIRST_FINAL_STATUS:
            self.complete = True
            raise ExtraDataError

    def on_message_complete(self) -> None:
        """Note the end of the response; after an interim response, expect another."""
        if self.status < _FIRST_FINAL_STATUS:
            self.headers = []
            return
        self.complete = True
        self._keep_alive = self._parser.should_keep_alive()

    # Ends and failures

    def _fail_parsing(self, error: Exception) -> None:
        """Close after data that is not HTTP; fail the response unless it was complete before."""
        self._mark_closed()
        if not self.complete:
            self._fail(httpx.RemoteProtocolError(f"The server sent invalid HTTP/1.1: {error}."))
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    def _end_response(self, error: Exception | None) -> None:
        """Complete or fail an open response, because the backend closed the connection."""
        if not self._awaiting_response or self.complete or self.failure is not None:
            return
        begun = self.status >= _FIRST_FINAL_STATUS
        if error is None and begun and _ends_with_connection(self.headers):
            self.complete = True
        else:
            self._fail(_connection_error(error, nothing_received=self._nothing_received))
        self._wake()

    def _fail(self, failure: httpx.TransportError) -> None:
        if self.failure is None and not self.complete:
            self.failure = failure
        self._wake()

    def _mark_closed(self) -> None:
        if not self._closed:
            self._closed = True
            self._on_close(self)

    def _wake(self) -> None:
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)

    # Flow control

    def _pause_reading(self) -> None:
        if not self._paused and self._open_transport is not None:
            self._paused = True
            self._open_transport.pause_reading()

    def _resume_reading(self) -> None:
        self._paused = False
        if self._open_transport is not None:
            self._open_transport.resume_reading()


def _ends_with_connection(headers: Headers) -> bool:
    """Whether a body extends to the end of the connection (RFC 9112, section 6.3)."""
    for name, value in headers:
        match name.lower():
            case b"content-length":
                return False
            case b"transfer-encoding" if value.lower().endswith(b"chunked"):
                return False
            case _:
                pass
    return True


def _connection_error(error: Exception | None, *, nothing_received: bool) -> httpx.TransportError:
    """Return the error for a response that did not end properly."""
    match error:
        case None if nothing_received:
            return httpx.RemoteProtocolError("The server closed the connection without a response.")
        case None:
            return httpx.RemoteProtocolError(
                "The server closed the connection during its response."
            )
        case OSError(errno=code) if code in _WRITE_ERRORS:
            return httpx.WriteError(f"The request could not be sent: {error}.")
        case _:
            return httpx.ReadError(f"The connection failed: {error}.")
