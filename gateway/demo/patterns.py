"""A text for a regular expression, made from how Python itself reads it."""

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Final, cast

# A part of a pattern: the name of an operation, and what it is done with.
_Part = tuple[object, object]
_Parts = Iterable[_Part]
# Python's own reader of patterns comes without types.
_parse = cast("Callable[[str], _Parts]", import_module("re._parser").parse)

# Tried in this order where several characters will do.
_LIKELY: Final = "a1A0 -_./:@#bcdefghijklmnopqrstuvwxyzBCDEFGHIJKLMNOPQRSTUVWXYZ23456789"
_KINDS: Final[dict[str, Callable[[str], bool]]] = {
    "CATEGORY_DIGIT": str.isdigit,
    "CATEGORY_NOT_DIGIT": lambda one: not one.isdigit(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda one: not one.isspace(),
    "CATEGORY_WORD": lambda one: one.isalnum() or one == "_",
    "CATEGORY_NOT_WORD": lambda one: not one.isalnum() and one != "_",
}
# A pattern that needs more steps tries us.
_STEPS: Final = 5000
# So many repetitions in a row can be tried in all ways.
_REPETITIONS: Final = 4


class _Unknown(Exception):
    """No text is made of a pattern that looks around or back, or has no end."""


def text_like(pattern: str, least: int, most: int) -> str | None:
    """Make a text that a pattern matches from end to end; None where that is not easy."""
    try:
        parts = list(_parse(pattern))
        text = _Writer(0).write(parts)
        if len(text) < least:
            text = _Writer(least - len(text)).write(parts)
    except (_Unknown, re.error, OverflowError, RecursionError):
        return None
    return text if least <= len(text) <= most else None


def is_costly(pattern: str) -> bool:
    """Tell whether to match a pattern may take for ever; anybody may send one.

    What is repeated within what is repeated, and many repetitions in a row, can be tried in more
    ways than there is time for.
    """
    try:
        return len(list(_repetitions(_parse(pattern), repeated=False))) > _REPETITIONS
    except _Unknown:
        return True
    except (re.error, OverflowError, RecursionError):
        return False


def _repetitions(parts: _Parts, *, repeated: bool) -> Iterator[None]:
    """Give one for each repetition; raise at the first that stands within another."""
    for operation, given in parts:
        within = repeated
        if str(operation).endswith("REPEAT"):
            fewest, highest, _ = cast("tuple[int, int, _Parts]", given)
            if highest > 1 and (repeated or fewest > _STEPS):
                raise _Unknown
            within = repeated or highest > 1
            yield None
        for inner in _inside(str(operation), given):
            yield from _repetitions(inner, repeated=within)


def _inside(operation: str, given: object) -> list[_Parts]:
    """Give what stands within a part."""
    match operation:
        case "BRANCH":
            return cast("tuple[None, list[_Parts]]", given)[1]
        case "ASSERT" | "ASSERT_NOT" | "SUBPATTERN" | "MAX_REPEAT" | "MIN_REPEAT":
            return [cast("tuple[_Parts, ...]", given)[-1]]
        case "ATOMIC_GROUP" | "POSSESSIVE_REPEAT" | "GROUPREF_EXISTS":
            # Rare enough not to be looked into.
            raise _Unknown
        case _:
            return []


class _Writer:
    """Writes one text; what may be repeated is, `more` times more than it must be."""

    def __init__(self, more: int) -> None:
        self._more = more
        self._left = _STEPS

    def write(self, parts: _Parts) -> str:
        """Write what the parts ask for, one after the other."""
        return "".join(self._pieces(parts))

    def _pieces(self, parts: _Parts) -> Iterator[str]:
        for operation, given in parts:
            self._left -= 1
            if self._left < 0:
                raise _Unknown
            yield self._piece(str(operation), given)

    def _piece(self, operation: str, given: object) -> str:
        match operation:
            case "BRANCH":
                return self.write(cast("tuple[None, list[_Parts]]", given)[1][0])
            case "SUBPATTERN":
                return self.write(cast("tuple[object, int, int, _Parts]", given)[3])
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeated(*cast("tuple[int, int, _Parts]", given))
            case "AT":
                return ""
            case _:
                return _character(operation, given)

    def _repeated(self, fewest: int, highest: int, parts: _Parts) -> str:
        more = min(self._more, highest - fewest)
        self._more -= more
        times = fewest + more
        # Each counts, even of what is empty.
        if times > self._left:
            raise _Unknown
        self._left -= times
        return "".join(self.write(parts) for _ in range(times))


def _character(operation: str, given: object) -> str:
    """Give a character that a part stands for."""
    candidates: list[str] = [*_LIKELY, *_named([(operation, given)])]
    for one in candidates:
        if _takes(operation, given, one):
            return one
    raise _Unknown


def _named(parts: _Parts) -> Iterator[str]:
    """Give the characters that a pattern itself names."""
    for operation, given in parts:
        match str(operation):
            case "LITERAL":
                yield chr(cast("int", given))
            case "RANGE":
                yield chr(cast("tuple[int, int]", given)[0])
            case "IN":
                yield from _named(cast("_Parts", given))
            case _:
                continue


def _takes(operation: str, given: object, one: str) -> bool:
    """Tell whether a part stands for a character."""
    match operation:
        case "LITERAL" | "NOT_LITERAL":
            return (ord(one) == given) == (operation == "LITERAL")
        case "RANGE":
            low, high = cast("tuple[int, int]", given)
            return low <= ord(one) <= high
        case "CATEGORY":
            return _KINDS[str(given)](one)
        case "IN":
            named = [(str(name), what) for name, what in cast("_Parts", given)]
            return any(_takes(*part, one) for part in named) != (("NEGATE", None) in named)
        case _:
            return operation == "ANY"
