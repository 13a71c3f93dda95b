"""Reads a text that is still coming, in the words of a parser that has it all.

A parser is a generator: where it needs more than is there it yields, and it goes on when more has
come or none will. What it has read it never looks at again, so that a long call that comes in a
thousand pieces is read once. It raises `NoCall` as soon as the text cannot be a call.
"""

import re
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Parse = Generator[None, None, T]

# What may stand in a name; the markup around it is never among these.
_NAME = re.compile(r"""[^\s"'<>{}\[\]]*""")
_SPACE = re.compile(r"\s*")
# JSON, as far as it takes to find its end: in a string, and between strings.
_IN_STRING = re.compile(r'(?:[^"\\\x00-\x1f]+|\\.)*', re.DOTALL)
_BETWEEN = re.compile(r"[\s,:0-9A-Za-z+.-]*")


class NotAToolCallError(Exception):
    """What looked like a call is none."""


class Cursor:
    """A text as far as it has come, and the place up to which it was read."""

    __slots__ = ("_at", "_text", "ended", "read")

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._at = at
        # How much was read in all.
        self.read = 0
        # Whether no more will come.
        self.ended = False

    def feed(self, text: str) -> None:
        """Take more text."""
        self._text = self._text[self._at :] + text
        self._at = 0

    def peek_any(self, *words: str) -> Parse[str | None]:
        """Tell which of the words comes next, if any does."""
        while True:
            for word in words:
                if self._text.startswith(word, self._at):
                    return word
            if self.ended or not any(self._may_become(word) for word in words):
                return None
            yield

    def skip(self, *words: str) -> Parse[str | None]:
        """Read one of the words, if it comes next."""
        word = yield from self.peek_any(*words)
        self._take(len(word or ""))
        return word

    def expect(self, *words: str) -> Parse[str]:
        """Read one of the words, which must come next."""
        word = yield from self.skip(*words)
        if word is None:
            raise NotAToolCallError
        return word

    def expect_end_tag(self, word: str) -> Parse[bool]:
        """Read the word that ends a block; at the end of the text it may be missing."""
        if (yield from self.skip(word)):
            return True
        if not self._may_become(word):
            return False
        self._take(len(self._text) - self._at)
        return True

    def skip_space(self) -> Parse[None]:
        """Read what is no word."""
        yield from self._run(_SPACE)

    def name(self) -> Parse[str]:
        """Read a name."""
        name = yield from self._run(_NAME)
        if not name:
            raise NotAToolCallError
        return name

    def at_end(self) -> bool:
        """Tell whether all was read and no more will come."""
        return self.ended and self._at == len(self._text)

    def until(self, end: str) -> Parse[str]:
        """Read up to a word, and the word itself."""
        pieces: list[str] = []
        while True:
            found = self._text.find(end, self._at)
            if found >= 0:
                pieces.append(self._take(found - self._at))
                self._take(len(end))
                return "".join(pieces)
            # The last characters may be the beginning of the word.
            pieces.append(self._take(max(0, len(self._text) - self._at - len(end) + 1)))
            yield from self._wait()

    def json(self, opened: str = "") -> Parse[str]:
        """Read an object or a list as it is spelled, some brackets of which were read already."""
        pieces = [opened]
        depth = len(opened)
        while True:
            pieces.append((yield from self._run(_BETWEEN)))
            mark = yield from self.expect('"', "{", "[", "}", "]")
            pieces.append(mark)
            if mark == '"':
                yield from self._string(pieces)
            else:
                depth += 1 if mark in "{[" else -1
            if not depth:
                return "".join(pieces)

    def _string(self, pieces: list[str]) -> Parse[None]:
        """Read the rest of a string; a bare line break in it cannot be JSON."""
        while True:
            pieces.append(self._match(_IN_STRING))
            rest = self._text[self._at : self._at + 2]
            if rest.startswith('"'):
                pieces.append(self._take(1))
                return
            if rest not in ("", "\\"):
                raise NotAToolCallError
            yield from self._wait()

    def _run(self, characters: re.Pattern[str]) -> Parse[str]:
        """Read as many of some characters as come."""
        taken = self._match(characters)
        while self._at == len(self._text) and not self.ended:
            yield
            taken += self._match(characters)
        return taken

    def _wait(self) -> Parse[None]:
        """Wait for text that is needed."""
        if self.ended:
            raise NotAToolCallError
        yield

    def _may_become(self, word: str) -> bool:
        return word.startswith(self._text[self._at : self._at + len(word)])

    def _match(self, characters: re.Pattern[str]) -> str:
        match = characters.match(self._text, self._at)
        return self._take(match.end() - self._at) if match else ""

    def _take(self, count: int) -> str:
        start, self._at = self._at, self._at + count
        self.read += count
        return self._text[start : self._at]
