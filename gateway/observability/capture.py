"""The bodies and headers of an exchange, kept in memory for the log or for a recording."""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from adapters.json_text import DECODE_ERRORS

RawHeaders = list[tuple[bytes, bytes]]
# Where a request came from: "background" from a job, "summary" from the gateway itself, in order to
# summarize a conversation.
Transport = Literal["http", "websocket", "background", "summary"]

# The limit protects the memory from a body that arrives in single bytes.
_MAX_READS: Final = 100_000


class CapturedBody(Struct):
    """A body that arrives in parts; one that exceeds the limit is left out as a whole.

    A part of it could end within a secret, which would then not be recognized.
    """

    limit: int
    size: int = 0
    chunks: list[bytes] = []
    # The time of each part, in seconds, and its size; empty for bodies that the gateway sends.
    reads: list[tuple[float, int]] = []

    def add(self, data: bytes, seconds: float | None = None) -> None:
        """Add a part, with the time at which it was read."""
        self.size += len(data)
        if self.size > self.limit:
            self.chunks.clear()
            self.reads.clear()
            return
        self.chunks.append(data)
        if seconds is None:
            return
        if len(self.reads) < _MAX_READS:
            self.reads.append((seconds, len(data)))
        else:
            last_seconds, last_size = self.reads[-1]
            self.reads[-1] = (last_seconds, last_size + len(data))

    def join(self) -> bytes:
        """Return the whole body; empty if it exceeds the limit."""
        return b"".join(self.chunks)


class CapturedCall(Struct):
    """A request to a backend and its response."""

    backend: str
    method: str
    path: str
    headers: RawHeaders
    request: CapturedBody
    reply: CapturedBody
    # Seconds from the request of the client.
    sent: float = 0
    status: int | None = None
    reply_headers: RawHeaders = []
    error: str | None = None
    # Whether the body was read to its end.
    complete: bool = True


class Capture(Struct):
    """What is kept of one exchange."""

    # The limit for each body.
    limit: int
    reply: CapturedBody
    transport: Transport = "http"
    # The dialect of the endpoint, for requests that cannot be read.
    dialect: str = ""
    headers: dict[str, str] = {}
    # None if no request was read.
    request: CapturedBody | None = None
    reply_headers: RawHeaders = []
    calls: list[CapturedCall] = []
    # Whether the exchange that this one is part of has `store: false`.
    within_unstored: bool = False
    # The wall clock time of the request, in seconds, and that of the clock for durations.
    arrived: float = field(default_factory=time.time)
    started: float = field(default_factory=time.perf_counter)

    def note_request(self, body: bytes) -> None:
        """Keep the client's request."""
        self.request = CapturedBody(self.limit)
        self.request.add(body)

    def begin_reply(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep the headers of the reply; an earlier reply was not sent to the client."""
        self.reply_headers = [*headers]
        self.reply = CapturedBody(self.limit)

    def elapsed(self) -> float:
        """Return the seconds since the request."""
        return time.perf_counter() - self.started


class _Store(Struct):
    store: bool | None = None


_STORE: Final = msgspec.json.Decoder(_Store)


def is_unstored(capture: Capture | None) -> bool:
    """Whether the client asked for a reply that is not stored, also if that cannot be known."""
    if capture is None or capture.within_unstored or capture.request is None:
        return capture is not None and capture.within_unstored
    try:
        return _STORE.decode(capture.request.join()).store is False
    except DECODE_ERRORS:
        return True


class _Attribution:
    """The exchange that a task works for, until the exchange ends.

    Connections and timers keep the context in which they were created, and must not keep the bodies
    of an exchange that has ended.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture: Capture | None = capture


_CURRENT: ContextVar[_Attribution | None] = ContextVar("capture", default=None)


def current_capture() -> Capture | None:
    """Return the capture of the exchange that the current task works for."""
    attribution = _CURRENT.get()
    return None if attribution is None else attribution.capture


@contextmanager
def attributing(capture: Capture) -> Generator[None]:
    """Attribute the requests to backends to an exchange."""
    attribution = _Attribution(capture)
    token = _CURRENT.set(attribution)
    try:
        yield
    finally:
        attribution.capture = None
        _CURRENT.reset(token)
