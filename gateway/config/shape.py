"""Compares a table with the struct that it should be, and names all that does not fit.

msgspec would stop at the first mistake, and call things by Python's names for them.
"""

import math
from collections.abc import Iterator
from difflib import get_close_matches
from types import NoneType
from typing import cast, get_args

import msgspec
from msgspec import Struct, inspect, structs

from gateway.config.messages import expected, key_name, preview_value, quoted

# What TOML makes of its tables and lists.
Table = dict[str, object]
List = list[object]


def check_shape(value: object, struct: type[Struct], place: str = "") -> Iterator[str]:
    """Name every key that is unknown or missing, and every value that is not legal."""
    return _check(value, struct, place)


def inside(place: str, key: str) -> str:
    """Name a key of a table: `server.port`, or `backends[0] "local": url`."""
    if not place:
        return key_name(key)
    separator = ": " if place.endswith(('"', "]")) else "."
    return f"{place}{separator}{key_name(key)}"


def element(place: str, index: int, value: object) -> str:
    """Name an element of a list, by its own name too where it has one."""
    match value:
        case {"name": str(name)}:
            return f"{place}[{index}] {quoted(name)}"
        case _:
            return f"{place}[{index}]"


def _check(value: object, kind: object, place: str) -> Iterator[str]:
    """Compare a value with an annotation, as deep as both go."""
    match inspect.type_info(kind), value:
        case inspect.StructType(cls=struct), dict():
            yield from _check_table(cast("Table", value), struct, place)
        case inspect.VarTupleType(), list():
            for index, one in enumerate(cast("List", value)):
                yield from _check(one, get_args(kind)[0], element(place, index, one))
        case inspect.DictType(), dict():
            for key, one in cast("Table", value).items():
                yield from _check(one, get_args(kind)[1], inside(place, key))
        case inspect.UnionType(includes_none=True), _:
            # TOML has no null: what may be null may be left out.
            yield from _check(value, _without_none(kind), place)
        case _ if not _fits(value, kind):
            yield f"{place}: {expected(kind)}, got {preview_value(value, place)}"
        case _:
            pass


def _check_table(table: Table, struct: type[Struct], place: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in structs.fields(struct)}
    for key in table:
        if key not in fields:
            yield _unknown(inside(place, key), key, list(fields))
    for name, field in fields.items():
        if name in table:
            yield from _check(table[name], field.type, inside(place, name))
        elif field.required:
            yield f"{inside(place, name)}: it is missing; {expected(field.type)}"


def _unknown(place: str, key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"{place}: there is no such key{hint}; there are: {', '.join(known)}"


def _without_none(kind: object) -> object:
    """Leave null out of a union, whatever else it is of."""
    first, *others = (one for one in get_args(kind) if one is not NoneType)
    for other in others:
        first = first | other
    return first


def _fits(value: object, kind: object) -> bool:
    # No time is infinite, and a float that is no number compares with nothing.
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
