"""Jupyter notebooks, whose code cells are migrated together as one source."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from adapters import InvalidRequestError
from gateway.migration.code.findings import CELL_MARK, Finding

# A line with a magic, a command of the shell or a question is no Python; a comment stands for it.
_MAGIC = re.compile(
    r"^([ \t]*)([%!?].*|[\w., \t]*=[ \t]*[%!](?!=).*|%{0,2}[\w.]+\?{1,2})$", re.MULTILINE
)
_MARK = "#dragoman-magic#"
_HIDDEN = re.compile(rf"pass  {_MARK}")
_SEPARATOR = f"\n{CELL_MARK}\n"
_decoder = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n]*")


class _Span(Struct, frozen=True):
    """The place of a value in a JSON text."""

    start: int
    end: int
    parts: "dict[str, _Span] | list[_Span] | None" = None


class Notebook:
    """A notebook whose JSON keeps its form, apart from the cells that are changed."""

    def __init__(self, text: str) -> None:
        """Read a notebook; raises `InvalidRequestError`."""
        self._text = text
        try:
            self._cells = list(_code_cells(text))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise InvalidRequestError(None, f"the notebook cannot be read: {error}") from None
        # The code of all cells, and the number of lines before each of them.
        self.code = _SEPARATOR.join(_hide_magics(cell.source) for cell in self._cells)
        self._starts = list(self._first_lines())

    def _first_lines(self) -> Iterator[int]:
        line = 0
        for cell in self._cells:
            yield line
            line += cell.source.count("\n") + 2

    def placed(self, finding: Finding) -> Finding:
        """Return a finding with its line in the file, where that is the line of the code."""
        index = bisect_right(self._starts, finding.line - 1) - 1
        cell = self._cells[index]
        line = cell.line(self._text, finding.line - 1 - self._starts[index])
        return msgspec.structs.replace(finding, line=line)

    def with_code(self, code: str) -> str:
        """Return the text of the notebook with other code in its cells."""
        parts: list[str] = []
        end = 0
        for cell, changed in zip(self._cells, code.split(_SEPARATOR), strict=True):
            source = _HIDDEN.sub("", changed)
            if source != cell.source:
                parts += [self._text[end : cell.span.start], cell.written(self._text, source)]
                end = cell.span.end
        return "".join([*parts, self._text[end:]])


class _Cell(Struct, frozen=True):
    source: str
    # The place of the source: a string, or a list of lines.
    span: _Span

    def line(self, text: str, number: int) -> int:
        """Return the line of the file for a line of the source."""
        place = self.span.start
        if isinstance(self.span.parts, list) and self.span.parts:
            place = self.span.parts[min(number, len(self.span.parts) - 1)].start
        return text.count("\n", 0, place) + 1

    def written(self, text: str, source: str) -> str:
        """Return the JSON of a changed source, in the form of the former one."""
        is_ascii = text.isascii()
        if not isinstance(self.span.parts, list):
            return json.dumps(source, ensure_ascii=is_ascii)
        lines = [json.dumps(one, ensure_ascii=is_ascii) for one in source.splitlines(keepends=True)]
        former = text[self.span.start : self.span.end]
        if not self.span.parts:
            return f"[{', '.join(lines)}]"
        head = former[: self.span.parts[0].start - self.span.start]
        tail = former[self.span.parts[-1].end - self.span.start :]
        between = ", "
        if len(self.span.parts) > 1:
            between = text[self.span.parts[0].end : self.span.parts[1].start]
        elif "\n" in head:
            between = "," + head[1:]
        return head + between.join(lines) + tail


def _code_cells(text: str) -> Iterator[_Cell]:
    span, _ = _scan(text, _SPACE.match(text).end())  # type: ignore[union-attr]  # it may be empty
    notebook: Any = json.loads(text)
    cells = cast("dict[str, _Span]", span.parts)["cells"].parts
    for place, cell in zip(cast("list[_Span]", cells), notebook["cells"], strict=True):
        source = cell["source"]
        joined = source if isinstance(source, str) else "".join(source)
        if cell["cell_type"] == "code" and not joined.lstrip().startswith("%%"):
            yield _Cell(joined, cast("dict[str, _Span]", place.parts)["source"])


def _scan(text: str, start: int) -> tuple[_Span, int]:
    """Return the places of a value and of the values in it, and where the next value may begin."""
    match text[start]:
        case '"':
            _, end = _decoder.raw_decode(text, start)
            return _Span(start, end), end
        case "{":
            return _scan_object(text, start)
        case "[":
            return _scan_array(text, start)
        case _:
            match = re.compile(r"[^\s,\]}]+").match(text, start)
            end = match.end() if match else start + 1
            return _Span(start, end), end


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _scan_object(text: str, start: int) -> tuple[_Span, int]:
    parts: dict[str, _Span] = {}
    place = _skip(text, start + 1)
    while text[place] != "}":
        key, place = _decoder.raw_decode(text, place)
        place = _skip(text, _skip(text, place) + 1)
        parts[key], place = _scan(text, place)
        place = _skip(text, place)
        place = _skip(text, place + 1) if text[place] == "," else place
    return _Span(start, place + 1, parts), place + 1


def _scan_array(text: str, start: int) -> tuple[_Span, int]:
    parts: list[_Span] = []
    place = _skip(text, start + 1)
    while text[place] != "]":
        part, place = _scan(text, place)
        parts.append(part)
        place = _skip(text, place)
        place = _skip(text, place + 1) if text[place] == "," else place
    return _Span(start, place + 1, parts), place + 1


def _hide_magics(source: str) -> str:
    return _MAGIC.sub(lambda match: f"{match[1]}pass  {_MARK}{match[2]}", source)
