"""Lanes: what stands in one is answered in turn, what stands in several at the same time.

Without a name there is one lane, and one response in flight, as Open Responses wants it. Names are
an addition of OpenAI's, and so are these limits.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.websocket.errors import QueueFullError, TooManyStreamsError
from gateway.websocket.messages import CreateMessage

_MOST_NAMED: Final = 32
_MOST_ACTIVE: Final = 16
# Nobody says how much may wait; clients wait for an answer before they ask on, as a rule.
_MOST_WAITING: Final = 32


class StreamQueues:
    """All lanes of one connection."""

    def __init__(self, answer: Callable[[CreateMessage], Awaitable[None]], limit: int) -> None:
        # Must not raise.
        self._answer = answer
        # So many bytes may wait, over all lanes.
        self._limit = limit
        self._named: set[str] = set()
        self._waiting: dict[str | None, deque[CreateMessage]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, create: CreateMessage) -> None:
        """Answer something now, or when its turn has come; raise if there is no room for it."""
        lane = create.lane
        queue = self._waiting.get(lane)
        if queue is not None:
            self._check_waiting(create)
            queue.append(create)
            return
        self._check_active(lane)
        self._waiting[lane] = deque((create,))
        task = asyncio.get_running_loop().create_task(self._work(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drain(self) -> list[CreateMessage]:
        """Take away all that has not begun."""
        waiting = [create for queue in self._waiting.values() for create in queue]
        for queue in self._waiting.values():
            queue.clear()
        return waiting

    async def finished(self) -> None:
        """Wait until nothing is answered any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """End what is answered now; whoever waits for it is told so."""
        for task in self._tasks:
            task.cancel()

    async def _work(self, lane: str | None) -> None:
        queue = self._waiting[lane]
        while queue:
            await self._answer(queue.popleft())
        del self._waiting[lane]

    def _check_active(self, lane: str | None) -> None:
        if len(self._waiting) >= _MOST_ACTIVE:
            why = f"{_MOST_ACTIVE} streams are active on this connection; wait for one to end"
            raise TooManyStreamsError("stream_id", why)
        if lane is None or lane in self._named:
            return
        if len(self._named) >= _MOST_NAMED:
            why = f"this connection has had {_MOST_NAMED} streams, and takes no other name"
            raise TooManyStreamsError("stream_id", why)
        self._named.add(lane)

    def _check_waiting(self, create: CreateMessage) -> None:
        waiting = [one.size for queue in self._waiting.values() for one in queue]
        if len(waiting) >= _MOST_WAITING or sum(waiting) + create.size > self._limit:
            why = f"{len(waiting)} messages of {sum(waiting)} bytes wait for their turn already"
            raise QueueFullError(None, why)
