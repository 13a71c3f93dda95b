"""The queues of the streams of a connection.

The turns of one stream are served one after another, turns of different streams at the same time.
In Open Responses a connection is a single unnamed stream. OpenAI's API also has named streams.
"""

from collections import deque
from typing import Final

from gateway.errors import QueueFullError, TooManyStreamsError
from gateway.websocket.messages import CreateMessage

# The limits of OpenAI's API.
_MAX_NAMED_STREAMS: Final = 32
_MAX_ACTIVE: Final = 16
# Not limited by any specification; clients usually wait for each reply.
_MAX_WAITING: Final = 32


class StreamQueues:
    """Messages that wait for the turn before them."""

    def __init__(self, max_bytes: int) -> None:
        # The maximum size of all waiting messages together.
        self._max_bytes = max_bytes
        self._stream_names: set[str] = set()
        # The waiting messages of each active stream, which may be none.
        self._waiting: dict[str | None, deque[CreateMessage]] = {}

    def add(self, message: CreateMessage) -> bool:
        """Queue a message; return True if its stream was idle and now has to be served.

        Raises `TooManyStreamsError` or `QueueFullError` at a limit.
        """
        queue = self._waiting.get(message.stream_id)
        if queue is not None:
            self._check_queue_limits(message)
            queue.append(message)
            return False
        self._check_stream_limits(message.stream_id)
        self._waiting[message.stream_id] = deque((message,))
        return True

    def next(self, stream_id: str | None) -> CreateMessage | None:
        """Remove and return the next message of a stream; if there is none, make it idle."""
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

    def _check_stream_limits(self, stream_id: str | None) -> None:
        if len(self._waiting) >= _MAX_ACTIVE:
            message = f"a connection may have {_MAX_ACTIVE} active streams; wait for one to end"
            raise TooManyStreamsError("stream_id", message)
        if stream_id is None or stream_id in self._stream_names:
            return
        if len(self._stream_names) >= _MAX_NAMED_STREAMS:
            message = f"a connection may use {_MAX_NAMED_STREAMS} stream ids; open a new connection"
            raise TooManyStreamsError("stream_id", message)
        self._stream_names.add(stream_id)

    def _check_queue_limits(self, message: CreateMessage) -> None:
        sizes = [it.size for queue in self._waiting.values() for it in queue]
        if len(sizes) >= _MAX_WAITING or sum(sizes) + message.size > self._max_bytes:
            text = f"{len(sizes)} messages ({sum(sizes)} bytes) are waiting; retry later"
            raise QueueFullError(None, text)
