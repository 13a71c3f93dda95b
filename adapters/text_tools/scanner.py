"""Finds the calls in a text that comes in pieces.

What comes out does not depend on where the text was cut. Text is given on at once, but for what may
be the beginning of a marker; a block of calls is held until it is whole. What turns out to be no
call is given on as the text that it was, and what follows it is looked at again. A block that is
not whole when the text ends is text to its end.
"""

import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from adapters.text_tools.formats import Calls, TextCallFormat
from adapters.text_tools.parser import Cursor, DeclaredTools, NotAToolCallError

_WORD = re.compile(r"\S")


class FoundCalls(Struct, frozen=True):
    """Calls, and how much of the text was their markup."""

    calls: Calls
    length: int


Segment = str | FoundCalls


class Scanner:
    """Text in, text and calls out."""

    def __init__(
        self, formats: Sequence[TextCallFormat], tools: DeclaredTools, *, begins_answer: bool = True
    ) -> None:
        self._formats = formats
        # Those that may begin anywhere, and how they do.
        self._inner = [one for one in formats if not one.is_whole_reply]
        self._beginning = _beginning_of(tuple(m for one in self._inner for m in one.markers))
        self._tools = tools
        # Whether nothing but space has come: only then may calls be the whole answer.
        self._at_start = begins_answer
        self._block: _Block | None = None

    @property
    def is_holding(self) -> bool:
        """Tell whether some text is held back."""
        return self._block is not None

    def feed(self, text: str) -> list[Segment]:
        """Take a piece of the text."""
        pieces: list[Segment] = []
        if self._block is None:
            self._search(text, 0, pieces)
        else:
            self._block.feed(text)
        self._advance(pieces)
        return pieces

    def end(self) -> list[Segment]:
        """Learn that the text is over."""
        pieces: list[Segment] = []
        while self._block is not None:
            block, self._block = self._block, None
            block.end()
            text, at, found = block.result(unfinished=True)
            pieces.append(found)
            self._search(text, at, pieces)
            self._advance(pieces)
        return pieces

    def _advance(self, pieces: list[Segment]) -> None:
        """Read on in the blocks that begin, as far as they can be decided."""
        while self._block is not None and self._block.is_decided():
            text, at, found = self._block.result()
            self._block = None
            pieces.append(found)
            self._search(text, at, pieces)

    def _search(self, text: str, at: int, pieces: list[Segment]) -> None:
        """Give on the text up to where a block may begin."""
        start, formats = self._find(text, at)
        if start > at:
            pieces.append(text[at:start])
        if start < len(text):
            self._block = _Block(text, start, formats, self._tools)

    def _find(self, text: str, at: int) -> tuple[int, Sequence[TextCallFormat]]:
        """Find where a block may begin, and which formats it may have."""
        if self._at_start:
            word = _WORD.search(text, at)
            if word is None:
                return len(text), ()
            self._at_start = False
            if any(
                text.startswith(one.markers, word.start()) for one in self._formats if one.is_whole_reply
            ):
                return word.start(), self._formats
        match = self._beginning.search(text, at)
        return len(text) if match is None else match.start(), self._inner


class _Block:
    """What may be calls, read by every format at once."""

    def __init__(
        self, text: str, start: int, formats: Sequence[TextCallFormat], tools: DeclaredTools
    ) -> None:
        self._texts = [text]
        self._start = start
        fitting = (one for one in formats if one.may_start_at(text, start))
        self._tries = [_FormatAttempt(text, start, one, tools) for one in fitting]

    def feed(self, text: str) -> None:
        """Take more of it."""
        self._texts.append(text)
        for one in self._tries:
            if not one.failed:
                one.cursor.feed(text)

    def end(self) -> None:
        """Learn that no more will come."""
        for one in self._tries:
            one.cursor.ended = True
        self.is_decided()

    def is_decided(self) -> bool:
        """Read on; tell whether it is clear what this is."""
        for one in self._tries:
            one.advance()
        return any(one.calls for one in self._tries) or all(one.failed for one in self._tries)

    def result(self, *, unfinished: bool = False) -> tuple[str, int, Segment]:
        """Give what this is, with the text and the place in it where it ends."""
        text = self._texts[0] if len(self._texts) == 1 else "".join(self._texts)
        calls = [one for one in self._tries if one.calls]
        if calls:
            first = min(calls, key=lambda one: one.cursor.consumed)
            length = first.cursor.consumed
            return text, self._start + length, FoundCalls(first.calls, length)
        end = self._start + max(1, *(one.cursor.consumed for one in self._tries))
        if unfinished:
            end = len(text)
        return text, end, text[self._start : end]


class _FormatAttempt:
    """One format, as far as it can read a block."""

    __slots__ = ("_parse", "calls", "cursor", "failed")

    def __init__(self, text: str, start: int, markup: TextCallFormat, tools: DeclaredTools) -> None:
        self.cursor = Cursor(text, start)
        self._parse = markup.parse(self.cursor, tools)
        self.calls: Calls = ()
        self.failed = False

    def advance(self) -> None:
        """Read on, as far as there is text."""
        if self.failed or self.calls:
            return
        try:
            next(self._parse)
        except NotAToolCallError:
            self.failed = True
        except StopIteration as result:
            self.calls = result.value


@cache
def _beginning_of(markers: tuple[str, ...]) -> re.Pattern[str]:
    """Make the pattern of a marker, or of its beginning where the text stops."""
    return re.compile("|".join(map(_pattern, markers)) or r"(?!)")


def _pattern(marker: str) -> str:
    first, rest = re.escape(marker[0]), marker[1:]
    return f"{first}(?:{_pattern(rest)}|\\Z)" if rest else first
