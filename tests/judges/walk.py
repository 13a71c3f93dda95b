"""Values of the openai package's types, for every field at every place where it occurs.

A walk is deterministic: a field is walked with each member of its union and with several values of
each simple type, while everything around it has only what is required. A class is not walked again
inside itself.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Literal, NotRequired, Required, Union, cast, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel
from typing_extensions import TypeAliasType, get_type_hints, is_typeddict

from adapters.conformance import Json, Object

# The place of a value inside another: names of fields and indices of lists.
Path = tuple[str | int, ...]

_VALUES: dict[object, tuple[Json, ...]] = {
    str: ("some", "other"),
    int: (3, 0),
    float: (0.5, 0.0),
    bool: (True, False),
    object: ("any", {"any": [1]}),
}


class Sample(Struct, frozen=True):
    """A value with one field of interest."""

    value: Json
    path: Path
    # The class and the name of the field.
    owner: type
    field: str

    @property
    def is_required(self) -> bool:
        return self.field in required_fields(self.owner)

    @property
    def name(self) -> str:
        """Return the class with its field, as in lists of exceptions."""
        return f"{self.owner.__name__}.{self.field}"


def dotted(path: Path) -> str:
    """Return a path as losses write it."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def without(value: Json, path: Path) -> Json:
    """Return a copy of a value without the part at a path."""
    first, *rest = path
    if isinstance(value, list):
        at = int(first)
        kept = [without(value[at], tuple(rest))] if rest else []
        return [*value[:at], *kept, *value[at + 1 :]]
    assert isinstance(value, dict)
    copy = dict(value)
    removed = copy.pop(str(first))
    return {**copy, str(first): without(removed, tuple(rest))} if rest else copy


def replaced(value: Json, path: Path) -> Json:
    """Return a copy of a value with another value at a path; lists and objects are emptied."""
    if not path:
        return _other(value)
    first, *rest = path
    if isinstance(value, list):
        at = int(first)
        return [*value[:at], replaced(value[at], tuple(rest)), *value[at + 1 :]]
    assert isinstance(value, dict)
    return {**value, str(first): replaced(value[str(first)], tuple(rest))}


def _other(value: Json) -> Json:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}_2"
        case list():
            return []
        case _:
            return {}


def value_at(value: Json, path: Path) -> Json:
    """Return the part of a value at a path."""
    for step in path:
        if isinstance(value, list):
            value = value[int(step)]
        else:
            assert isinstance(value, dict)
            value = value[str(step)]
    return value


# Types


def is_object(hint: object) -> bool:
    """Whether a type is a class of JSON objects."""
    return isinstance(hint, type) and (is_typeddict(hint) or issubclass(hint, BaseModel))


@cache
def fields_of(owner: type) -> Mapping[str, object]:
    """Return the names and types of the fields of a class."""
    if is_typeddict(owner):
        return dict(get_type_hints(owner, include_extras=True))
    fields = cast("type[BaseModel]", owner).model_fields
    return {field.alias or name: field.annotation for name, field in fields.items()}


@cache
def required_fields(owner: type) -> frozenset[str]:
    """Return the names of the required fields of a class."""
    if is_typeddict(owner):
        hints = fields_of(owner).items()
        return frozenset(name for name, hint in hints if get_origin(hint) is Required)
    fields = cast("type[BaseModel]", owner).model_fields
    return frozenset(field.alias or name for name, field in fields.items() if field.is_required())


def members(hint: object) -> list[object]:
    """Return the members of a union other than null, or the type itself."""
    while get_origin(hint) in (Required, NotRequired, Annotated):
        hint = get_args(hint)[0]
    if isinstance(hint, TypeAliasType):
        return members(hint.__value__)
    if get_origin(hint) not in (Union, UnionType):
        return [hint]
    return [one for arg in get_args(hint) for one in members(arg) if one is not NoneType]


# Values


@cache
def simple(hint: object) -> tuple[Json, ...]:
    """Return the values of a type that is neither an object nor contains objects."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return _VALUES[hint]


class Walk:
    """Values of types, with prepared values for fields whose types allow more than makes sense."""

    def __init__(
        self, prepared: Mapping[str, Json], *, complete: bool = False, apart: Collection[str] = ()
    ) -> None:
        # By the class and the name of a field.
        self._prepared = prepared
        # Whether the objects around a field have all fields, except those that are listed because
        # they exclude others. The outermost object always has only its required fields.
        self._complete = complete
        self._apart = apart

    def minimal(self, hint: object) -> Json:
        """Return a value of a type: the first member of a union, the required fields of a class."""
        first = members(hint)[0]
        if is_object(first):
            return self.minimal_object(cast("type", first))
        arguments = get_args(first)
        if get_origin(first) is dict:
            return {"key": self.minimal(arguments[1])}
        if get_origin(first) in (None, Literal):
            return simple(first)[0]
        return [self.minimal(arguments[0])]

    def minimal_object(self, owner: type) -> Object:
        """Return the required fields of a class."""
        fields = fields_of(owner)
        return {name: self.field(owner, name) for name in fields if name in required_fields(owner)}

    def complete_object(self, owner: type) -> Object:
        """Return all fields of a class that may be together."""
        names = [name for name in fields_of(owner) if f"{owner.__name__}.{name}" not in self._apart]
        return {name: self.field(owner, name) for name in names}

    def field(self, owner: type, name: str) -> Json:
        """Return the smallest value of a field."""
        prepared = self._prepared.get(f"{owner.__name__}.{name}")
        return self.minimal(fields_of(owner)[name]) if prepared is None else prepared

    def samples(self, owner: type, inside: tuple[type, ...] = ()) -> Iterator[Sample]:
        """Yield each field of a class, and those of the objects inside it."""
        if owner in inside:
            return
        is_complete = self._complete and inside
        base = self.complete_object(owner) if is_complete else self.minimal_object(owner)
        for name, hint in fields_of(owner).items():
            prepared = self._prepared.get(f"{owner.__name__}.{name}")
            values = (
                self._values(hint, (*inside, owner)) if prepared is None else [(prepared, None)]
            )
            for value, inner in values:
                placed = {**base, name: value}
                if inner is None:
                    yield Sample(placed, (name,), owner, name)
                else:
                    yield Sample(placed, (name, *inner.path), inner.owner, inner.field)

    def _values(
        self, hint: object, inside: tuple[type, ...]
    ) -> Iterator[tuple[Json, Sample | None]]:
        """Yield the values of a type; those with a field of interest have it as a sample."""
        for member in members(hint):
            arguments = get_args(member)
            if is_object(member):
                yield self.minimal_object(cast("type", member)), None
                for sample in self.samples(cast("type", member), inside):
                    yield sample.value, sample
            elif get_origin(member) is dict:
                for value, inner in self._values(arguments[1], inside):
                    yield {"key": value}, inner and _at("key", inner)
            elif get_origin(member) in (None, Literal):
                yield from ((value, None) for value in simple(member))
            else:
                for value, inner in self._values(arguments[0], inside):
                    yield [value], inner and _at(0, inner)


def _at(step: str | int, sample: Sample) -> Sample:
    return Sample(sample.value, (step, *sample.path), sample.owner, sample.field)
