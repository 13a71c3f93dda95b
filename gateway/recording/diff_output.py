"""Differences as lines of text, with colours in a terminal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from rich.console import Console
from rich.text import Text

from adapters.comparison import Difference
from adapters.conformance import Json
from gateway.terminal import escape_controls

EQUAL: Final = "no differences"
# Longer values are shown around their first difference.
_MAX_SHOWN: Final = 400
# The characters before the difference of two long values.
_CONTEXT: Final = 40
_KINDS: Final = ("changed", "missing", "extra")
_STYLES: Final = {"-": "red", "+": "green"}


def make_console() -> Console:
    """Return a console for standard output, without colours if it is no terminal or NO_COLOR."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_differences(
    console: Console, differences: Iterable[Difference], indent: str = ""
) -> None:
    """Print each difference: its path, then the left and the right value."""
    for difference in differences:
        console.print(Text(f"{indent}{escape_controls(difference.path) or 'body'}", style="bold"))
        for sign, value in shown_values(difference):
            console.print(Text(f"{indent}  {sign} {value}", style=_STYLES[sign]))


def describe_differences(differences: Sequence[Difference], limit: int) -> str:
    """Return the first differences as plain text with one line for each value."""
    lines: list[str] = []
    for difference in differences[:limit]:
        lines.append(f"  {escape_controls(difference.path) or 'body'}")
        lines += (f"    {sign} {value}" for sign, value in shown_values(difference))
    if len(differences) > limit:
        lines.append(f"  and {len(differences) - limit} more")
    return "\n".join(lines)


def summarize(differences: Sequence[Difference]) -> str:
    """Return how many differences there are of each kind."""
    if not differences:
        return EQUAL
    counts = Counter(difference.kind for difference in differences)
    noun = "difference" if len(differences) == 1 else "differences"
    parts = (f"{counts[kind]} {kind}" for kind in _KINDS if counts[kind])
    return f"{len(differences)} {noun}: {', '.join(parts)}"


def shown_values(difference: Difference) -> Iterator[tuple[str, str]]:
    """Yield each value that a difference has as text, with the sign of its side."""
    left, right = _encode(difference.left), _encode(difference.right)
    begin = 0
    if difference.kind == "changed" and max(len(left), len(right)) > _MAX_SHOWN:
        begin = max(0, _common_length(left, right) - _CONTEXT)
    if difference.kind != "extra":
        yield "-", _cut(left, begin)
    if difference.kind != "missing":
        yield "+", _cut(right, begin)


def _common_length(left: str, right: str) -> int:
    """Return the number of characters that two texts have in common at their beginning."""
    pairs = zip(left, right, strict=False)
    unequal = (index for index, (one, other) in enumerate(pairs) if one != other)
    return next(unequal, min(len(left), len(right)))


def _encode(value: Json) -> str:
    return escape_controls(msgspec.json.encode(value).decode())


def _cut(text: str, begin: int) -> str:
    end = begin + _MAX_SHOWN
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
