"""The clients of the benchmark: plain connections that send fixed bytes and detect the end."""

import asyncio
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TypeVar, cast

import httptools

from tests.benchmarks.traffic import MARK, STAMP_DIGITS

HOST = "127.0.0.1"
# Seconds for one load.
LIMIT = 300
# Seconds between the beginnings of streams, so that their events come at different times.
STAGGER = 0.011


class BrokenReplyError(Exception):
    """A reply was not as expected."""


class Caller(asyncio.Protocol):
    """A keep-alive connection that repeats its request as long as calls are left."""

    def __init__(self, request: bytes, calls: Iterator[int]) -> None:
        self._request = request
        # Shared by all the connections of a load.
        self._calls = calls
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting = False
        self.sent_at = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._waiting = False
        status = self._parser.get_status_code()
        if status == HTTPStatus.OK:
            self.send()
        else:
            self._fail(f"an answer came with status {status}")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting:
            self._fail(f"the connection was closed in an answer: {exc}")
        elif not self.done.done():
            self.done.set_result(None)

    def leave(self) -> None:
        """Close the connection, whatever is still to come."""
        self._waiting = False
        if self._transport is not None:
            self._transport.close()

    def send(self) -> None:
        """Send the request, if one is left; else leave."""
        if self._transport is None or next(self._calls, None) is None:
            self.leave()
            return
        self._waiting = True
        self.sent_at = time.monotonic_ns()
        self._transport.write(self._request)

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(BrokenReplyError(why))
        self.leave()


class Listener(Caller):
    """A connection for one request, with the received data and their times."""

    def __init__(self, request: bytes) -> None:
        super().__init__(request, iter((0,)))
        self.heard: list[tuple[int, bytes]] = []
        self.begun = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def on_body(self, body: bytes) -> None:
        self.heard.append((time.monotonic_ns(), body))
        self.begun.set()

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.heard)

    def first_event(self) -> int:
        """Return the nanoseconds from the request to the first event."""
        return self.heard[0][0] - self.sent_at

    def delays(self) -> Iterator[int]:
        """Yield the latency of each event in nanoseconds.

        Events that repeat earlier ones, as at the end of a stream, are not counted.
        """
        latest = 0
        for at, piece in self.heard:
            start = piece.rfind(MARK) + 1
            digits = piece[start : start + STAMP_DIGITS] if start else b""
            if digits.isdigit() and int(digits) > latest:
                latest = int(digits)
                yield at - latest


_C = TypeVar("_C", bound=Caller)


async def _connect(port: int, make: Callable[[], _C]) -> _C:
    _, caller = await asyncio.get_running_loop().create_connection(make, HOST, port)
    return caller


async def call(port: int, request: bytes, calls: int, connections: int) -> None:
    """Send so many requests, as fast as they are served."""
    left = iter(range(calls))
    async with asyncio.timeout(LIMIT):
        callers = [await _connect(port, lambda: Caller(request, left)) for _ in range(connections)]
        await asyncio.gather(*(caller.done for caller in callers))


async def listen(port: int, request: bytes, count: int) -> list[Listener]:
    """Receive so many streams at once, which begin one after the other.

    All connect before the first begins, so that connecting is not measured.
    """
    async with asyncio.timeout(LIMIT):
        listeners = [await _connect(port, lambda: Listener(request)) for _ in range(count)]
        for listener in listeners:
            await asyncio.sleep(STAGGER)
            listener.send()
        await asyncio.gather(*(listener.done for listener in listeners))
    return listeners


async def hold(port: int, request: bytes, count: int) -> list[Listener]:
    """Open so many streams, all of which have begun and none has ended."""
    async with asyncio.timeout(LIMIT):
        listeners = [await _connect(port, lambda: Listener(request)) for _ in range(count)]
        for listener in listeners:
            listener.send()
            await listener.begun.wait()
    return listeners
