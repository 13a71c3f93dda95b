"""Comparison of TOML tables with the structs of the schema.

`msgspec.convert` would stop at the first error and use Python's names for types.
"""

import math
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from types import NoneType
from typing import cast, get_args

import msgspec
from msgspec import Struct, inspect, structs

from gateway.config.renames import RENAMED_KEYS, RENAMED_VALUES

# The types that tomllib returns for tables and arrays.
Table = dict[str, object]
Array = list[object]

# Keys that TOML allows without quotes.
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LAST_KEY = re.compile(r"(\w+)(?:\[\d+\])?$")
# Keys whose values are secrets, or names of variables that may be confused with their secrets.
_SECRET = re.compile(r"\b(sha256|api_key_env|key_env|previous_key_envs|headers)\b")
_URL_USER = re.compile(r"//[^/\s]*@")
_MAX_PREVIEW_LENGTH = 80

_TYPE_NAMES: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "a string",
    inspect.VarTupleType: "an array",
    inspect.ListType: "an array",
}


def check_shape(value: object, annotation: object, path: str = "") -> Iterator[str]:
    """Yield an error for each unknown or missing key and each value of a wrong type or range."""
    match inspect.type_info(annotation), value:
        case inspect.StructType(cls=struct), dict():
            yield from _check_table(cast("Table", value), struct, path)
        case inspect.VarTupleType() | inspect.ListType(), list():
            for index, element in enumerate(cast("Array", value)):
                yield from check_shape(
                    element, get_args(annotation)[0], element_path(path, index, element)
                )
        case inspect.DictType(), dict():
            for key, element in cast("Table", value).items():
                yield from check_shape(element, get_args(annotation)[1], key_path(path, key))
        case inspect.UnionType(types=[*_, inspect.StructType(cls=struct)]), dict():
            yield from _check_table(cast("Table", value), struct, path)
        case inspect.UnionType(includes_none=True), _:
            # A value is never null in TOML, so only the other types matter.
            yield from check_shape(value, _without_none(annotation), path)
        case _ if not _is_valid(value, annotation):
            yield _invalid_value(value, annotation, path)
        case _:
            pass


def _check_table(table: Table, struct: type[Struct], path: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in structs.fields(struct)}
    for key in table:
        if key not in fields:
            yield _unknown_key(key, struct, list(fields), key_path(path, key))
    for name, field in fields.items():
        if name in table:
            yield from check_shape(table[name], field.type, key_path(path, name))
        elif field.required:
            yield f"{key_path(path, name)}: key is required; expected {describe(field.type)}"


def valid_table(table: Table, struct: type[Struct]) -> Table:
    """Return a table without those parts of it that `check_shape` reports.

    Keys that are required and missing stay missing. An array is left out if the valid part of an
    element lacks such a key, because the other elements must keep their indexes.
    """
    types = {field.encode_name: field.type for field in structs.fields(struct)}
    parts = {key: _valid_part(table[key], types[key]) for key in table if key in types}
    return {key: part for key, part in parts.items() if part is not None}


def _valid_part(value: object, annotation: object) -> object | None:
    """Return the valid part of a value, or None if there is none: TOML has no null."""
    match inspect.type_info(annotation), value:
        case inspect.DictType(), dict():
            inner = get_args(annotation)[1]
            table = cast("Table", value)
            return {key: one for key, one in table.items() if not any(check_shape(one, inner))}
        case info, dict() if struct := _struct_of(info):
            return valid_table(cast("Table", value), struct)
        case ((inspect.VarTupleType() | inspect.ListType()), list()):
            inner = get_args(annotation)[0]
            parts = [_valid_part(one, inner) for one in cast("Array", value)]
            return None if any(any(check_shape(part, inner)) for part in parts) else parts
        case _:
            return None if any(check_shape(value, annotation)) else value


def _struct_of(info: inspect.Type) -> type[Struct] | None:
    """Return the struct of a table, which may be one of several types of a value."""
    types = info.types if isinstance(info, inspect.UnionType) else (info,)
    return next((one.cls for one in types if isinstance(one, inspect.StructType)), None)


def _unknown_key(key: str, struct: type[Struct], known: list[str], path: str) -> str:
    if new_name := RENAMED_KEYS.get(struct, {}).get(key):
        return f"{path}: renamed to {new_name}"
    similar = get_close_matches(key, known, n=1)
    hint = f" (did you mean {similar[0]}?)" if similar else ""
    return f"{path}: unknown key{hint}; known keys: {', '.join(known)}"


def _invalid_value(value: object, annotation: object, path: str) -> str:
    key = _LAST_KEY.search(path)
    renamed = RENAMED_VALUES.get(key[1] if key else "", {})
    if isinstance(value, str) and value in renamed:
        return f"{path}: {quoted(value)} was renamed to {quoted(renamed[value])}"
    return f"{path}: expected {describe(annotation)}, got {preview(value, path)}"


def _without_none(annotation: object) -> object:
    first, *others = (one for one in get_args(annotation) if one is not NoneType)
    for other in others:
        first = first | other
    return first


def _is_valid(value: object, annotation: object) -> bool:
    # msgspec accepts infinity and NaN as numbers within any range.
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return True


def key_path(path: str, key: str) -> str:
    """Return the path of a key in a table: `server.port`, or `backends[0] "local": url`."""
    key = key if _BARE_KEY.fullmatch(key) else quoted(key)
    if not path:
        return key
    separator = ": " if path.endswith(('"', "]")) else "."
    return f"{path}{separator}{key}"


def element_path(path: str, index: int, element: object) -> str:
    """Return the path of an array's element, followed by the element's name if it has one."""
    match element:
        case {"name": str(name)}:
            return f"{path}[{index}] {quoted(name)}"
        case _:
            return f"{path}[{index}]"


def quoted(text: str) -> str:
    """Write a string as TOML does."""
    return msgspec.json.encode(text).decode()


def one_of(values: Iterable[str]) -> str:
    """Write a list of allowed strings."""
    return "one of " + ", ".join(map(quoted, values))


def describe(annotation: object) -> str:
    """Describe the values that an annotation allows."""
    return _describe(inspect.type_info(annotation))


def preview(value: object, path: str) -> str:
    """Describe a value for an error message, without possible secrets."""
    match value:
        case dict():
            return "a table"
        case list():
            return "an array"
        case _ if _SECRET.search(path):
            return "a value that is not shown because it may be a secret"
        case str():
            text = _URL_USER.sub("//…@", value).partition("?")[0]
            if len(text) > _MAX_PREVIEW_LENGTH:
                text = f"{text[:_MAX_PREVIEW_LENGTH]}…"
            return quoted(text)
        case bool() | int() | float():
            return str(value).lower()
        case _:
            return f"the date {value}"


def _describe(info: inspect.Type) -> str:  # noqa: PLR0911 - one return for each type in use
    match info:
        case inspect.Metadata(extra_json_schema={"description": str(description)}):
            return description
        case inspect.IntType(ge=minimum, le=maximum):
            return "an integer" + _range(minimum, maximum)
        case inspect.FloatType(ge=minimum, le=maximum):
            return "a number" + _range(minimum, maximum)
        case inspect.LiteralType(values=values):
            return one_of(map(str, values))
        case inspect.VarTupleType(item_type=inspect.StructType()):
            return "an array of tables, each headed by [[…]]"
        case inspect.UnionType(types=types):
            optional = (one for one in types if not isinstance(one, inspect.NoneType))
            return " or ".join(map(_describe, optional))
        case _:
            return _TYPE_NAMES.get(type(info), "a table")


def _range(minimum: float | None, maximum: float | None) -> str:
    if minimum is None:
        return ""
    return f" of at least {minimum}" if maximum is None else f" from {minimum} to {maximum}"
