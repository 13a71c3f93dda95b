"""What is legal, and what was given, in plain words."""

import re
from collections.abc import Iterable

import msgspec
from msgspec import inspect

# TOML takes these without quotes.
_BARE = re.compile(r"[A-Za-z0-9_-]+")
# Where people put keys, by mistake or because they belong there.
_SECRET = re.compile(r"\b(sha256|api_key_env|key_env|older_key_envs|headers)\b")
_USER = re.compile(r"//[^/\s]*@")
_LONGEST = 80

_PLAIN: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "a text",
    inspect.VarTupleType: "a list",
}


def key_name(key: str) -> str:
    """Write a key as TOML does."""
    return key if _BARE.fullmatch(key) else quoted(key)


def quoted(text: str) -> str:
    """Write a text as TOML does."""
    return msgspec.json.encode(text).decode()


def one_of(words: Iterable[str]) -> str:
    """List the words that are legal."""
    return "one of " + ", ".join(map(quoted, words))


def expected(kind: object) -> str:
    """Say what may be given for an annotation."""
    return f"expected {_legal(inspect.type_info(kind))}"


def preview_value(value: object, place: str) -> str:
    """Show what was given at a place, unless it may be a secret."""
    match value:
        case dict():
            return "a table"
        case list():
            return "a list"
        case _ if _SECRET.search(place):
            return "something else (not shown: it may be a secret)"
        case str():
            text = _USER.sub("//…@", value).partition("?")[0]
            return quoted(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
        case bool() | int() | float():
            return str(value).lower()
        case _:
            return f"the date {value}"


def _legal(kind: inspect.Type) -> str:  # noqa: PLR0911 - one for each type that is used
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(words)}):
            return words
        case inspect.IntType(ge=lowest, le=highest):
            return "a whole number" + _range(lowest, highest)
        case inspect.FloatType(ge=lowest, le=highest):
            return "a number" + _range(lowest, highest)
        case inspect.LiteralType(values=values):
            return one_of(map(str, values))
        case inspect.VarTupleType(item_type=inspect.StructType()):
            return "a list of tables, each in [[ ]]"
        case inspect.UnionType(types=types):
            return " or ".join(_legal(one) for one in types if not _is_none(one))
        case _:
            return _PLAIN.get(type(kind), "a table")


def _is_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.NoneType)


def _range(lowest: float | None, highest: float | None) -> str:
    match lowest, highest:
        case None, None:
            return ""
        case _, None:
            return f", {lowest} or more"
        case None, _:
            return f", {highest} or less"
        case _:
            return f" from {lowest} to {highest}"
