"""Deltas of a text, in the order of which the scanner gives their text again."""

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from adapters.ir.events import Delta


class DeltaBuffer:
    """Gives deltas again by the length of their text; one that is cut stays itself in its end."""

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
        # How much of the first was given.
        self._at = 0

    def add(self, delta: Delta) -> None:
        """Take one more delta."""
        self._deltas.append(delta)

    def take(self, length: int) -> Iterator[Delta]:
        """Give the deltas of so much text, and those without text that follow them."""
        while self._deltas and (length or not self._deltas[0].text):
            delta, start = self._deltas[0], self._at
            end = start + length
            if len(delta.text) > end:
                self._at = end
                yield Delta(delta.index, delta.channel, delta.text[start:end], delta.part)
                return
            self._deltas.popleft()
            self._at = 0
            length = end - len(delta.text)
            yield replace(delta, text=delta.text[start:]) if start else delta


def split_by_token(delta: Delta) -> list[Delta]:
    """Cut a delta at its tokens, where the probabilities tell them."""
    tokens = delta.logprobs
    if len(tokens) <= 1 or "".join(one.token for one in tokens) != delta.text:
        return [delta]
    *first, last = [replace(delta, text=one.token, logprobs=(one,)) for one in tokens]
    return [*(replace(one, annotations=()) for one in first), last]
