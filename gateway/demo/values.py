"""Texts and numbers that keep the limits of their schemas."""

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil, floor

from adapters.wire.json_object import Json
from gateway.demo.patterns import is_costly, text_like
from gateway.demo.schemas import Schema, is_number

# A demo need not fill a page because a schema says so.
_LONGEST = 1000
# Patterns are tried only on short texts of others, for a bad pattern takes time.
_SHORT = 20

_FORMATS = {
    "byte": "aGVsbG8=",
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "duration": "P1D",
    "email": "ada@example.com",
    "hostname": "example.com",
    "idn-email": "ada@example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "iri": "https://example.com",
    "json-pointer": "/name",
    "regex": ".*",
    "time": "12:00:00Z",
    "uri": "https://example.com",
    "uri-reference": "/about",
    "url": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
# Tried in this order against a pattern: most patterns want one of these shapes.
_SHAPES = (
    *("example", "Example", "EXAMPLE", "a", "A", "1", "42", "123", "1234", "12345", "123456"),
    *("AB", "ABC", "ABCD", "A1", "AB12", "ABC-123", "AB-1234", "a1", "abc123", "en", "en-US"),
    *("1.0", "1.0.0", "v1.0.0", "12:00", "2025-01", "2025-01-31", "31.01.2025", "01/31/2025"),
    *("#ff8800", "+4930123456", "123-456-7890", "/", "/example", "example.txt", "$1.00", ""),
    *_FORMATS.values(),
)


# Texts


def text_for(schema: Schema, candidates: Iterable[Json]) -> str:
    """Give the first candidate that fits, or something that does."""
    pattern = schema.get("pattern")
    can_try = not isinstance(pattern, str) or not is_costly(pattern)
    for candidate in (*candidates, *_SHAPES) if can_try else ():
        if isinstance(candidate, str) and _text_fits(candidate, schema):
            return candidate
    least, most = limits(schema, "minLength", "maxLength", _LONGEST)
    made = text_like(pattern, least, most) if isinstance(pattern, str) else None
    return "example".ljust(least, ".")[:most] if made is None else made


def format_example(schema: Schema) -> str | None:
    """Give a text in the format that the schema names."""
    name = schema.get("format")
    return _FORMATS.get(name) if isinstance(name, str) else None


def shortened(text: str, schema: Schema) -> str:
    """Give as much of a text as the schema allows."""
    _, most = limits(schema, "minLength", "maxLength", _LONGEST)
    return text[:most]


def _text_fits(text: str, schema: Schema) -> bool:
    least, most = limits(schema, "minLength", "maxLength", _LONGEST)
    if not least <= len(text) <= most:
        return False
    pattern = schema.get("pattern")
    return not isinstance(pattern, str) or _matches(pattern, text)


def _matches(pattern: str, text: str) -> bool:
    if len(text) > _SHORT and text not in _SHAPES:
        return False
    try:
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        # Not an expression that Python knows: then anything is as good.
        return True


def limits(schema: Schema, least: str, most: str, bound: int) -> tuple[int, int]:
    """Give how little and how much there may be, of whatever it is, and never beyond a bound."""
    low, high = schema.get(least), schema.get(most)
    smallest = min(int(low), bound) if is_number(low) else 0
    return max(smallest, 0), min(int(high), bound) if is_number(high) and high >= 0 else bound


# Numbers


def number_for(schema: Schema, candidates: Iterable[Json], *, whole: bool) -> int | float:
    """Give the first candidate that fits, or a number that does."""
    for candidate in candidates:
        if is_number(candidate) and _number_fits(Fraction(candidate), schema, whole=whole):
            return int(candidate) if whole else candidate
    tries = _tries(schema, whole=whole)
    fitting = (value for value in tries if _number_fits(value, schema, whole=whole))
    return _plain(next(fitting, Fraction(1)))


def _tries(schema: Schema, *, whole: bool) -> Iterator[Fraction]:
    """Give numbers that may fit: one, the bounds, what is just inside of them and between them."""
    step = _step(schema, whole=whole)
    bounds = _bounds(schema)
    middle = sum(bounds, Fraction(0)) / max(len(bounds), 1)
    for start in (Fraction(1), *bounds, middle):
        for steps in (ceil(start / step), floor(start / step)):
            yield from (steps * step, (steps + 1) * step, (steps - 1) * step)
    yield middle


def _step(schema: Schema, *, whole: bool) -> Fraction:
    multiple = schema.get("multipleOf")
    if not is_number(multiple) or multiple <= 0:
        return Fraction(1)
    step = Fraction(multiple)
    # The smallest whole number among its multiples.
    return Fraction(step.numerator) if whole else step


def _bounds(schema: Schema) -> list[Fraction]:
    names = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    return [Fraction(bound) for name in names if is_number(bound := schema.get(name))]


def _number_fits(value: Fraction, schema: Schema, *, whole: bool) -> bool:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    multiple = schema.get("multipleOf")
    return (
        (not whole or value.denominator == 1)
        and (not is_number(low) or value >= low)
        and (not is_number(above) or value > above)
        and (not is_number(high) or value <= high)
        and (not is_number(below) or value < below)
        and (not is_number(multiple) or multiple <= 0 or value % Fraction(multiple) == 0)
    )


def _plain(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)
