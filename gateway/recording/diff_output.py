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
# The characters of a value in an error message.
_MAX_DESCRIBED: Final = 120
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
    """Return the first differences in one line, because SDKs show errors in one."""
    words = [_describe(difference) for difference in differences[:limit]]
    more = len(differences) - limit
    return "; ".join([*words, f"and {more} more"] if more > 0 else words)


def _describe(difference: Difference) -> str:
    path = escape_controls(difference.path) or "the body"
    left, right = (
        _cut(_encode(value), 0, _MAX_DESCRIBED) for value in (difference.left, difference.right)
    )
    match difference.kind:
        case "missing":
            return f"{path} is missing, recorded {left}"
        case "extra":
            return f"{path} is not in the recording, received {right}"
        case "changed":
            return f"{path} is {right}, recorded {left}"


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
    begin = _first_shown(left, right) if difference.kind == "changed" else 0
    if difference.kind != "extra":
        yield "-", _cut(left, begin, _MAX_SHOWN)
    if difference.kind != "missing":
        yield "+", _cut(right, begin, _MAX_SHOWN)


def _first_shown(left: str, right: str) -> int:
    """Return where the part of two texts begins that shows their difference."""
    if max(len(left), len(right)) <= _MAX_SHOWN:
        return 0
    pairs = zip(left, right, strict=False)
    unequal = (index for index, (one, other) in enumerate(pairs) if one != other)
    return max(0, next(unequal, min(len(left), len(right))) - _CONTEXT)


def _encode(value: Json) -> str:
    return escape_controls(msgspec.json.encode(value).decode())


def _cut(text: str, begin: int, length: int) -> str:
    end = begin + length
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
