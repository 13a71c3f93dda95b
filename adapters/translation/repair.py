"""Streams between two sides of the same dialect, of which only invalid frames are changed."""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from adapters.dialect import BaseStreamWriter, Passed, ReplyContext
from adapters.errors import InvalidReplyError, InvalidRequestError
from adapters.ir.events import (
    BlockId,
    Delta,
    Event,
    Failed,
    Finished,
    Started,
    undecodable_stream,
)
from adapters.ir.record import EventRecord
from adapters.ir.types import Error
from adapters.json_text import is_utf8
from adapters.losses import Losses
from adapters.sse import Frame, is_done
from adapters.stages.block_order import BlockSequencer
from adapters.stages.stage import Pipeline, Stage
from adapters.translation.request import ReplyPlan, error_for_client
from adapters.translation.streams import (
    LAST_EVENTS,
    PassedStream,
    failed_decoding,
    have_content,
    is_complete,
)
from adapters.wire.error_body import redact_errors

# The length of "data: ", which is all that most events have besides their data.
_BEFORE_DATA = 6
_ID_LINE = re.compile(rb"^id(?::|$)", re.MULTILINE)

_UNENDED_REASON = "the backend's stream has no end marker; it was added"


class RepairedStream(PassedStream):
    """A stream whose frames pass as they are while the client can receive them.

    The reader decides that for each frame. The first frame that it does not pass, or whose events a
    stage changes, is replaced with its events as the writer writes them, and so is the rest of the
    stream: the writer continues from a record of the events that have passed.
    """

    def __init__(
        self,
        plan: ReplyPlan,
        reader_context: ReplyContext,
        writer: BaseStreamWriter,
        stages: list[Stage],
        losses: Losses,
    ) -> None:
        super().__init__(plan, reader_context, writer)
        self._stages = stages
        self._pipeline = Pipeline(*stages)
        # Calls that overlap do not pass, so only the rest of a stream needs to be ordered.
        self._sequencer = BlockSequencer(reader_context.request)
        self._losses = losses
        # Whether deltas skip the stages, until the next event of another type.
        self._direct = not stages
        self._events = EventRecord(writer.continued_channels)
        # The texts of the latest delta's part that the writer needs to continue; None if it needs
        # none.
        self._texts: list[str] | None = None
        # What has passed of the stream with the latest frame that is not a usual delta.
        self._begun: Sequence[int] = ()
        self._part_ends: Mapping[BlockId, int] = {}
        # Frames at the end of the stream, which pass unless a later frame must be written.
        self._held: list[tuple[bytes, Frame, list[Event]]] = []
        # Whether the writer writes the rest of the stream.
        self._writes = False
        # Whether the marker that ends the stream has passed.
        self._has_end = False
        # Whether a delta passes if the reader and the stages do not change it.
        self._passes_deltas = False

    def feed(self, data: bytes) -> bytes:
        """Read the bytes of one read; return its complete events, except those of the end."""
        if self._over:
            return b""
        try:
            blocks = self._decoder.feed_raw(data)
        except InvalidReplyError as error:
            self._send(self._end_early(failed_decoding(error)), self.last)
            return b""
        sent: list[bytes] = []
        self._forward_blocks(blocks, sent)
        return b"".join(sent)

    def _forward_blocks(self, blocks: list[bytes], sent: list[bytes]) -> None:
        reader = self.reader
        for given in blocks:
            block, frame = self._redacted(given)
            if frame is None:
                # Comments pass at once: they keep the connection open while frames are held.
                self._send(self._without_data(block), sent)
                continue
            if frame.name and not self._writer.names_events:
                self._losses.dropped("stream", "names of events are removed")
                block = _without_lines(block, b"event")
            if len(block) > len(frame.data) + _BEFORE_DATA and _ID_LINE.search(block):
                # After an event with an id, the openai package for Python fails at comments.
                self._losses.dropped("stream", "ids of events are removed")
                block = _without_lines(block, b"id")
            events = self._read(frame)
            if (
                self._passes_deltas
                and len(events) == 1
                and (reader.similar or (reader.verdict == "pass" and type(events[0]) is Delta))
            ):
                # The usual case.
                out = events if self._direct else self._pipeline.feed_all(events)
                if not _are_same(out, events):
                    self._send([*self._begin_writing(), *self._write(out, frame)], sent)
                    continue
                self._passed += 1
                if not reader.similar:
                    self._note(events)
                elif self._texts is not None and isinstance(events[0], Delta):
                    self._texts.append(events[0].text)
                sent.append(block + b"\n\n")
                continue
            self._send(self._forward_frame(block, frame, events), sent)
            if self._over:
                return

    def _send(self, frames: list[bytes], sent: list[bytes]) -> None:
        """Send frames now, or hold them back together with the end of the stream."""
        (sent if self.outcome is None or self.end_sent else self.last).extend(frames)

    def _without_data(self, block: bytes) -> list[bytes]:
        """Return an event without data if it is a comment: clients fail to parse any other."""
        if not is_utf8(block):
            return []
        if block and not all(line.startswith(b":") for line in block.split(b"\n")):
            self._losses.dropped("stream", "events without data are removed")
            return []
        return [block + b"\n\n"]

    # Reading

    def _read(self, frame: Frame) -> list[Event]:
        try:
            return self.reader.read(frame)
        except InvalidRequestError as error:
            self.reader.similar = False
            return [undecodable_stream(str(error))]

    def _through_stages(self, events: list[Event]) -> list[Event]:
        if not self.has_content:
            self.has_content = have_content(events)
        if not self._stages or (self._direct and len(events) == 1 and type(events[0]) is Delta):
            return events
        out = self._pipeline.feed_all(events)
        self._direct = self._pipeline.passes_deltas
        return out

    # Frames

    def _forward_frame(self, block: bytes, frame: Frame, events: list[Event]) -> list[bytes]:
        """Return a frame, or what replaces it."""
        verdict = self.reader.verdict
        if self.outcome is not None and (self._writes or self._has_end or verdict == "write"):
            if not is_done(frame) or self._has_end:
                self._losses.dropped("stream", "data after the end is removed")
            # The writer has written the marker that ends the stream.
            self._has_end = self._has_end or self._writes
            return []
        out = self._through_stages(events)
        if out and isinstance(out[-1], Failed) and out[-1].origin == "gateway":
            return self._end_early(out[-1])
        if self._writes or verdict == "write" or not _are_same(out, events):
            return [*self._begin_writing(), *self._write(out, frame)]
        if verdict == "hold":
            self._passes_deltas = False
            self._held.append((block, frame, out))
            return []
        passed = self._release() if self._held else []
        passed.append(self._pass_frame(block, frame, out))
        self._has_end = self.reader.saw_end
        self._passes_deltas = self.has_content and self.outcome is None
        return passed

    def _pass_frame(self, block: bytes, frame: Frame, events: list[Event]) -> bytes:
        self._note(events)
        return self._forwarded(block, frame)

    def _note(self, events: list[Event]) -> None:
        """Store the events of a frame that passes."""
        for event in events:
            match event:
                case Delta():
                    self._events.add_delta(event)
                case Started():
                    # Any error at the end of the stream needs the id and the model.
                    self._writer.feed(event)
                case Finished() | Failed():
                    self.outcome = event
                case _:
                    self._events.add(event)
        self._texts = self._events.latest_texts()
        self._begun, self._part_ends = self.reader.begun_choices, self.reader.part_ends

    def _release(self) -> list[bytes]:
        """Pass the frames that are held back."""
        held, self._held = self._held, []
        return [self._pass_frame(*one) for one in held]

    # Writing

    def _begin_writing(self) -> list[bytes]:
        """Continue the stream with the writer; return the frames that were held back as written."""
        if self._writes:
            return []
        self._writes, self._passes_deltas = True, False
        self.reader.writes = True
        events = list(self._events.take())
        self._sequencer.note_passed(events)
        passed = Passed(self._passed, self._begun, self._part_ends)
        self._writer.continue_passed(events, passed)
        held, self._held = self._held, []
        return [written for _, frame, events in held for written in self._write(events, frame)]

    def _write(self, events: list[Event], frame: Frame | None) -> list[bytes]:
        """Write the events of a frame."""
        written: list[bytes] = []
        if frame is not None:
            self._writer.note_frame(frame, events)
        for given in self._sequencer.feed_all(events):
            event = given
            if isinstance(event, LAST_EVENTS):
                if isinstance(event, Failed):
                    event = replace(event, error=error_for_client(event.error, self._plan))
                self.outcome = event
            written += self._writer.feed(event)
        return self._writer.keep_fields(frame, written)

    def _end_early(self, failed: Failed) -> list[bytes]:
        """End the stream with an error that the gateway detected."""
        released = [] if self._writes else self._release()
        self._over = True
        return [*released, *self._begin_writing(), *self._write([failed], None)]

    # The end

    def flush(self) -> None:
        """End the stream as its dialect requires, because the backend's stream has ended."""
        if self._over:
            return
        if self.outcome is not None:
            self._add_end()
            return
        rest = self._decoder.rest()
        if rest and rest[0].lstrip().startswith(b"{"):
            # An error after the first events.
            body = redact_errors(rest[0], self._redact)
            events = self.reader.feed(Frame(b"", body, whole=False))
            self.write_whole(body, [*events, *self.reader.flush()])
            return
        # Forward an event that lacks only its empty line; any other event was truncated.
        self._forward_blocks([block for block in rest if is_complete(block)], self.unsent)
        if not self._over:
            self._flush_reader()

    def _flush_reader(self) -> None:
        if self.outcome is not None:
            self._add_end()
            return
        events = self.reader.flush()
        out = self._through_stages(events)
        if out and isinstance(out[-1], Failed) and out[-1].origin == "gateway":
            self.last += self._end_early(out[-1])
            return
        failed = any(isinstance(event, Failed) for event in out)
        passes = self.reader.verdict == "pass" and not failed and _are_same(out, events)
        if self._writes or not passes:
            written = [*self._begin_writing(), *self._write(out, None)]
            self.last += written
            return
        self.last += self._release()
        self.outcome = next((event for event in out if isinstance(event, LAST_EVENTS)), None)
        self._add_end()

    def _add_end(self) -> None:
        """Add the end marker that a complete stream lacks."""
        if self._writes or self._has_end:
            return
        missing = self._writer.end_passed()
        if missing:
            self._losses.invented("stream", _UNENDED_REASON)
            self.last += missing
            self._over = True

    def whole_body(self) -> bytes:
        """Return a whole reply, which some backends send instead of a stream, and remove it."""
        return b"" if self._passed or self._held or self._writes else self._decoder.take_json()

    def write_whole(self, body: bytes, events: list[Event]) -> None:
        """Write a whole reply, which has these events, as a stream."""
        *content, end = self._through_stages(events)
        self.last += self._begin_writing()
        self.last += self._write(content, Frame(b"", body, whole=False))
        # The fields of the reply are known now, among them its usage.
        self.last += self._write([end], None)

    def fail(self, error: Error) -> None:
        """End the stream with an error, because the backend's stream cannot continue."""
        if not self._over and self.outcome is None:
            self.last += self._end_early(Failed(error, origin="gateway"))

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the numbers of the stream, or a comment."""
        if self._writes and not self._over and self.outcome is None:
            return b"".join(self._writer.keep_alive())
        return super().heartbeat()


def _without_lines(block: bytes, field: bytes) -> bytes:
    """Return an event without the lines of a field."""
    lines = block.split(b"\n")
    return b"\n".join(line for line in lines if line.partition(b":")[0] != field)


def _are_same(one: list[Event], other: list[Event]) -> bool:
    """Whether two lists contain the same events; usually they contain the same objects."""
    return one is other or (
        len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))
    )
