"""Reader, writer and rules of streams.

The type of an event is in its data: `data: {"event": "add", "number": 0, "text": "Hel"}`.
"""

from msgspec import Struct

from adapters.conformance import Violation
from adapters.dialect import BaseStreamReader, BaseStreamWriter, ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ids import deterministic_ids
from adapters.ir.accumulator import to_events
from adapters.ir.events import (
    BlockId,
    Channel,
    Closed,
    Delta,
    Event,
    EventOrderError,
    Failed,
    Finished,
    Opened,
    Started,
    check_order,
    truncated_stream,
)
from adapters.ir.normalize import effective_finish, reply_model, without_content, worst_finish
from adapters.ir.types import EMPTY_REQUEST, Error, Finish, Message, ToolCall
from adapters.losses import Losses
from adapters.sse import Decoder, Frame, encode
from adapters.wire.json_object import decode
from tests.fourth_dialect.dialogue.reply import read_error, read_reply, write_error
from tests.fourth_dialect.dialogue.wire import (
    EVENT,
    LABEL,
    Add,
    Begin,
    Close,
    End,
    Entry,
    ErrorWire,
    Open,
    read_entry,
    read_tokens,
    write_entries,
    write_tokens,
)


class StreamReader(BaseStreamReader):
    """Frames in, events out."""

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._ended = False
        self._channels: dict[int, Channel] = {}

    def read(self, frame: Frame) -> list[Event]:  # noqa: PLR0911 - one for each type of event
        """Read one frame; raise `InvalidRequestError` if it is not an event."""
        if self._ended:
            return []
        if not frame.whole and b'"event"' not in frame.data:
            # Not a stream, but a whole reply.
            self._ended = True
            return list(to_events(read_reply(frame.data, self._context)))
        match decode(frame.data, EVENT, ""):
            case Begin(id=name, model=model, created=created):
                return [Started(name, model, created)]
            case Open(number=number, entry=entry):
                item = read_entry(entry)
                self._channels[number] = "arguments" if isinstance(item, ToolCall) else "text"
                return [Opened(number, without_content(item))]
            case Add(number=number, text=text) if number in self._channels:
                return [Delta(number, self._channels[number], text)]
            case Close(number=number, cut=cut) if self._channels.pop(number, None):
                return [Closed(number, "incomplete" if cut else "completed")]
            case End(end=end, tokens=tokens) if not self._channels:
                self._ended = True
                return [Finished((Finish(end, end),), read_tokens(tokens))]
            case ErrorWire():
                return self.fail(Failed(read_error(None, frame.data)))
            case other:
                raise InvalidRequestError(None, f"{type(other).__name__} is out of place")

    def fail(self, failed: Failed) -> list[Event]:
        """End the stream as a failure."""
        events: list[Event] = [] if self._ended else [failed]
        self._ended = True
        return events

    def flush(self) -> list[Event]:
        """End a stream without an end as a failure."""
        return self.fail(truncated_stream())


class StreamWriter(BaseStreamWriter):
    """Events in, frames out."""

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self._context = context
        # The numbers of all blocks; a block that cannot be an entry has none.
        self._numbers: dict[BlockId, int] = {}
        self._has_calls = False

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream."""
        context = self._context
        name = event.id or context.ids.id("dialogue-")
        model = reply_model(event.model, context.request, context.losses)
        return _frames(Begin(name, model, event.created or context.ids.now()))

    def open(self, event: Opened) -> list[bytes]:
        """Begin an entry."""
        if not isinstance(event.item, Message | ToolCall):
            return []
        self._has_calls |= isinstance(event.item, ToolCall)
        number = self._numbers[event.index] = len(self._numbers)
        entry = next(write_entries([(event.item, "reply")], self._context.losses), Entry())
        return _frames(Open(number, entry))

    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of an entry."""
        if event.index not in self._numbers:
            self._context.losses.dropped("reply", f"{LABEL} has no such entry")
            return []
        if event.logprobs or event.annotations or event.part or event.channel == "refusal":
            self._context.losses.changed("reply.content", f"{LABEL} has one plain text")
        return _frames(Add(self._numbers[event.index], event.text))

    def close(self, event: Closed) -> list[bytes]:
        """End an entry."""
        if event.index not in self._numbers:
            return []
        return _frames(Close(self._numbers[event.index], event.status == "incomplete"))

    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""
        finish = worst_finish(event.finishes) or Finish("stop", "")
        reason = effective_finish(finish, has_calls=self._has_calls)
        return _frames(End(reason, write_tokens(event.usage)))

    def fail(self, event: Failed) -> list[bytes]:
        """End the stream as a failure."""
        return [b"data: %b\n\n" % write_error(event.error)]

    def fail_after_end(self, last: list[bytes], error: Error) -> list[bytes]:
        """Return the last frames of a stream with a failure in place of its end."""
        return [*last[:-1], *self.fail(Failed(error))]


def _frames(event: Struct) -> list[bytes]:
    return [b"data: %b\n\n" % encode(event)]


def check_stream(data: bytes) -> list[Violation]:
    """Return the first violation in a recorded stream: an event that is invalid or out of order."""
    reader = StreamReader(ReplyContext(EMPTY_REQUEST, deterministic_ids(), Losses(None)))
    try:
        check_order(event for frame in Decoder().feed(data) for event in reader.read(frame))
    except (InvalidRequestError, EventOrderError) as error:
        return [Violation(1, str(error))]
    return []
