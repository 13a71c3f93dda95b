"""The machines that a stream runs through: to another dialect, to its own, or to a whole."""

from collections.abc import Iterable, Iterator

from adapters.dialect import COMMENT, BaseStreamReader, BaseStreamWriter
from adapters.errors import InvalidReplyError, InvalidRequestError
from adapters.ir.accumulator import ReplyAccumulator
from adapters.ir.events import Delta, Event, Failed, Finished, Started, undecodable_stream
from adapters.ir.types import Error, Reply
from adapters.json_text import is_complete_json, is_utf8
from adapters.losses import Losses
from adapters.sse import Decoder, Frame, is_done, parse_event, write_block
from adapters.stages.stage import Pipeline, Stage
from adapters.translation.redaction import Redact, redact_errors, redact_frame

# The two events that end a stream.
_LAST = (Finished, Failed)


class StreamTranslator:
    """Bytes of one dialect in, bytes of another out: all events of one read in one piece."""

    def __init__(
        self,
        reader: BaseStreamReader,
        between: list[Stage],
        writer: BaseStreamWriter,
        losses: Losses,
        redact: Redact | None = None,
    ) -> None:
        self._decoder = Decoder()
        self._redact = redact
        self._reader = reader
        self._writer = writer
        self._pipeline = Pipeline(*between)
        # Whether deltas need nothing between reader and writer, until something else comes.
        self._direct = not between
        self.losses = losses
        # Whether anything of the answer itself has come. A stream that fails before can still be
        # told as an error with its own status (P159).
        self.has_content = False
        # How the stream ended, once it has, as the client is told it: an answer that its backend
        # finished may not be what was asked for.
        self.outcome: Finished | Failed | None = None

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; give what to write for it."""
        if self.outcome is not None:
            return b""
        try:
            frames = self._decoder.feed(data)
        except InvalidReplyError as problem:
            return b"".join(self._write([_failed(problem)]))
        return b"".join(self._pass(frames))

    @property
    def finished(self) -> bool:
        """Tell whether the answer is whole, whatever may still come."""
        return self.outcome is not None or self._reader.finished

    def flush(self) -> bytes:
        """Learn that the backend's stream is over; end the client's."""
        if self.outcome is not None:
            return b""
        last = self._pass(self._decoder.flush())
        return b"".join(last + self._write(self._reader.flush()))

    def fail(self, error: Error) -> bytes:
        """End the client's stream, because the backend's cannot go on."""
        if self.outcome is not None:
            return b""
        return b"".join(self._write(self._reader.fail(Failed(error, origin="gateway"))))

    def keep_alive(self) -> bytes:
        """Give something to write while the backend says nothing, in a form that clients count."""
        return b"" if self.outcome is not None else b"".join(self._writer.keep_alive())

    def _pass(self, frames: list[Frame]) -> list[bytes]:
        """Pass frame after frame, so that ids are minted in the same order however they come."""
        read, write = self._reader.feed, self._write
        if self._redact is not None:
            frames = [redact_frame(frame, self._redact) for frame in frames]
        return [piece for frame in frames for piece in write(read(frame))]

    def _write(self, events: list[Event]) -> list[bytes]:
        if not events:
            return []
        if not self.has_content:
            self.has_content = has_content(events)
        if self._direct and events[-1].__class__ is Delta and len(events) == 1:
            # Mostly it is so.
            return self._writer.feed(events[-1])
        told: list[Event] = self._pipeline.feed_all(events)
        if told and isinstance(told[-1], _LAST):
            self.outcome = told[-1]
        self._direct = self._pipeline.passes_deltas
        return [piece for event in told for piece in self._writer.feed(event)]


def has_content(events: list[Event]) -> bool:
    """Tell whether some events hold more than that an answer has begun, or failed."""
    return not all(isinstance(event, Started | Failed) for event in events)


def _failed(problem: InvalidReplyError) -> Failed:
    return Failed(
        Error(str(problem), problem.kind, problem.code, status=problem.status), origin="gateway"
    )


class StreamCollector:
    """Bytes of a stream in, one whole reply out."""

    def __init__(
        self,
        reader: BaseStreamReader,
        between: list[Stage],
        losses: Losses,
        redact: Redact | None = None,
    ) -> None:
        self._decoder = Decoder()
        self._redact = redact
        self._reader = reader
        self._pipeline = Pipeline(*between)
        self._accumulator = ReplyAccumulator()
        self._replies: list[Reply] = []
        self.losses = losses

    def feed(self, data: bytes) -> None:
        """Take what one read brought; once the reply is there, no more is needed."""
        if self._replies:
            return
        try:
            self._take(self._decoder.feed(data))
        except InvalidReplyError as problem:
            self._replies.append(Reply(error=_failed(problem).error))

    @property
    def done(self) -> bool:
        """Tell whether the reply is there, whatever may still come."""
        return bool(self._replies)

    @property
    def finished(self) -> bool:
        """Tell whether the answer is whole; what it cost may still come."""
        return self.done or self._reader.finished

    def reply(self) -> Reply:
        """Learn that the stream is over; give the whole."""
        self._take(self._decoder.flush())
        self._accumulate(self._reader.flush())
        return self._replies[0]

    def _take(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._accumulate(self._reader.feed(redact_frame(frame, self._redact)))

    def _accumulate(self, events: list[Event]) -> None:
        for event in self._pipeline.feed_all(events):
            self._replies += self._accumulator.feed(event)


def is_broken(event: Event | None) -> bool:
    """Tell whether a stream was cut or could not be read; its backend did not say so itself."""
    return isinstance(event, Failed) and event.origin == "gateway"


def _is_whole(frame: Frame | None) -> bool:
    """Tell whether a frame holds one JSON object, or the word that ends a stream."""
    return frame is not None and (is_done(frame) or is_complete_json(frame.data))


class PassthroughStream:
    """Passes a stream on as it is, event by event, and ends it where its backend does not.

    The stream is read all the same: one that was cut, or that turns to noise, must not look whole,
    whichever dialect it is in. The writer listens too, so that it can end the stream from where it
    stands; what it would have written before is not needed, and neither are their losses, for
    nothing is lost.
    """

    def __init__(
        self, reader: BaseStreamReader, writer: BaseStreamWriter, redact: Redact | None = None
    ) -> None:
        self._decoder = Decoder()
        self._redact = redact
        self._reader = reader
        self._writer = writer
        # How many events were passed on.
        self._passed = 0
        # Nothing more is passed on: we have ended the stream ourselves.
        self._over = False
        # What the backend says when it is still at work, to be repeated while it is silent.
        self._pulse = b""
        self.losses = Losses(None)
        # Whether anything of the answer itself has come.
        self.has_content = False
        # How the backend's stream ended, once it has.
        self.outcome: Finished | Failed | None = None

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; give what to write for it."""
        if self._over:
            return b""
        try:
            blocks = self._decoder.feed_raw(data)
        except InvalidReplyError as problem:
            return self._track([_failed(problem)])
        return b"".join(self._pass(blocks))

    @property
    def finished(self) -> bool:
        """Tell whether the answer is whole, whatever may still come."""
        return self.outcome is not None or self._reader.finished

    def flush(self) -> bytes:
        """Learn that the backend's stream is over; end the client's, if nobody did."""
        if self._over:
            return b""
        rest = self._decoder.rest()
        if rest and self.outcome is None and rest[0].lstrip().startswith(b"{"):
            return self._tell_body(rest[0])
        # An event that lacks only its empty line is whole; what is less was cut.
        last = [block for block in rest if _is_whole(parse_event(block))]
        return b"".join(self._pass(last)) + self._track(self._reader.flush())

    def fail(self, error: Error) -> bytes:
        """End the client's stream, because the backend's cannot go on."""
        if self._over or self.outcome is not None:
            return b""
        return self._track([Failed(error, origin="gateway")])

    def keep_alive(self) -> bytes:
        """Give something to write while the backend says nothing; numbers and ids are its own."""
        if self._over or self.outcome is not None:
            return b""
        return (
            self._writer.renumber_heartbeat(self._pulse, self._passed) if self._pulse else COMMENT
        )

    def _tell_body(self, body: bytes) -> bytes:
        """Tell a JSON body, which some servers send where a stream was asked for, as a stream."""
        frame = Frame(b"", redact_errors(body, self._redact), whole=False)
        events = [*self._reader.feed(frame), *self._reader.flush()]
        self.has_content = has_content(events)
        self.outcome = next((one for one in events if isinstance(one, Finished | Failed)), None)
        return b"".join(piece for event in events for piece in self._writer.feed(event))

    def _pass(self, blocks: list[bytes]) -> Iterator[bytes]:
        for given in blocks:
            block, frame = self._redacted(given)
            ending = b"" if frame is None else self._inspect(frame)
            if ending:
                yield ending
                return
            if frame is not None:
                yield self._passed_on(block, frame)
            elif is_utf8(block):
                yield block + b"\n\n"

    def _redacted(self, block: bytes) -> tuple[bytes, Frame | None]:
        """Read the lines of an event; if it is an error with a secret, write them anew."""
        frame = parse_event(block)
        if frame is None or self._redact is None:
            return block, frame
        clean = redact_frame(frame, self._redact)
        return (block if clean is frame else write_block(clean)), clean

    def _passed_on(self, block: bytes, frame: Frame) -> bytes:
        """Give an event as it is to be passed on."""
        self._passed += 1
        passed = self._writer.override_response_fields(block) + b"\n\n"
        if not self.has_content and self._writer.is_heartbeat(frame):
            self._pulse = passed
        return passed

    def _inspect(self, frame: Frame) -> bytes:
        """Read one frame. What is JSON but odd passes: its own dialect may know what it means."""
        try:
            return self._track(self._reader.read(frame))
        except InvalidRequestError as problem:
            if frame.data.startswith(b"{") and is_complete_json(frame.data):
                self.has_content = True
                return b""
            return self._track([undecodable_stream(str(problem))])

    def _track(self, events: list[Event]) -> bytes:
        """Hear what came; if it is a fault that the backend did not tell itself, tell it."""
        if not self.has_content:
            self.has_content = has_content(events)
        for event in events:
            if isinstance(event, Finished | Failed):
                self.outcome = event
            if isinstance(event, Failed) and event.origin == "gateway":
                self._over = True
                return b"".join(self._writer.fail_relayed(event, self._passed))
            if isinstance(event, Started):
                # The writer must know whose answer it may have to end. How far its items have come
                # only the other server knows, and to remember them would fill the memory.
                self._writer.feed(event)
        return b""
