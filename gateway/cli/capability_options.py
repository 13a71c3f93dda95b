"""The options `--profile NAME` and `--capability NAME=VALUE`."""

from types import NoneType
from typing import get_args, get_origin

import msgspec
import rich_click as click
from msgspec.structs import FieldInfo

from adapters import Capabilities
from adapters.model_rules import BackendCapabilities

_FIELDS = {field.name: field for field in msgspec.structs.fields(Capabilities)}
_NULL = ("null", "none", "")
# The key of the profile in the context.
_PROFILE = f"{__name__}.profile"


def read_profile(context: click.Context, _option: click.Parameter, name: str | None) -> None:
    """Store the profile that is the base of `read_capabilities`."""
    context.meta[_PROFILE] = name


def read_capabilities(
    context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> BackendCapabilities:
    """Return the profile with the given capabilities; the last value of a repeated one counts."""
    profile: str | None = context.meta[_PROFILE]
    return BackendCapabilities(profile, dict(map(_read_capability, values)))


def _read_capability(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    field = _FIELDS.get(name.strip())
    if field is None:
        known = ", ".join(map(_describe, _FIELDS.values()))
        raise click.BadParameter(f"unknown capability {name!r}; known are: {known}")
    if not equals:
        raise click.BadParameter(f"{name} needs a value: {_describe(field)}")
    return field.name, _read_value(field, value.strip())


def _read_value(field: FieldInfo, text: str) -> object:
    """Convert a plain value, or decode it as JSON if it cannot be converted."""
    if text.lower() in _NULL and NoneType in get_args(field.type):
        return None
    plain = text.split(",") if _is_list(field.type) and not text.startswith("[") else text
    try:
        return msgspec.convert(plain, field.type, strict=False)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.json.decode(text, type=field.type)
    except (msgspec.DecodeError, RecursionError):
        raise click.BadParameter(f"invalid value {text!r} for {_describe(field)}") from None


def _describe(field: FieldInfo) -> str:
    return f"{field.name}={_describe_type(field.type)}"


def _describe_type(of: object) -> str:
    if of is bool:
        return "true|false"
    if of is int:
        return "NUMBER"
    if _is_list(of):
        return "WORD,WORD,…"
    choices = [choice for choice in get_args(of) if isinstance(choice, str)]
    if choices:
        return "|".join(choices)
    return "TEXT|null" if of == str | None else "JSON"


def _is_list(of: object) -> bool:
    return any(get_origin(member) is tuple for member in (of, *get_args(of)))
