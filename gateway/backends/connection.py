"""One connection to a backend: a request is written, and its answer is read.

The parser calls `on_header`, `on_body` and so on while it is fed. Whoever waits for the answer is
woken once for each read from the socket, however many pieces of a body came in it.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import cast

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

# What the end of a connection means for an answer that was under way.


Headers = list[tuple[bytes, bytes]]

# What the system says when the other side no longer takes what we write.
_NOT_WRITABLE = frozenset({errno.EPIPE, errno.ESHUTDOWN})


def ends_with_connection(headers: Headers) -> bool:
    """Whether nothing but the end of the connection ends this body (RFC 9112, 6.3)."""
    for name, value in headers:
        match name.lower():
            case b"content-length":
                return False
            case b"transfer-encoding" if value.lower().endswith(b"chunked"):
                return False
            case _:
                pass
    return True


def connection_error(error: Exception | None, *, untouched: bool) -> httpx.TransportError:
    """Say what happened to an answer that has no end; `untouched`: it had not begun."""
    match error:
        case None if untouched:
            return httpx.RemoteProtocolError("The server closed without an answer.")
        case None:
            return httpx.RemoteProtocolError("The server closed in the middle of its answer.")
        case OSError(errno=code) if code in _NOT_WRITABLE:
            return httpx.WriteError(f"The request could not be sent: {error}.")
        case _:
            return httpx.ReadError(f"The connection broke: {error}.")


# No more is read from the socket while so much of an answer waits to be taken.
MAX_UNREAD_BYTES = 256 * 1024
# So much may come in a row without one byte of a body: headers, interim answers, trailers. Well
# above what servers send, and a hostile one cannot fill the memory with more.
MAX_HEAD_BYTES = 64 * 1024

FIRST_FINAL_STATUS = 200
# So long may it take to learn that a connection was closed before it was used.
STALE_DETECTION_SECONDS = 0.5


class ExtraDataError(Exception):
    """Stops the parser: what follows is not a part of the answer."""


class Connection(asyncio.Protocol):
    """One connection: one request at a time, and the answer to it.

    An answer is read by turns: `take` what is there, look at `complete` and `failure`, and await
    `change`. To stop waiting does no harm: nothing that came is lost.
    """

    __slots__ = (
        "_answering",
        "_asked_at",
        "_change",
        "_fruitless",
        "_gone",
        "_keep_alive",
        "_loop",
        "_on_gone",
        "_parser",
        "_paused",
        "_pieces",
        "_transport",
        "_untouched",
        "_waiting_bytes",
        "_without_body",
        "complete",
        "failure",
        "headers",
        "idle_since",
        "lost",
        "on_body",
        "status",
        "used",
    )

    def __init__(self, on_gone: Callable[["Connection"], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_gone = on_gone
        self._transport: asyncio.Transport | None = None
        # Done when the socket is closed.
        self.lost: asyncio.Future[None] = self._loop.create_future()
        # It can carry no further request.
        self._gone = False
        # It has served one, so the server may close it at any time.
        self.used = False
        self.idle_since = 0.0

        self._answering = False
        self._change: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        # The parser gives each piece of a body straight to the list: no call into Python.
        self.on_body = self._pieces.append
        self._parser = HttpResponseParser(self)
        self._paused = False
        self._reset(without_body=False)

    def _reset(self, *, without_body: bool) -> None:
        self.status = 0
        self.headers: Headers = []
        self.complete = False
        self.failure: httpx.TransportError | None = None
        self._without_body = without_body
        self._keep_alive = False
        self._untouched = True
        self._asked_at = self._loop.time()
        self._fruitless = 0
        self._waiting_bytes = 0
        self._pieces.clear()

    # For who asks

    async def send_request(self, head: bytes, body: bytes, *, without_body: bool) -> None:
        """Write a request, and wait for the head of its answer: `status` and `headers`.

        An answer to HEAD is without a body, whatever its headers say.
        """
        self._reset(without_body=without_body)
        self._answering = True
        if self._usable is None:
            self._end(None)
        else:
            self._usable.writelines((head, body))
        while self.status < FIRST_FINAL_STATUS:
            if self.failure is not None:
                raise self.failure
            await self.wait_readable()

    def read_available(self) -> bytes:
        """Give all of the body that came and was not taken yet."""
        match self._pieces:
            case []:
                return b""
            case [piece]:
                pass
            case pieces:
                piece = b"".join(pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        if self._paused:
            self._resume()
        return piece

    def wait_readable(self) -> asyncio.Future[None]:
        """Give a future that is done when there is something new to take, or the end."""
        self._change = self._loop.create_future()
        return self._change

    @property
    def stale(self) -> bool:
        """Whether it was closed between two requests, as far as one can know.

        The server had closed it when we wrote, and its word for that was still under way. Where it
        takes longer, the server may have begun to work, and what was sent is not sent again.
        """
        return (
            self.used
            and self._untouched
            and self._loop.time() - self._asked_at < STALE_DETECTION_SECONDS
        )

    @property
    def reusable(self) -> bool:
        """Whether the answer is whole and both sides are ready for the next."""
        return (
            self.complete
            and self._keep_alive
            and not self._paused
            and self._usable is not None
            # An answer that came before the request was sent: the rest of it would follow.
            and self._usable.get_write_buffer_size() == 0
        )

    @property
    def _usable(self) -> asyncio.Transport | None:
        """Give the transport if it can still be used: uvloop closes first and tells later."""
        if self._gone or self._transport is None or self._transport.is_closing():
            return None
        return self._transport

    def mark_idle(self, now: float) -> None:
        """Take note that no answer is expected now."""
        self._answering = False
        self.used = True
        self.idle_since = now

    def close(self) -> None:
        """Close politely: with TLS the server is told."""
        self._leave()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._leave()
        if self._answering:
            self._fail(httpx.ReadError("The connection was closed on this side."))
        if self._transport is not None:
            self._transport.abort()

    # From the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and wake who waits for it."""
        if not self._answering or self.complete:
            # Nobody asked for this, so nobody knows what it answers.
            self.abort()
            return
        self._untouched = False
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._spoiled(error)
            return
        if self._pieces:
            self._fruitless = 0
            self._waiting_bytes += len(data)
            if self._waiting_bytes > MAX_UNREAD_BYTES:
                self._pause()
        elif not self.complete:
            self._fruitless += len(data)
            if self._fruitless > MAX_HEAD_BYTES:
                self._spoiled(HttpParserError(f"more than {MAX_HEAD_BYTES} bytes of headers"))
        self._wake()

    def eof_received(self) -> None:
        """End the answer with the server's last byte; asyncio then closes."""
        self._leave()
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer with the connection."""
        self._leave()
        self._end(exc)
        if not self.lost.done():
            self.lost.set_result(None)

    # From the parser

    def on_message_begin(self) -> None:
        """See to it that an answer is followed by nothing."""
        if self.complete:
            raise ExtraDataError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer is not kept."""
        if self.status < FIRST_FINAL_STATUS:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take note of the status; the head is whole."""
        self.status = self._parser.get_status_code()
        if self._without_body and self.status >= FIRST_FINAL_STATUS:
            self.complete = True
            raise ExtraDataError

    def on_message_complete(self) -> None:
        """Take note of the end, unless it is that of an interim answer."""
        if self.status < FIRST_FINAL_STATUS:
            self.headers = []
            return
        self.complete = True
        self._keep_alive = self._parser.should_keep_alive()

    # How it ends

    def _spoiled(self, error: Exception) -> None:
        """End a connection whose bytes mean nothing; an answer that was whole by then stays so."""
        self._leave()
        if not self.complete:
            self._fail(httpx.RemoteProtocolError(f"The server did not speak HTTP/1.1: {error}."))
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    def _end(self, error: Exception | None) -> None:
        """Judge what the end of the connection means for the answer."""
        if not self._answering or self.complete or self.failure is not None:
            return
        begun = self.status >= FIRST_FINAL_STATUS
        if error is None and begun and ends_with_connection(self.headers):
            self.complete = True
        else:
            self._fail(connection_error(error, untouched=self._untouched))
        self._wake()

    def _fail(self, failure: httpx.TransportError) -> None:
        if self.failure is None and not self.complete:
            self.failure = failure
        self._wake()

    def _leave(self) -> None:
        if not self._gone:
            self._gone = True
            self._on_gone(self)

    def _wake(self) -> None:
        change = self._change
        if change is not None and not change.done():
            change.set_result(None)

    # Flow control

    def _pause(self) -> None:
        if not self._paused and self._usable is not None:
            self._paused = True
            self._usable.pause_reading()

    def _resume(self) -> None:
        self._paused = False
        if self._usable is not None:
            self._usable.resume_reading()
