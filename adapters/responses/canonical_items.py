"""The forms of the items and responses that a Responses client can receive as they are.

They have the fields without which clients fail, and values that clients accept. All other fields,
and items of other types, may have any form.
"""

import re
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.json import Decoder

from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import NULL

Filled = Annotated[str, Meta(min_length=1)]
_EmptyList = Annotated[list[Raw], Meta(max_length=0)]
_OptionalText: TypeAlias = str | UnsetType


class _Object(Struct, gc=False):
    """An object with any fields."""


class Part(Struct, gc=False):
    """A part of a message or of reasoning."""

    type: str
    text: _OptionalText = UNSET
    refusal: _OptionalText = UNSET
    annotations: list[_Object] | UnsetType = UNSET

    def is_canonical(self) -> bool:
        """Whether the part has the fields of its type; true for an unknown type."""
        match self.type:
            case "output_text":
                return self.text is not UNSET and self.annotations is not UNSET
            case "summary_text" | "reasoning_text":
                return self.text is not UNSET
            case "refusal":
                return self.refusal is not UNSET
            case _:
                return True

    def is_empty(self) -> bool:
        """Whether the part has neither text nor annotations."""
        return not (self.text or self.refusal or self.annotations)


class Item(Struct, gc=False):
    """An item of any type."""

    id: Filled

    def kind(self) -> object:
        """Return the type of the item."""
        return self.__struct_config__.tag

    def parts(self) -> list[Part]:
        """Return the parts of the item."""
        return []


class _OtherItem(Item, gc=False, kw_only=True):
    """An item of a type without rules."""

    type: str

    def kind(self) -> object:
        return self.type


class NamedItem(Item, gc=False, tag_field="type", tag="", kw_only=True):
    """A call of a function or of a custom tool."""

    call_id: Filled
    name: Filled
    namespace: _OptionalText = UNSET

    def lacks_arguments(self) -> bool:
        """Whether the item is a complete call of a function without arguments."""
        return False


# Items that begin


class _AddedMessage(Item, gc=False, tag_field="type", tag="message", kw_only=True):
    role: Literal["assistant"]
    content: _EmptyList
    status: Literal["in_progress"]


class _AddedFunctionCall(NamedItem, gc=False, tag="function_call", kw_only=True):
    arguments: Literal[""]
    status: Literal["in_progress"] | UnsetType = UNSET


class _AddedCustomCall(NamedItem, gc=False, tag="custom_tool_call", kw_only=True):
    input: Literal[""]
    status: Literal["in_progress"] | UnsetType = UNSET


class _AddedReasoning(Item, gc=False, tag_field="type", tag="reasoning", kw_only=True):
    summary: _EmptyList
    content: _EmptyList | None = None


_AddedItem: TypeAlias = _AddedMessage | _AddedFunctionCall | _AddedCustomCall | _AddedReasoning

# Items that are complete

_CallStatus = Literal["completed", "incomplete", "in_progress"]


class _Message(Item, gc=False, tag_field="type", tag="message", kw_only=True):
    role: Literal["assistant"]
    content: list[Part]
    status: Literal["completed", "incomplete"]

    def parts(self) -> list[Part]:
        return self.content


class _FunctionCall(NamedItem, gc=False, tag="function_call", kw_only=True):
    arguments: str
    status: _CallStatus | UnsetType = UNSET

    def lacks_arguments(self) -> bool:
        return self.status != "incomplete" and not self.arguments.strip()


class _CustomCall(NamedItem, gc=False, tag="custom_tool_call", kw_only=True):
    input: str
    status: _CallStatus | UnsetType = UNSET


class _Reasoning(Item, gc=False, tag_field="type", tag="reasoning", kw_only=True):
    summary: list[Part]
    content: list[Part] | None = None

    def parts(self) -> list[Part]:
        return [*self.summary, *(self.content or ())]


_CompleteItem: TypeAlias = _Message | _FunctionCall | _CustomCall | _Reasoning


class _Type(Struct, gc=False):
    type: str


_TYPE = Decoder(_Type)
_OTHER = Decoder(_OtherItem)
_ADDED: Decoder[_AddedItem] = Decoder(_AddedItem)
_COMPLETE: Decoder[_CompleteItem] = Decoder(_CompleteItem)
_RULED_TYPES = ("message", "function_call", "custom_tool_call", "reasoning")
_PART = Decoder(Part)
# The types of items with one streamed text, the arguments.
STREAMED_CALLS = ("function_call", "custom_tool_call")


def read_added(raw: Raw) -> Item | None:
    """Read an item that begins; None if clients cannot receive it as it is."""
    try:
        return _ADDED.decode(raw)
    except DECODE_ERRORS:
        return _read_other(raw)


def read_complete(raw: Raw) -> Item | None:
    """Read a complete item; None if clients cannot receive it as it is."""
    try:
        item = _COMPLETE.decode(raw)
    except DECODE_ERRORS:
        return _read_other(raw)
    return item if has_canonical_parts(item) else None


def has_canonical_parts(item: Item) -> bool:
    """Whether all parts of an item have the fields of their types."""
    return all(part.is_canonical() for part in item.parts())


def _read_other(raw: Raw) -> Item | None:
    try:
        item = _OTHER.decode(raw)
    except DECODE_ERRORS:
        return None
    return None if item.type in _RULED_TYPES else item


_FIELD = re.compile(r"`\$\.(\w+)|field `(\w+)`")


def fault_in_added(raw: Raw) -> str:
    """Return what is wrong with an item that begins."""
    return _fault(raw, _ADDED)


def fault_in_complete(raw: Raw) -> str:
    """Return what is wrong with a complete item."""
    return _fault(raw, _COMPLETE)


def _fault(raw: Raw, decoder: Decoder[_AddedItem] | Decoder[_CompleteItem]) -> str:
    try:
        (decoder if read_type(raw) in _RULED_TYPES else _OTHER).decode(raw)
    except DECODE_ERRORS as error:
        match = _FIELD.search(str(error))
        field = "a field" if match is None else match[1] or match[2]
        return f"{field} is missing or invalid; corrected"
    return "a field of a part is missing or invalid; corrected"


def read_type(raw: Raw) -> str:
    """Return the type of an item or a part; "" if it has none."""
    try:
        return _TYPE.decode(raw).type
    except DECODE_ERRORS:
        return ""


def read_part(raw: Raw) -> Part | None:
    """Read a part; None if clients cannot receive it as it is."""
    try:
        part = _PART.decode(raw)
    except DECODE_ERRORS:
        return None
    return part if part.is_canonical() else None


# The response object


class BegunResponse(Struct, gc=False):
    """A response that has begun."""

    id: Filled
    status: Literal["in_progress", "queued"]
    created_at: float
    model: Filled
    output: _EmptyList


class _IncompleteDetails(Struct, gc=False):
    reason: Filled


class _InputDetails(Struct, gc=False):
    cached_tokens: int


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: int


class _Usage(Struct, gc=False):
    input_tokens: int
    input_tokens_details: _InputDetails
    output_tokens: int
    output_tokens_details: _OutputDetails
    total_tokens: int


class EndedResponse(Struct, gc=False):
    """A response that is complete or truncated."""

    id: Filled
    status: Literal["completed", "incomplete"]
    created_at: float
    model: Filled
    output: Raw
    incomplete_details: _IncompleteDetails | None = None
    object: Literal["response"] | UnsetType = UNSET
    usage: Raw = NULL


class FailedResponse(Struct, gc=False):
    """A response that failed."""

    id: Filled
    status: Literal["failed"]
    error: _Object


class TypicalResponse(Struct, gc=False):
    """A complete response with messages, reasoning and calls."""

    id: Filled
    object: Literal["response"]
    status: Literal["completed"]
    created_at: float
    model: Filled
    output: list[_CompleteItem]
    incomplete_details: None = None
    usage: _Usage | None = None


TYPICAL = Decoder(TypicalResponse)
BEGUN = Decoder(BegunResponse)
ENDED = Decoder(EndedResponse)
FAILED = Decoder(FailedResponse)
_USAGE = Decoder(_Usage | None)


def has_counts(usage: Raw) -> bool:
    """Whether a usage has all token counts that clients expect."""
    try:
        _USAGE.decode(usage)
    except DECODE_ERRORS:
        return False
    return True
