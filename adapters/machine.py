"""What the stream readers of all dialects have in common, and what the writers have."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from adapters.errors import InvalidRequestError
from adapters.ir.events import (
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    undecodable_stream,
)
from adapters.json_text import is_complete_json
from adapters.sse import Frame

# Shows proxies and most clients that the connection lives.
COMMENT = b": keep-alive\n\n"


class BaseStreamReader(ABC):
    """Frames in, events out."""

    @property
    def finished(self) -> bool:
        """Tell whether the answer is whole, and just the word that ends the stream is missing."""
        return False

    def feed(self, frame: Frame) -> list[Event]:
        """Take one frame; tell what cannot be read as a failure."""
        try:
            return self.read(frame)
        except InvalidRequestError as problem:
            # Of a frame that the end of the stream cut, the end tells whether it mattered.
            whole = frame.whole or is_complete_json(frame.data)
            return self.fail(undecodable_stream(str(problem))) if whole else []

    @abstractmethod
    def read(self, frame: Frame) -> list[Event]:
        """Take one frame; raise `InvalidInput` if it cannot be read."""

    @abstractmethod
    def fail(self, failed: Failed) -> list[Event]:
        """End the stream as a failure."""

    @abstractmethod
    def flush(self) -> list[Event]:
        """Learn that the stream is over."""


class BaseStreamWriter(ABC):
    """Events in, frames out: one method for each event."""

    def __init__(self) -> None:
        # Looked up by type: faster than asking for each in turn.
        self._write: dict[type[Event], Callable[..., list[bytes]]] = {
            Started: self.start,
            Opened: self.open,
            Delta: self.write_delta,
            Closed: self.close,
            Finished: self.finish,
            Failed: self.fail,
        }

    def feed(self, event: Event) -> list[bytes]:
        """Write one event."""
        return self._write[event.__class__](event)

    def flush(self) -> list[bytes]:
        """Give nothing more: the last event ended the stream."""
        return []

    def keep_alive(self) -> list[bytes]:
        """Say that the answer is still being made."""
        return [COMMENT]

    def is_heartbeat(self, _frame: Frame) -> bool:
        """Tell whether a frame says no more than that, and may be repeated."""
        return False

    def renumber_heartbeat(self, pulse: bytes, _passed: int) -> bytes:
        """Give such a frame once more, behind so many that were passed on as they came."""
        return pulse

    def override_response_fields(self, block: bytes) -> bytes:
        """Give the lines of another server's event with what the answer says of itself here."""
        return block

    def fail_relayed(self, failed: Failed, _passed: int) -> list[bytes]:
        """End, as a failure, a stream of which so many events were passed on as they came."""
        return self.fail(failed)

    @abstractmethod
    def start(self, event: Started) -> list[bytes]:
        """Begin the stream."""

    @abstractmethod
    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""

    @abstractmethod
    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of a block."""

    @abstractmethod
    def close(self, event: Closed) -> list[bytes]:
        """End a block."""

    @abstractmethod
    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""

    @abstractmethod
    def fail(self, event: Failed) -> list[bytes]:
        """End the stream as a failure."""
