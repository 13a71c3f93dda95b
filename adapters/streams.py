"""The machines that a stream runs through: to another dialect, to its own, or to a whole."""

from collections.abc import Iterable, Iterator

from adapters.conversation import Error, Reply
from adapters.errors import BrokenReply, InvalidInput
from adapters.events import Event, Failed, Finished, unreadable
from adapters.fold import Fold
from adapters.jsontext import is_complete, is_text
from adapters.loss import Losses
from adapters.machine import EventReader, EventWriter
from adapters.sse import Decoder, Frame, is_done, read_block
from adapters.stage import AnyStage, Pipeline


class StreamTranslator:
    """Bytes of one dialect in, bytes of another out: all events of one read in one piece."""

    def __init__(self, reader: EventReader, rest: list[AnyStage], losses: Losses) -> None:
        self._decoder = Decoder()
        self._reader = reader
        self._rest = Pipeline(*rest)
        self.losses = losses
        # How the backend's stream ended, once it has.
        self.outcome: Finished | Failed | None = None

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; give what to write for it."""
        if self.outcome is not None:
            return b""
        try:
            frames = self._decoder.feed(data)
        except BrokenReply as problem:
            return b"".join(self._write([_failed(problem)]))
        return b"".join(self._pass(frames))

    def flush(self) -> bytes:
        """Learn that the backend's stream is over; end the client's."""
        if self.outcome is not None:
            return b""
        last = self._pass(self._decoder.flush())
        return b"".join(last + self._write(self._reader.flush()))

    def _pass(self, frames: list[Frame]) -> list[bytes]:
        """Pass frame after frame, so that ids are minted in the same order however they come."""
        read, write = self._reader.feed, self._write
        return [piece for frame in frames for piece in write(read(frame))]

    def _write(self, events: list[Event]) -> list[bytes]:
        if not events:
            return []
        if isinstance(events[-1], Finished | Failed):
            self.outcome = events[-1]
        return self._rest.feed_all(events)


def _failed(problem: BrokenReply) -> Failed:
    return Failed(
        Error(str(problem), problem.kind, problem.code, status=problem.status), found=True
    )


class Collector:
    """Bytes of a stream in, one whole reply out."""

    def __init__(self, reader: EventReader, between: list[AnyStage], losses: Losses) -> None:
        self._decoder = Decoder()
        self._pipeline = Pipeline(reader, *between, Fold())
        self._replies: list[Reply] = []
        self.losses = losses

    def feed(self, data: bytes) -> None:
        """Take what one read brought; once the reply is there, no more is needed."""
        if self._replies:
            return
        try:
            self._take(self._decoder.feed(data))
        except BrokenReply as problem:
            self._replies.append(Reply(error=_failed(problem).error))

    def reply(self) -> Reply:
        """Learn that the stream is over; give the whole."""
        self._take(self._decoder.flush())
        self._replies += self._pipeline.flush()
        return self._replies[0]

    def _take(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._replies += self._pipeline.feed(frame)


def is_broken(event: Event | None) -> bool:
    """Tell whether a stream was cut or could not be read; its backend did not say so itself."""
    return isinstance(event, Failed) and event.found


def _is_whole(frame: Frame | None) -> bool:
    """Tell whether a frame holds one JSON object, or the word that ends a stream."""
    return frame is not None and (is_done(frame) or is_complete(frame.data))


class Relay:
    """Passes a stream on as it is, event by event, and ends it where its backend does not.

    The stream is read all the same: one that was cut, or that turns to noise, must not look whole,
    whichever dialect it is in. The writer listens too, so that it can end the stream from where it
    stands; what it would have written before is not needed, and neither are their losses, for
    nothing is lost.
    """

    def __init__(self, reader: EventReader, writer: EventWriter) -> None:
        self._decoder = Decoder()
        self._reader = reader
        self._writer = writer
        # How many events were passed on.
        self._passed = 0
        # Nothing more is passed on: we have ended the stream ourselves.
        self._over = False
        self.losses = Losses(None)
        # How the backend's stream ended, once it has.
        self.outcome: Finished | Failed | None = None

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; give what to write for it."""
        if self._over:
            return b""
        try:
            blocks = self._decoder.blocks(data)
        except BrokenReply as problem:
            return self._listen([_failed(problem)])
        return b"".join(self._pass(blocks))

    def flush(self) -> bytes:
        """Learn that the backend's stream is over; end the client's, if nobody did."""
        if self._over:
            return b""
        rest = self._decoder.rest()
        if rest and self.outcome is None and rest[0].lstrip().startswith(b"{"):
            return self._tell_body(rest[0])
        # An event that lacks only its empty line is whole; what is less was cut.
        last = [block for block in rest if _is_whole(read_block(block))]
        return b"".join(self._pass(last)) + self._listen(self._reader.flush())

    def _tell_body(self, body: bytes) -> bytes:
        """Tell a JSON body, which some servers send where a stream was asked for, as a stream."""
        events = [*self._reader.feed(Frame(b"", body, whole=False)), *self._reader.flush()]
        return b"".join(piece for event in events for piece in self._writer.feed(event))

    def _pass(self, blocks: list[bytes]) -> Iterator[bytes]:
        for block in blocks:
            frame = read_block(block)
            ending = b"" if frame is None else self._hear(frame)
            if ending:
                yield ending
                return
            self._passed += frame is not None
            if frame is not None or is_text(block):
                yield block + b"\n\n"

    def _hear(self, frame: Frame) -> bytes:
        """Read one frame. What is JSON but odd passes: its own dialect may know what it means."""
        try:
            return self._listen(self._reader.read(frame))
        except InvalidInput as problem:
            if frame.data.startswith(b"{") and is_complete(frame.data):
                return b""
            return self._listen([unreadable(str(problem))])

    def _listen(self, events: list[Event]) -> bytes:
        """Hear what came; if it is a fault that the backend did not tell itself, tell it."""
        for event in events:
            if isinstance(event, Finished | Failed):
                self.outcome = event
            if isinstance(event, Failed) and event.found:
                self._over = True
                return b"".join(self._writer.break_off(event, self._passed))
            self._writer.feed(event)
        return b""
