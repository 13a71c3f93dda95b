"""A short way for plain items: read in one step, by the shape that nearly all of them have.

What has any other shape, or any field more, is read the long way, which is lenient and misses
nothing; both give the same items.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.ir.types import Image, Item, Message, Role, Status, Text, ToolCall, ToolOutput
from adapters.json_text import DECODE_ERRORS

Said = Annotated[str, Meta(min_length=1)]


class PlainInput(Struct, tag_field="type", tag="input_text", gc=False, forbid_unknown_fields=True):
    """A text that was given."""

    text: str


class PlainAnswer(
    Struct, tag_field="type", tag="output_text", gc=False, forbid_unknown_fields=True
):
    """A text that was answered."""

    text: str


class PlainImage(Struct, tag_field="type", tag="input_image", gc=False, forbid_unknown_fields=True):
    """A picture, by its address."""

    image_url: str
    detail: str | None = None


class PlainMessage(Struct, tag_field="type", tag="message", gc=False, forbid_unknown_fields=True):
    """A message of texts and pictures."""

    role: Role
    content: str | tuple[PlainInput | PlainAnswer | PlainImage, ...]
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
    except DECODE_ERRORS:
        return None
    match plain:
        case PlainMessage(content=said):
            content = (Text(said),) if isinstance(said, str) else tuple(map(_read_part, said))
            return Message(plain.role, content, item_id=plain.id, status=plain.status)
        case PlainCall():
            return ToolCall(
                plain.call_id, plain.name, plain.arguments, item_id=plain.id, status=plain.status
            )
        case PlainOutput():
            if plain.output.startswith("[{"):
                # It may be a list of parts as a string.
                return None
            return ToolOutput(plain.call_id, plain.output, item_id=plain.id, status=plain.status)


def _read_part(part: PlainInput | PlainAnswer | PlainImage) -> Text | Image:
    if isinstance(part, PlainImage):
        return Image(part.image_url, detail=part.detail or None)
    return Text(part.text)
