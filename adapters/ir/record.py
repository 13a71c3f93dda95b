"""A compact record of the events of a stream, from which a writer can continue the stream."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.events import Channel, Delta, Event


class _Run(Struct, eq=False):
    """Consecutive deltas of one part of a block."""

    first: Delta
    # The texts after that of the first delta.
    texts: list[str]

    def delta(self) -> Delta:
        return replace(self.first, text=self.first.text + "".join(self.texts))


class EventRecord:
    """The events of a stream so far, in which consecutive deltas of one part are merged.

    Of the parts in other channels than `channels`, only the first delta is kept.
    """

    def __init__(self, channels: frozenset[Channel]) -> None:
        self._channels = channels
        self._events: list[Event | _Run] = []
        self._last: _Run | None = None

    def add(self, event: Event) -> None:
        """Add an event that is not a delta."""
        self._last = None
        self._events.append(event)

    def add_delta(self, delta: Delta) -> None:
        """Add a delta."""
        last = self._last
        if last is None or not _same_part(delta, last.first):
            self._begin(delta)
        elif delta.channel in self._channels:
            if _is_plain(delta) and _is_plain(last.first):
                last.texts.append(delta.text)
            else:
                self._begin(delta)

    def _begin(self, delta: Delta) -> None:
        self._last = _Run(delta, [])
        self._events.append(self._last)

    def latest_texts(self) -> list[str] | None:
        """Return the list to which later texts of the latest part are added; None if none are."""
        last = self._last
        return None if last is None or last.first.channel not in self._channels else last.texts

    def take(self) -> Iterator[Event]:
        """Yield the events, and remove them from the record."""
        events, self._events, self._last = self._events, [], None
        for event in events:
            yield event.delta() if isinstance(event, _Run) else event


def _same_part(one: Delta, other: Delta) -> bool:
    return one.index == other.index and one.part == other.part and one.channel == other.channel


def _is_plain(delta: Delta) -> bool:
    return not (delta.logprobs or delta.annotations)
