"""Gathers what a Chat client is told piece by piece into the completion that it makes."""

from msgspec.structs import replace

from adapters import Dialect, Exchange, IdSource, ReplyOptions
from adapters.chat.wire import write_usage
from adapters.errors import InvalidReplyError
from adapters.ir.types import Usage
from adapters.losses import Loss, Losses
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_object import read_body
from gateway import statuses

_WHERE = "in the completion that is kept"


class Gathering:
    """One stream on its way to the client."""

    def __init__(
        self, own: Dialect, body: bytes, *, mint: IdSource, reply_options: ReplyOptions | None
    ) -> None:
        # Nothing is translated: both sides of this exchange are the client's own.
        self._exchange = Exchange(own, own, mint=mint, reply_options=reply_options)
        # How many choices there are to be, the request tells.
        self._exchange.request(body)
        self._collector = self._exchange.collect()

    def hear(self, piece: bytes) -> None:
        """Take a piece of the stream."""
        self._collector.feed(piece)

    def whole(self, usage: Usage | None) -> tuple[bytes, tuple[Loss, ...]]:
        """Give the completion, and what of the stream is not in it.

        What it cost is in it, even if a client that streams is not told.
        """
        gathered = self._exchange.collected(self._collector)
        if gathered.status != statuses.WHOLE:
            raise InvalidReplyError(
                None, "the answer cannot be kept: its stream makes no completion"
            )
        losses = tuple(replace(loss, why=f"{_WHERE}: {loss.why}") for loss in gathered.losses)
        completion = read_body(gathered.body)
        if usage is None or completion.has("usage"):
            return gathered.body, losses
        carrier = ExtrasWriter("completions", "Chat Completions", Losses(None))
        return completion.encode_with(usage=write_usage(usage, carrier)), losses
