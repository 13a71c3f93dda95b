"""A short way for plain functions: read in one step, by the shape that nearly all of them have.

What has any other shape, or any field more, is read the long way, which is lenient and misses
nothing; both give the same tools.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.ir.types import Family, FunctionTool
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, is_present


class PlainFunction(Struct, gc=False, forbid_unknown_fields=True):
    """A function, as Chat wraps it."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: Raw = MISSING
    strict: bool | None = None


class Flat(PlainFunction, tag_field="type", tag="function", gc=False, forbid_unknown_fields=True):
    """A function, as the Responses API has it."""


class Nested(Struct, gc=False, forbid_unknown_fields=True):
    """The wrapper."""

    type: Literal["function"]
    function: PlainFunction


_FLAT = Decoder(Flat)
_NESTED = Decoder(Nested)


def read_typical_function(raw: Raw, family: Family) -> FunctionTool | None:
    """Read a plain function; None if it is not one."""
    try:
        plain = _FLAT.decode(raw) if family == "responses" else _NESTED.decode(raw).function
    except DECODE_ERRORS:
        return None
    parameters = plain.parameters if is_present(plain.parameters) else None
    return FunctionTool(plain.name, plain.description, parameters, plain.strict)
