"""A short way for plain functions: read in one step, by the shape that nearly all of them have.

What has any other shape, or any field more, is read the long way, which is lenient and misses
nothing; both give the same tools.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.conversation import Family, Function
from adapters.fields import ABSENT, is_said
from adapters.jsontext import UNDECODABLE


class PlainFunction(Struct, gc=False, forbid_unknown_fields=True):
    """A function, as Chat wraps it."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: Raw = ABSENT
    strict: bool | None = None


class Flat(PlainFunction, tag_field="type", tag="function", gc=False, forbid_unknown_fields=True):
    """A function, as the Responses API has it."""


class Nested(Struct, gc=False, forbid_unknown_fields=True):
    """The wrapper."""

    type: Literal["function"]
    function: PlainFunction


_FLAT = Decoder(Flat)
_NESTED = Decoder(Nested)


def read_plain(raw: Raw, family: Family) -> Function | None:
    """Read a plain function; None if it is not one."""
    try:
        plain = _FLAT.decode(raw) if family == "responses" else _NESTED.decode(raw).function
    except UNDECODABLE:
        return None
    parameters = plain.parameters if is_said(plain.parameters) else None
    return Function(plain.name, plain.description, parameters, plain.strict)
