"""A short way for plain items: read in one step, by the shape that nearly all of them have.

What has any other shape, or any field more, is read the long way, which is lenient and misses
nothing; both give the same items.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.conversation import Call, Item, Message, Output, Role, Status, Text
from adapters.jsontext import UNDECODABLE

Said = Annotated[str, Meta(min_length=1)]


class PlainText(Struct, gc=False, forbid_unknown_fields=True):
    """A text part."""

    type: Literal["input_text", "output_text"]
    text: str


class PlainMessage(Struct, tag_field="type", tag="message", gc=False, forbid_unknown_fields=True):
    """A message of nothing but text."""

    role: Role
    content: str | tuple[PlainText, ...]
    id: str | None = None
    status: Status | None = None


class PlainCall(
    Struct, tag_field="type", tag="function_call", gc=False, forbid_unknown_fields=True
):
    """A call with all that it should have."""

    call_id: Said
    name: str
    arguments: str
    id: str | None = None
    status: Status | None = None


class PlainOutput(
    Struct, tag_field="type", tag="function_call_output", gc=False, forbid_unknown_fields=True
):
    """An output that is a string."""

    call_id: Said
    output: str
    id: str | None = None
    status: Status | None = None


_DECODER: Decoder[PlainMessage | PlainCall | PlainOutput] = Decoder(
    PlainMessage | PlainCall | PlainOutput
)


def read_plain(raw: Raw) -> Item | None:
    """Read a plain item; None if it is not one."""
    try:
        plain = _DECODER.decode(raw)
    except UNDECODABLE:
        return None
    match plain:
        case PlainMessage(content=said):
            parts = (said,) if isinstance(said, str) else (part.text for part in said)
            content = tuple(map(Text, parts))
            return Message(plain.role, content, item_id=plain.id, status=plain.status)
        case PlainCall():
            return Call(
                plain.call_id, plain.name, plain.arguments, item_id=plain.id, status=plain.status
            )
        case PlainOutput():
            if plain.output.startswith("[{"):
                # It may be a list of parts as a string.
                return None
            return Output(plain.call_id, plain.output, item_id=plain.id, status=plain.status)
