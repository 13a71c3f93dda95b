"""The queues of the streams of a connection.

The turns of one stream are served one after another, those of different streams at the same time.
Open Responses has a single stream without a name; named streams and their limits are OpenAI's.
"""

from collections import deque
from typing import Final

from gateway.errors import QueueFullError, TooManyStreamsError
from gateway.websocket.messages import CreateMessage

_MAX_NAMED_STREAMS: Final = 32
_MAX_ACTIVE_STREAMS: Final = 16
# No specification has a limit; clients usually wait for a reply before they send the next message.
_MAX_WAITING: Final = 32


class StreamQueues:
    """Messages that wait for the turn before them."""

    def __init__(self, max_bytes: int) -> None:
        # The size of all messages that may wait.
        self._max_bytes = max_bytes
        self._names: set[str] = set()
        # By stream, those that are active.
        self._waiting: dict[str | None, deque[CreateMessage]] = {}

    def add(self, message: CreateMessage) -> bool:
        """Queue a message; return whether its stream was idle, so that it has to be served.

        Raises `TooManyStreamsError` or `QueueFullError` at a limit.
        """
        queue = self._waiting.get(message.stream_id)
        if queue is not None:
            self._check_waiting(message)
            queue.append(message)
            return False
        self._check_streams(message.stream_id)
        self._waiting[message.stream_id] = deque((message,))
        return True

    def next(self, stream_id: str | None) -> CreateMessage | None:
        """Remove and return the next message of a stream; without one, the stream is idle again."""
        queue = self._waiting[stream_id]
        if queue:
            return queue.popleft()
        del self._waiting[stream_id]
        return None

    def drain(self) -> list[CreateMessage]:
        """Remove and return all messages."""
        messages = [message for queue in self._waiting.values() for message in queue]
        for queue in self._waiting.values():
            queue.clear()
        return messages

    def _check_streams(self, stream_id: str | None) -> None:
        if len(self._waiting) >= _MAX_ACTIVE_STREAMS:
            message = (
                f"a connection may have {_MAX_ACTIVE_STREAMS} active streams; wait for one to end"
            )
            raise TooManyStreamsError("stream_id", message)
        if stream_id is None or stream_id in self._names:
            return
        if len(self._names) >= _MAX_NAMED_STREAMS:
            message = f"a connection may use {_MAX_NAMED_STREAMS} stream ids; open a new connection"
            raise TooManyStreamsError("stream_id", message)
        self._names.add(stream_id)

    def _check_waiting(self, message: CreateMessage) -> None:
        sizes = [it.size for queue in self._waiting.values() for it in queue]
        if len(sizes) >= _MAX_WAITING or sum(sizes) + message.size > self._max_bytes:
            text = f"{len(sizes)} messages ({sum(sizes)} bytes) are waiting; retry later"
            raise QueueFullError(None, text)
