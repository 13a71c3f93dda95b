"""A fake backend with little cost: it reads which reply is wanted, and sends it.

python -m tests.benchmarks.backend DIALECT KIND
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import cast

import httptools
import uvloop

from tests.benchmarks import traffic
from tests.benchmarks.core import Kind
from tests.benchmarks.processes import serve

_MODEL = b'"model":"'


class Player(asyncio.Protocol):
    def __init__(self, dialect: str, kind: Kind) -> None:
        self._dialect = dialect
        self._kind: Kind = kind
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._body = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a client that leaves is nothing special here
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        start = self._body.index(_MODEL) + len(_MODEL)
        model = self._body[start : self._body.index(b'"', start)].decode()
        self._body.clear()
        self._play(traffic.answer(self._dialect, self._kind, model))

    def _play(self, played: traffic.Answer) -> None:
        if self._transport is not None:
            self._transport.write(played.first)
        if played.then:
            self._wait(iter(played.then), asyncio.get_running_loop().time() + traffic.PAUSE)

    def _wait(self, rest: Iterator[bytes], due: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(due, self._tick, rest, due)

    def _tick(self, rest: Iterator[bytes], due: float) -> None:
        """Send the next piece; the one after it is due when it is, however late this one was."""
        piece = next(rest, None)
        if piece is None or self._transport is None:
            return
        stamp = traffic.MARK + b"%0*d" % (traffic.STAMP_DIGITS, time.monotonic_ns())
        self._transport.write(piece.replace(traffic.UNSTAMPED, stamp))
        self._wait(rest, due + traffic.PAUSE)


if __name__ == "__main__":
    DIALECT, KIND = sys.argv[1:]
    uvloop.run(serve(lambda: Player(DIALECT, cast("Kind", KIND))))
