"""Says on a socket what would have been answered over HTTP.

An answer that streams becomes one message for each of its events. One that is an error becomes the
one event that tells errors of this protocol, which has the status in it.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from adapters import DragomanError
from adapters.ir.types import Error
from adapters.sse import Decoder
from adapters.wire.error_body import error_body, read_error, to_error
from gateway import statuses
from gateway.http.sinks import Sink

Tell = Callable[[bytes], Awaitable[None]]

# What belongs to an answer over HTTP and to nothing else.
_LEFT_OUT: Final = frozenset((b"content-type", b"content-length", b"dragoman-loss"))
_ENCODER: Final = msgspec.json.Encoder()


class WebSocketSink(Sink):
    """Takes one answer, and waits while the client is slow to hear what it says."""

    def __init__(self, tell: Tell, lane: str | None) -> None:
        super().__init__()
        self._tell = tell
        self._lane = lane
        self._decoder = Decoder()
        # Of an error, until it is whole.
        self._body: list[bytes] = []

    async def take(self, piece: bytes, *, more: bool) -> None:
        """Say a piece of the answer, or gather the error that it is."""
        if self.status < statuses.ERROR:
            await self._pass(piece)
        else:
            await self._gather(piece, more=more)

    async def _pass(self, piece: bytes) -> None:
        # Comments and the word that ends a stream are for those who read lines.
        for frame in self._decoder.feed(piece):
            if frame.data.startswith(b"{"):
                await self._tell(in_lane(frame.data, self._lane))

    async def _gather(self, piece: bytes, *, more: bool) -> None:
        self._body.append(piece)
        if not more:
            error = read_error(self.status, b"".join(self._body))
            headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in self.headers
                if name not in _LEFT_OUT
            }
            await self._tell(write_error(self.status, error, self._lane, headers))


def write_problem(problem: DragomanError, lane: str | None) -> bytes:
    """Write the event that tells one of our own errors."""
    return write_error(problem.status, to_error(problem), lane)


def write_error(
    status: int, error: Error, lane: str | None, headers: dict[str, str] | None = None
) -> bytes:
    """Write the event that tells an error; Open Responses wants every one to have a code."""
    inside = error_body(error) | {"code": error.code or error.type}
    if headers:
        inside["headers"] = headers
    event: dict[str, object] = {"type": "error", "status": status, "error": inside}
    return in_lane(_ENCODER.encode(event), lane)


def in_lane(event: bytes, lane: str | None) -> bytes:
    """Say in an event to which lane it belongs; the rest of it stays as it was spelled."""
    if lane is None:
        return event
    # The names of lanes need no escaping: they are letters, digits, `_`, `.` and `-`.
    return b'%b,"stream_id":"%b"}' % (event.rstrip()[:-1], lane.encode())
