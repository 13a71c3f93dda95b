"""An incremental scanner that finds tool calls in a text.

The result does not depend on how the text is divided into pieces. Text is emitted immediately,
except for the possible start of a marker; a block of calls is held until it is complete. A block
that is not a call, or is incomplete at the end, is emitted as text, and the text after its marker
is scanned again.
"""

import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from adapters.text_tools.formats import Calls, TextCallFormat
from adapters.text_tools.parser import Cursor, DeclaredTools, NotAToolCallError

_NON_SPACE = re.compile(r"\S")


class FoundCalls(Struct, frozen=True):
    """Calls, and the length of their markup in the text."""

    calls: Calls
    length: int


Segment = str | FoundCalls


class Scanner:
    """Splits a text into plain text and tool calls."""

    def __init__(
        self,
        formats: Sequence[TextCallFormat],
        tools: DeclaredTools,
        *,
        at_reply_start: bool = True,
    ) -> None:
        self._formats = formats
        # The formats that may start anywhere, and a pattern for their markers.
        self._inline_formats = [format_ for format_ in formats if not format_.is_whole_reply]
        self._marker_start = _marker_start_pattern(
            tuple(marker for format_ in self._inline_formats for marker in format_.markers)
        )
        self._tools = tools
        # True while there is only whitespace: whole-reply formats start at the first other text.
        self._at_start = at_reply_start
        self._block: _Block | None = None

    @property
    def is_holding(self) -> bool:
        """Whether some text is held back."""
        return self._block is not None

    def feed(self, text: str) -> list[Segment]:
        """Scan a piece of the text, and return the segments that are known."""
        segments: list[Segment] = []
        if self._block is None:
            self._search(text, 0, segments)
        else:
            self._block.feed(text)
        self._advance(segments)
        return segments

    def end(self) -> list[Segment]:
        """Return the remaining segments at the end of the text."""
        segments: list[Segment] = []
        while self._block is not None:
            block, self._block = self._block, None
            block.end()
            text, end, segment = block.result(at_end=True)
            segments.append(segment)
            self._search(text, end, segments)
            self._advance(segments)
        return segments

    def _advance(self, segments: list[Segment]) -> None:
        """Finish the blocks for which the text is sufficient."""
        while self._block is not None and self._block.is_decided():
            text, end, segment = self._block.result()
            self._block = None
            segments.append(segment)
            self._search(text, end, segments)

    def _search(self, text: str, start: int, segments: list[Segment]) -> None:
        """Emit the text up to the next possible start of a block."""
        block_start, formats = self._find_block(text, start)
        if block_start > start:
            segments.append(text[start:block_start])
        if block_start < len(text):
            self._block = _Block(text, block_start, formats, self._tools)

    def _find_block(self, text: str, start: int) -> tuple[int, Sequence[TextCallFormat]]:
        """Return the position at which a block may start, and its possible formats."""
        if self._at_start:
            match = _NON_SPACE.search(text, start)
            if match is None:
                return len(text), ()
            self._at_start = False
            first = match.start()
            if any(
                format_.is_whole_reply and text.startswith(format_.markers, first)
                for format_ in self._formats
            ):
                return first, self._formats
        match = self._marker_start.search(text, start)
        return len(text) if match is None else match.start(), self._inline_formats


class _Block:
    """Text that may contain calls, parsed in all possible formats at the same time."""

    def __init__(
        self, text: str, start: int, formats: Sequence[TextCallFormat], tools: DeclaredTools
    ) -> None:
        self._texts = [text]
        self._start = start
        self._attempts = [
            _FormatAttempt(text, start, format_, tools)
            for format_ in formats
            if format_.may_start_at(text, start)
        ]

    def feed(self, text: str) -> None:
        """Append text."""
        self._texts.append(text)
        for attempt in self._attempts:
            if not attempt.failed:
                attempt.cursor.feed(text)

    def end(self) -> None:
        """Parse the rest at the end of the text."""
        for attempt in self._attempts:
            attempt.cursor.ended = True
        self.is_decided()

    def is_decided(self) -> bool:
        """Continue to parse; return whether a format has succeeded or all formats have failed."""
        for attempt in self._attempts:
            attempt.advance()
        has_calls = any(attempt.calls for attempt in self._attempts)
        return has_calls or all(attempt.failed for attempt in self._attempts)

    def result(self, *, at_end: bool = False) -> tuple[str, int, Segment]:
        """Return the text, the position in it at which the block ends, and the block itself."""
        text = self._texts[0] if len(self._texts) == 1 else "".join(self._texts)
        parsed = [attempt for attempt in self._attempts if attempt.calls]
        if parsed:
            shortest = min(parsed, key=lambda attempt: attempt.cursor.consumed)
            length = shortest.cursor.consumed
            return text, self._start + length, FoundCalls(shortest.calls, length)
        consumed = max(1, *(attempt.cursor.consumed for attempt in self._attempts))
        end = len(text) if at_end else self._start + consumed
        return text, end, text[self._start : end]


class _FormatAttempt:
    """Parses a block in one format."""

    __slots__ = ("_parse", "calls", "cursor", "failed")

    def __init__(
        self, text: str, start: int, format_: TextCallFormat, tools: DeclaredTools
    ) -> None:
        self.cursor = Cursor(text, start)
        self._parse = format_.parse(self.cursor, tools)
        self.calls: Calls = ()
        self.failed = False

    def advance(self) -> None:
        """Continue to parse until more text is needed."""
        if self.failed or self.calls:
            return
        try:
            next(self._parse)
        except NotAToolCallError:
            self.failed = True
        except StopIteration as result:
            self.calls = result.value


@cache
def _marker_start_pattern(markers: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for all markers, and for their starts at the end of the text."""
    return re.compile("|".join(map(_prefix_pattern, markers)) or r"(?!)")


def _prefix_pattern(marker: str) -> str:
    first, rest = re.escape(marker[0]), marker[1:]
    return f"{first}(?:{_prefix_pattern(rest)}|\\Z)" if rest else first
