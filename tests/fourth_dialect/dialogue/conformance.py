"""Rules of a stream."""

from collections.abc import Iterator

from adapters.conformance import Frame, Object, Violation, integer_at, split, validate

# event -> the events that may follow it.
_FOLLOWERS = {
    None: {"begin", "error"},
    "begin": {"open", "end", "error"},
    "open": {"open", "text", "close", "error"},
    "text": {"open", "text", "close", "error"},
    "close": {"open", "text", "close", "end", "error"},
    "end": set[str](),
    "error": set[str](),
}


class DialogueRules:
    """The order of events, and entries that are opened and closed once."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._open: set[int | None] = set()
        self._count = 0

    def read(self, frame: Frame, value: Object) -> Iterator[str]:
        """Check one event."""
        if frame.event not in _FOLLOWERS[self._last]:
            yield f"event {frame.event} after {self._last}"
        if frame.event not in _FOLLOWERS:
            return
        self._last = frame.event
        number = integer_at(value, "n")
        match frame.event:
            case "open":
                if number != self._count:
                    yield f"entry {number} is opened, not {self._count}"
                self._open.add(number)
                self._count += 1
            case "text" | "close" if number not in self._open:
                yield f"entry {number} is not open"
            case "close":
                self._open.remove(number)
            case "end" if self._open:
                yield "entries are still open"
            case _:
                pass

    def done(self) -> Iterator[str]:
        """Reject the marker of other dialects."""
        yield "a dialogue has no [DONE]"

    def flush(self) -> Iterator[str]:
        """Require an end."""
        if self._last not in ("end", "error"):
            yield "the stream does not end"


def check_stream(data: bytes) -> list[Violation]:
    """Return the violations in a recorded stream."""
    return validate(split(data), DialogueRules())
