r"""Streams: named events with JSON in their data.

    event: begin\ndata: {"id": "…", "model": "m", "created": 1}
    event: open\ndata: {"n": 0, "entry": {"from": "assistant"}}
    event: text\ndata: {"n": 0, "text": "Hel"}
    event: close\ndata: {"n": 0}
    event: end\ndata: {"end": "stop", "tokens": {…}}

`error` takes the place of `end`. The input of a call is sent in `text` events too.
"""

from collections.abc import Callable

from adapters.dialect import BaseStreamReader, BaseStreamWriter, ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.accumulator import to_events
from adapters.ir.events import (
    BlockId,
    Channel,
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Started,
    truncated_stream,
)
from adapters.ir.normalize import (
    UniqueCallIds,
    effective_finish,
    reply_model,
    without_content,
    worst_finish,
)
from adapters.ir.types import Error, Message, ToolCall
from adapters.sse import Frame, encode
from adapters.wire.json_object import JsonObject, read_body
from tests.fourth_dialect.dialogue.reply import (
    read_error,
    read_finish,
    read_reply,
    read_usage,
    write_error,
    write_usage,
)
from tests.fourth_dialect.dialogue.wire import LABEL, Wire, read_item, write_item


class StreamReader(BaseStreamReader):
    """Frames in, events out."""

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._ids = UniqueCallIds(context.losses)
        self._started = self._ended = False
        # The channel of each open block.
        self._open: dict[int, Channel] = {}
        self._readers: dict[bytes, Callable[[JsonObject], list[Event]]] = {
            b"begin": self._begin,
            b"open": self._open_block,
            b"text": self._text,
            b"close": self._close,
            b"end": self._end,
        }

    def read(self, frame: Frame) -> list[Event]:
        """Read one frame; raise `InvalidRequestError` if it is none of this dialect."""
        if self._ended:
            return []
        if frame.name == b"error":
            return self.fail(Failed(read_error(None, frame.data)))
        if not frame.name and not frame.whole:
            # Not a stream, but a whole reply or an error.
            self._started = self._ended = True
            return list(to_events(read_reply(frame.data, self._context)))
        read = self._readers.get(frame.name)
        if read is None:
            raise InvalidRequestError(None, f"there is no event {frame.name!r}")
        return read(read_body(frame.data))

    def _begin(self, fields: JsonObject) -> list[Event]:
        if self._started:
            return []
        self._started = True
        name, model = fields.string("id") or "", fields.string("model") or ""
        return [Started(name, model, fields.integer("created"))]

    def _text(self, fields: JsonObject) -> list[Event]:
        number = self._block(fields)
        return [Delta(number, self._open[number], fields.string("text") or "")]

    def _close(self, fields: JsonObject) -> list[Event]:
        number = self._block(fields)
        del self._open[number]
        return [Closed(number, "incomplete" if fields.boolean("cut") else "completed")]

    def _open_block(self, fields: JsonObject) -> list[Event]:
        number, entry = fields.integer("n"), fields.nested("entry")
        if number is None or entry is None:
            raise InvalidRequestError("entry", "it is missing")
        item = without_content(read_item(entry))
        if isinstance(item, ToolCall):
            item = ToolCall(
                self._ids.unique(item.call_id, item.name), item.name, extras=item.extras
            )
        self._open[number] = "arguments" if isinstance(item, ToolCall) else "text"
        return [*self._begin(JsonObject({})), Opened(number, item)]

    def _block(self, fields: JsonObject) -> int:
        number = fields.integer("n")
        if number not in self._open:
            raise InvalidRequestError("n", f"entry {number} is not open")
        return number

    def _end(self, fields: JsonObject) -> list[Event]:
        self._ended = True
        usage, closed = read_usage(fields.nested("tokens")), [Closed(one) for one in self._open]
        return [*self._begin(fields), *closed, Finished((read_finish(fields),), usage)]

    def fail(self, failed: Failed) -> list[Event]:
        """End the stream as a failure."""
        if self._ended:
            return []
        self._ended = True
        return [failed]

    def flush(self) -> list[Event]:
        """End a stream that has no end as a failure."""
        return self.fail(truncated_stream())


class StreamWriter(BaseStreamWriter):
    """Events in, frames out."""

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self._context = context
        # The numbers of the open blocks; a block that cannot be an entry has none.
        self._numbers: dict[BlockId, int] = {}
        self._count = 0
        self._has_calls = False

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream."""
        context = self._context
        begin: Wire = {
            "id": event.id or context.mint.id("dialogue-"),
            "model": reply_model(event.model, context.request, context.losses),
            "created": context.mint.now() if event.created is None else event.created,
        }
        return [_frame(b"begin", begin)]

    def open(self, event: Opened) -> list[bytes]:
        """Begin an entry."""
        entries = write_item(event.item, "reply", self._context.losses)
        if not entries or not isinstance(event.item, Message | ToolCall):
            return []
        self._has_calls |= isinstance(event.item, ToolCall)
        entry = {name: value for name, value in entries[0].items() if name not in ("text", "input")}
        self._numbers[event.index] = self._count
        self._count += 1
        return [_frame(b"open", {"n": self._numbers[event.index], "entry": entry})]

    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of an entry."""
        number = self._numbers.get(event.index)
        if number is None:
            self._context.losses.dropped("reasoning", f"{LABEL} has no such entry")
            return []
        if event.logprobs or event.annotations or event.channel == "refusal":
            self._context.losses.changed("reply.content", f"{LABEL} has only plain text")
        return [_frame(b"text", {"n": number, "text": event.text})]

    def close(self, event: Closed) -> list[bytes]:
        """End an entry."""
        number = self._numbers.pop(event.index, None)
        if number is None:
            return []
        cut: Wire = {"cut": True} if event.status == "incomplete" else {}
        return [_frame(b"close", {"n": number, **cut})]

    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""
        finish = worst_finish(event.finishes)
        reason = "stop" if finish is None else effective_finish(finish, has_calls=self._has_calls)
        usage: Wire = {} if event.usage is None else {"tokens": write_usage(event.usage)}
        return [_frame(b"end", {"end": reason, **usage})]

    def fail(self, event: Failed) -> list[bytes]:
        """End the stream as a failure."""
        return [b"event: error\ndata: %b\n\n" % write_error(event.error)]

    def fail_after_end(self, last: list[bytes], error: Error) -> list[bytes]:
        """Return the last frames of a stream with a failure in place of its end."""
        return [*last[:-1], *self.fail(Failed(error))]


def _frame(name: bytes, fields: Wire) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, encode(fields))
