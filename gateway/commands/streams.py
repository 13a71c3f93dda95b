"""Translates a stream while it comes."""

from collections.abc import Iterable

from adapters import BrokenReply, counting, dialect
from adapters.dialect import Surroundings
from adapters.errors import CUT, UNREADABLE
from adapters.events import Failed
from adapters.exchange import UNKNOWN_REQUEST
from adapters.loss import Losses
from adapters.sse import Decoder
from gateway.commands.setting import Setting
from gateway.commands.terminal import say_losses, write


def translate_stream(setting: Setting, pieces: Iterable[bytes]) -> None:
    """Write each piece as soon as it is translated.

    A stream that was cut or cannot be read is told so to its client, in the client's own words;
    whoever ran the command learns it from the `BrokenReply` that is raised at the end.
    """
    stream = setting.exchange("stream").stream()
    watch = _Watch(setting)
    for piece in pieces:
        write(stream.feed(piece))
        watch.feed(piece)
    write(stream.flush())
    say_losses(stream.losses)
    watch.flush()


class _Watch:
    """Reads along, to tell a stream that reports a failure from one that is itself a failure."""

    def __init__(self, setting: Setting) -> None:
        asked = setting.asked or UNKNOWN_REQUEST
        around = Surroundings(asked, counting(), Losses(None))
        self._reader = dialect(setting.source).read_stream(around)
        self._decoder = Decoder()
        self._fault: str | None = None

    def feed(self, piece: bytes) -> None:
        if self._fault is not None:
            return
        try:
            frames = self._decoder.feed(piece)
        except BrokenReply as problem:
            self._fault = str(problem)
            return
        for frame in frames:
            self._hear(self._reader.feed(frame))

    def flush(self) -> None:
        """Learn that no more will come; raise what was wrong."""
        if self._fault is None:
            for frame in self._decoder.flush():
                self._hear(self._reader.feed(frame))
            self._hear(self._reader.flush())
        if self._fault is not None:
            raise BrokenReply(None, self._fault)

    def _hear(self, events: Iterable[object]) -> None:
        for event in events:
            if isinstance(event, Failed) and event.error.code in (UNREADABLE, CUT):
                self._fault = event.error.message
