"""The options `--profile NAME` and `--capability NAME=VALUE`: what the backend takes."""

from types import NoneType
from typing import get_args, get_origin

import msgspec
import rich_click as click
from msgspec.structs import FieldInfo

from adapters import Capabilities
from adapters.capabilities import GENERIC
from adapters.profiles import PROFILES

_FIELDS = {field.name: field for field in msgspec.structs.fields(Capabilities)}
_NOTHING = ("null", "none", "")
# Where the context keeps the profile.
_PROFILE = f"{__name__}.profile"


def read_profile(context: click.Context, _option: click.Parameter, name: str | None) -> None:
    """Remember which bundle the single capabilities are to change."""
    context.meta[_PROFILE] = GENERIC if name is None else PROFILES[name]


def read_capabilities(
    context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> Capabilities:
    """Read all that were given; of one given twice the last counts."""
    profile: Capabilities = context.meta[_PROFILE]
    return msgspec.structs.replace(profile, **dict(map(_read_capability, given)))


def _read_capability(given: str) -> tuple[str, object]:
    name, equals, value = given.partition("=")
    field = _FIELDS.get(name.strip())
    if field is None:
        legal = ", ".join(map(_describe, _FIELDS.values()))
        raise click.BadParameter(f"there is no capability {name!r}; there are: {legal}")
    if not equals:
        raise click.BadParameter(f"{name} needs a value: {_describe(field)}")
    return field.name, _read_value(field, value.strip())


def _read_value(field: FieldInfo, value: str) -> object:
    """Read a value as the word that it is, or as JSON where a word will not do."""
    if value.lower() in _NOTHING and NoneType in get_args(field.type):
        return None
    words = value.split(",") if _is_list(field.type) and not value.startswith("[") else value
    try:
        return msgspec.convert(words, field.type, strict=False)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.json.decode(value, type=field.type)
    except (msgspec.DecodeError, RecursionError):
        raise click.BadParameter(f"{value!r} will not do for {_describe(field)}") from None


def _describe(field: FieldInfo) -> str:
    return f"{field.name}={_legal_values(field.type)}"


def _legal_values(kind: object) -> str:
    """Say in a word what may be given."""
    if kind is bool:
        return "true|false"
    if kind is int:
        return "NUMBER"
    if _is_list(kind):
        return "WORD,WORD,…"
    words = [word for word in get_args(kind) if isinstance(word, str)]
    if words:
        return "|".join(words)
    return "TEXT|null" if kind == str | None else "JSON"


def _is_list(kind: object) -> bool:
    return any(get_origin(one) is tuple for one in (kind, *get_args(kind)))
