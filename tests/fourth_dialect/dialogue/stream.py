"""Reader, writer and rules of streams.

The type of an event is in its data: `data: {"event": "add", "number": 0, "text": "Hel"}`.
"""

from msgspec import Struct

from adapters.conformance import Violation
from adapters.dialect import BaseStreamReader, BaseStreamWriter, ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ids import deterministic_ids
from adapters.ir import events
from adapters.ir.accumulator import to_events
from adapters.ir.event_order import EventOrderError
from adapters.ir.normalize import effective_finish, merged_finish, reply_model, without_content
from adapters.ir.types import EMPTY_REQUEST, Error, Finish, Message, ToolCall
from adapters.losses import Losses
from adapters.sse import Decoder, Frame, encode
from adapters.wire.json_object import decode
from tests.event_order import check_order
from tests.fourth_dialect.dialogue import wire
from tests.fourth_dialect.dialogue.reply import read_error, read_reply, write_error


class StreamReader(BaseStreamReader):
    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._ended = False
        self._channels: dict[int, events.Channel] = {}

    def read(self, frame: Frame) -> list[events.Event]:  # noqa: PLR0911 - one for each type of event
        """Read one frame; raise `InvalidRequestError` if it is not an event."""
        if self._ended:
            return []
        if not frame.whole and b'"event"' not in frame.data:
            # Not a stream, but a whole reply.
            self._ended = True
            return list(to_events(read_reply(frame.data, self._context)))
        match decode(frame.data, wire.EVENT, ""):
            case wire.Begin(id=name, model=model, created=created):
                return [events.Started(name, model, created)]
            case wire.Open(number=number, entry=entry):
                item = wire.read_entry(entry)
                self._channels[number] = "arguments" if isinstance(item, ToolCall) else "text"
                return [events.Opened(number, without_content(item))]
            case wire.Add(number=number, text=text) if number in self._channels:
                return [events.Delta(number, self._channels[number], text)]
            case wire.Close(number=number, cut=cut) if self._channels.pop(number, None):
                return [events.Closed(number, "incomplete" if cut else "completed")]
            case wire.End(end=end, tokens=tokens) if not self._channels:
                self._ended = True
                return [events.Finished((Finish(end, end),), wire.read_tokens(tokens))]
            case wire.ErrorWire():
                return self.fail(events.Failed(read_error(None, frame.data)))
            case other:
                raise InvalidRequestError(None, f"{type(other).__name__} is out of place")

    def fail(self, failed: events.Failed) -> list[events.Event]:
        """End the stream as a failure."""
        already_ended, self._ended = self._ended, True
        return [] if already_ended else [failed]

    def flush(self) -> list[events.Event]:
        """End a stream without an end as a failure."""
        return self.fail(events.truncated_stream())


class StreamWriter(BaseStreamWriter):
    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self._context = context
        # The numbers of all blocks; a block that cannot be an entry has none.
        self._numbers: dict[events.BlockId, int] = {}
        self._has_calls = False

    def start(self, event: events.Started) -> list[bytes]:
        context = self._context
        name = event.id or context.ids.id("dialogue-")
        model = reply_model(event.model, context.request, context.losses)
        return _frames(wire.Begin(name, model, event.created or context.ids.now()))

    def open(self, event: events.Opened) -> list[bytes]:
        if not isinstance(event.item, Message | ToolCall):
            return []
        self._has_calls |= isinstance(event.item, ToolCall)
        number = self._numbers[event.index] = len(self._numbers)
        written = wire.write_entries([(event.item, "reply")], self._context.losses)
        return _frames(wire.Open(number, next(written, wire.Entry())))

    def write_delta(self, event: events.Delta) -> list[bytes]:
        if event.index not in self._numbers:
            self._context.losses.dropped("reply", f"{wire.LABEL} has no such entry")
            return []
        if event.logprobs or event.annotations or event.part or event.channel == "refusal":
            self._context.losses.changed("reply.content", f"{wire.LABEL} has one plain text")
        return _frames(wire.Add(self._numbers[event.index], event.text))

    def close(self, event: events.Closed) -> list[bytes]:
        if event.index not in self._numbers:
            return []
        return _frames(wire.Close(self._numbers[event.index], event.status == "incomplete"))

    def finish(self, event: events.Finished) -> list[bytes]:
        finish = merged_finish(event.finishes) or Finish("stop", "")
        reason = effective_finish(finish, has_calls=self._has_calls)
        return _frames(wire.End(reason, wire.write_tokens(event.usage)))

    def fail(self, event: events.Failed) -> list[bytes]:
        """End the stream as a failure."""
        return [b"data: %b\n\n" % write_error(event.error)]

    def fail_after_end(self, last: list[bytes], error: Error) -> list[bytes]:
        """Return the last frames of a stream with a failure in place of its end."""
        return [*last[:-1], *self.fail(events.Failed(error))]


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
