"""The whole reply that a client's stream makes, for the store."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from adapters.dialect import Dialect, ReplyContext
from adapters.ir.events import Event
from adapters.ir.types import Usage
from adapters.losses import Loss, Losses
from adapters.sse import Decoder
from adapters.translation.streams import ReplyCollector

_IN_STORED_REPLY: Final = "in the stored completion"


class ReplyRecorder:
    """Builds, from the bytes that a client gets, the whole reply that they make."""

    def __init__(self, client: Dialect, context: ReplyContext) -> None:
        self._client = client
        self._losses = Losses(None)
        self._context = replace(context, losses=self._losses)
        self._decoder = Decoder()
        self._reader = client.read_stream(self._context)
        self._collector = ReplyCollector()

    def feed(self, data: bytes) -> None:
        """Take what is sent to the client."""
        if self._collector.reply is None:
            for frame in self._decoder.feed(data):
                self._collect(self._reader.feed(frame))

    def _collect(self, events: list[Event]) -> None:
        for event in events:
            self._collector.feed(event)

    def reply(self, usage: Usage | None) -> tuple[Mapping[str, object] | None, tuple[Loss, ...]]:
        """Return the whole reply, and what of the stream is not in it.

        It has its usage even if a client that streams does not get it.
        """
        if self._collector.reply is None:
            self._collect(self._reader.flush())
        reply = self._collector.reply
        if reply is None or reply.error is not None:
            return None, ()
        if reply.usage is None:
            reply = replace(reply, usage=usage)
        written = self._client.write_reply(reply, self._context)
        losses = (
            replace(loss, reason=f"{_IN_STORED_REPLY}: {loss.reason}") for loss in self._losses
        )
        return written, tuple(losses)
