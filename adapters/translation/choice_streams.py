"""The streams of several backend replies, each of which is one choice of the client's reply."""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.ir.normalize import merged_finish
from adapters.ir.types import Error, Finish, Usage
from adapters.sse import is_stream
from adapters.stages.summary_item import add_usage
from adapters.translation.streams import EventWriter, TranslatedStream

# Reads a whole reply as events.
WholeReader = Callable[[bytes], list[Event]]


class ChoiceMerger:
    """Writes the events of several replies as those of one reply."""

    def __init__(self, writer: EventWriter, choices: int) -> None:
        self.writer = writer
        self._started = False
        self._ends: list[Finished | None] = [None] * choices
        # The last event of the merged reply, and its frames.
        self.outcome: Finished | Failed | None = None
        self.last: list[bytes] = []

    def write(self, event: Event, choice: int) -> list[bytes]:
        """Write an event of one choice; hold back the frames that end the reply."""
        if self.outcome is not None:
            return []
        match event:
            case Started():
                # The reply has the id of the choice that begins first.
                written = [] if self._started else self.writer.feed(event)
                self._started = True
                return written
            case Finished():
                self._ends[choice] = event
                ends = [end for end in self._ends if end is not None]
                if len(ends) == len(self._ends):
                    self._end(_merged_end(ends))
                return []
            case Failed():
                self._end(event)
                return []
            case _:
                return self.writer.feed(event)

    def _end(self, event: Finished | Failed) -> None:
        self.outcome = event
        self.last = self.writer.feed(event)


def _merged_end(ends: list[Finished]) -> Finished:
    """Return the end of a reply with one choice for each end."""
    usage: Usage | None = ends[0].usage
    for end in ends[1:]:
        usage = add_usage(usage, end.usage)
    extras = tuple(end.choice_extras[0] if end.choice_extras else () for end in ends)
    return replace(
        ends[0],
        # A backend may divide one reply into choices.
        finishes=tuple(merged_finish(end.finishes) or Finish("stop", "") for end in ends),
        usage=usage,
        choice_extras=extras if any(extras) else (),
    )


class ChoiceWriter:
    """A writer for one choice, which numbers its events for the merged reply."""

    def __init__(self, merger: ChoiceMerger, choice: int) -> None:
        self._merger = merger
        self._choice = choice
        self._blocks: dict[BlockId, BlockId] = {}

    def feed(self, event: Event) -> list[bytes]:
        """Write one event."""
        match event:
            case Opened():
                block = self._blocks[event.index] = f"{self._choice}.{event.index}"
                event = replace(event, index=block, choice=self._choice)
            case Delta() | Closed():
                event = replace(event, index=self._blocks[event.index])
            case _:
                pass
        return self._merger.write(event, self._choice)

    def keep_alive(self) -> list[bytes]:
        """Return the frames of a heartbeat."""
        return self._merger.writer.keep_alive()


class ChoiceStream:
    """The backend's reply for one choice, streamed or whole."""

    def __init__(self, stream: TranslatedStream, read_whole: WholeReader) -> None:
        self.stream = stream
        self._read_whole = read_whole
        # The body of a whole reply; None for a stream.
        self._body: list[bytes] | None = []

    def expect_stream(self) -> None:
        """Read the reply as a stream, whatever it begins with."""
        self._body = None

    def feed(self, data: bytes) -> bytes:
        """Read some bytes; return the frames that can be sent."""
        if self._body == [] and is_stream(data):
            self._body = None
        if self._body is None:
            return self.stream.feed(data)
        self._body.append(data)
        return b""

    def end(self) -> bytes:
        """Read the end of the reply; raise `InvalidReplyError` if a whole one is invalid."""
        stream = self.stream
        if stream.outcome is None and self._body is not None:
            stream.write_whole(self._read_whole(b"".join(self._body)))
        else:
            stream.flush()
        return self._take_unsent()

    def fail(self, error: Error) -> bytes:
        """End the reply with an error; return the frames before it."""
        self.stream.fail(error)
        return self._take_unsent()

    def _take_unsent(self) -> bytes:
        written, self.stream.unsent = b"".join(self.stream.unsent), []
        return written


class ChoicesStream:
    """The replies for all choices, which arrive side by side."""

    def __init__(self, choices: list[ChoiceStream], merger: ChoiceMerger) -> None:
        self._choices = choices
        self._merger = merger
        # Frames before the end that must be sent together with it.
        self.unsent: list[bytes] = []
        self.end_sent = False
        # The choice that the next bytes belong to.
        self.selected = 0

    @property
    def outcome(self) -> Finished | Failed | None:
        """The last event of the merged reply."""
        return self._merger.outcome

    @property
    def last(self) -> list[bytes]:
        """The frames of the end."""
        return self._merger.last

    @property
    def has_content(self) -> bool:
        """Whether any reply has an event other than its start or its failure."""
        return any(choice.stream.has_content for choice in self._choices)

    @property
    def finished(self) -> bool:
        """Whether all replies are complete, or one has failed."""
        return self.outcome is not None or all(one.stream.finished for one in self._choices)

    @property
    def cut(self) -> bool:
        """Whether any reply ended before that of the backend."""
        return any(choice.stream.cut for choice in self._choices)

    @property
    def choice(self) -> ChoiceStream:
        """The reply for the selected choice."""
        return self._choices[self.selected]

    def feed(self, data: bytes) -> bytes:
        """Read some bytes of the selected choice; without data, its end."""
        return self.choice.feed(data) if data else self.choice.end()

    def fail_choice(self, error: Error) -> None:
        """End the selected choice, and so the reply, with an error."""
        self.unsent.append(self.choice.fail(error))

    def flush(self) -> None:
        """End the replies, because the backend's streams have ended."""
        for choice in self._choices:
            if self.outcome is None and choice.stream.outcome is None:
                self.unsent.append(choice.end())

    def fail(self, error: Error) -> None:
        """End the reply with an error."""
        for choice in self._choices:
            self.unsent.append(choice.fail(error))

    def heartbeat(self) -> bytes:
        """Return a heartbeat, which is sent while the backend is silent."""
        return b"" if self.outcome is not None else b"".join(self._merger.writer.keep_alive())
