"""The openai package's types as strict validators, with errors that a person can read."""

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import pydantic_core
from openai import BaseModel
from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, SchemaValidator

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]

# The fields that tell the members of a union apart.
TAGS = frozenset({"type", "role", "object"})
SHOWN = 8


def validate(model: type[Model], body: bytes | str) -> Model:
    """Validate one reply, chunk or event; fields beyond the type are allowed, as the SDK does."""
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise AssertionError(explain(model.__name__, error)) from error


def exact_validator(params: type) -> SchemaValidator:
    """Build a validator of a request's TypedDict, one that refuses fields it does not know.

    pydantic reads `Iterable` lazily, so that nothing inside one is ever checked and even a string
    passes for a list of parts; and it ignores unknown keys, which the service answers with 400.
    """
    return SchemaValidator(cast("CoreSchema", _exact(TypeAdapter(params).core_schema)))


def _exact(schema: object) -> object:
    if isinstance(schema, list | tuple):
        return [_exact(part) for part in cast("Sequence[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    exact = {name: _exact(value) for name, value in cast("dict[str, object]", schema).items()}
    match exact.get("type"):
        case "generator":
            exact["type"] = "list"
        case "typed-dict":
            exact["extra_behavior"] = "forbid"
        case _:
            pass
    return exact


def check_exactly(name: str, validator: SchemaValidator, value: object) -> None:
    """Run an exact validator over decoded JSON."""
    try:
        # As JSON, because strict validation of Python values refuses a list for a tuple.
        validator.validate_json(pydantic_core.to_json(value), strict=True)
    except ValidationError as error:
        raise AssertionError(explain(name, error)) from error


def explain(name: str, error: ValidationError) -> str:
    """Return the errors, without those of union members with another tag."""
    details = error.errors()
    wrong_tags = [detail for detail in details if _is_wrong_tag(detail)]
    unmeant = {detail["loc"][:-1] for detail in wrong_tags}
    meant = [detail for detail in details if not _is_under(detail["loc"], unmeant)]
    lines = [f"{_path(detail['loc'])}: {detail['msg']}" for detail in meant]
    lines += _unknown_tags(wrong_tags, unmeant, [detail["loc"] for detail in meant])
    if len(lines) > SHOWN:
        lines[SHOWN:] = [f"and {len(lines) - SHOWN} more"]
    return f"not a {name}:\n  " + "\n  ".join(lines)


def _is_wrong_tag(detail: ErrorDetails) -> bool:
    # The last two steps are the member of a union and its tag.
    where = detail["loc"]
    return len(where) > 1 and where[-1] in TAGS and detail["type"] in {"literal_error", "missing"}


def _unknown_tags(
    wrong_tags: list[ErrorDetails], unmeant: set[Location], meant: list[Location]
) -> list[str]:
    """Return the places where no member of the union has the tag."""
    lines: set[str] = set()
    for detail in wrong_tags:
        union, tag = detail["loc"][:-2], detail["loc"][-1]
        if not _is_under(union, unmeant) and not any(_is_under(loc, {union}) for loc in meant):
            given = "none" if detail["type"] == "missing" else repr(detail["input"])
            lines.add(f"{_path(union)}: no such {tag}: {given}")
    return sorted(lines)


def _is_under(where: Location, prefixes: Iterable[Location]) -> bool:
    return any(where[: len(prefix)] == prefix for prefix in prefixes)


def _path(where: Location) -> str:
    # pydantic spells out a list's whole union as one step of the path.
    steps = (str(step) for step in where)
    return ".".join(step for step in steps if not step.startswith("list["))
