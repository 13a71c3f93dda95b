"""Reads the items of the Responses API: of a request's input and of a reply's output alike."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.errors import InvalidRequestError
from adapters.ids import StableIds
from adapters.ir.types import (
    CallKind,
    File,
    Image,
    Item,
    ItemReference,
    Message,
    OpaqueItem,
    Part,
    Reasoning,
    Role,
    Status,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.responses.client_tools import read_arguments, read_output, runs_on_client
from adapters.responses.wire import ALL_CALL_NAMES, CALL_KINDS, CALLS, OUTPUT_KINDS
from adapters.wire.content import read_content
from adapters.wire.extra_fields import DropPolicy, unread_fields
from adapters.wire.json_object import InputItem, JsonObject, decode, read_fields, string_or_raw_json

# A short way for plain items: read in one step, by the shape that nearly all of them have.
#
# What has any other shape, or any field more, is read the long way, which is lenient and misses
# nothing; both give the same items.


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


Placed = tuple[Item, str]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}
_STATUSES: dict[str, Status] = {
    "in_progress": "in_progress",
    "completed": "completed",
    "incomplete": "incomplete",
}
_RAWS = msgspec.json.Decoder(list[Raw])

# What only this API says of an item, and how little of it others miss.
_ONLY_HERE = {
    "caller": DropPolicy(None),
    "created_by": DropPolicy(None),
    "execution": DropPolicy(None),
    "pending_safety_checks": DropPolicy("capability"),
}


def read_items(
    items: Iterable[InputItem], losses: Losses, *, short_way: bool = True
) -> Iterator[Placed]:
    """Read a list of items, each with its path in the client's request."""
    name_call = StableIds()
    seen: dict[str, Item] = {}
    for given in items:
        raw, path = given.raw, given.path
        plain = read_plain(raw) if short_way else None
        item = plain or read_item(raw, path, name_call)
        if _is_repeated(item, seen):
            losses.dropped(path, "the same item, under the same id, came before")
        else:
            yield item, path


def _is_repeated(item: Item, seen: dict[str, Item]) -> bool:
    """Tell whether a client sent an item twice (P062); one id for two items is no repeat."""
    item_id = item.item_id
    if item_id is None or isinstance(item, ItemReference):
        return False
    return seen.setdefault(item_id, item) is not item and seen[item_id] == item


def read_item(raw: Raw, path: str, name_call: Callable[[str, str], str]) -> Item:
    """Read one item."""
    fields = read_fields(raw, path)
    kind = fields.string("type") or _guess_kind(fields)
    if kind == "message":
        return _read_message(fields)
    if kind in CALL_KINDS and runs_on_client(fields, CALL_KINDS[kind]):
        return _read_call(fields, CALL_KINDS[kind], name_call)
    if kind in OUTPUT_KINDS and runs_on_client(fields, OUTPUT_KINDS[kind]):
        return _read_output(fields, OUTPUT_KINDS[kind])
    if kind == "reasoning":
        return _read_reasoning(fields)
    item_id = fields.string("id")
    if kind == "item_reference":
        return ItemReference(item_id or "")
    return OpaqueItem("responses", kind, raw, item_id)


def read_output_item(raw: Raw, path: str, name_call: Callable[[str, str], str]) -> Item:
    """Read one item of an answer; outputs and references are no words of a model."""
    item = read_item(raw, path, name_call)
    if isinstance(item, ToolOutput | ItemReference):
        kind = (
            ALL_CALL_NAMES[item.kind].output if isinstance(item, ToolOutput) else "item_reference"
        )
        return OpaqueItem("responses", kind, raw, item.item_id)
    return item


def _guess_kind(fields: JsonObject) -> str:
    """Tell what an item without a type is, by what it has (P047)."""
    for name, kind in (
        ("role", "message"),
        ("output", "function_call_output"),
        ("arguments", "function_call"),
        ("input", "custom_tool_call"),
        ("summary", "reasoning"),
        ("id", "item_reference"),
    ):
        if fields.has(name):
            return kind
    raise InvalidRequestError(fields.at("type"), "the item says neither what it is nor who speaks")


def _read_message(fields: JsonObject) -> Message:
    word = fields.string("role") or ""
    role = _ROLES.get(word)
    if role is None:
        raise InvalidRequestError(fields.at("role"), f"{word!r} is none of {', '.join(_ROLES)}")
    content = read_content(fields.text_or_raws("content"), fields.at("content"), "responses")
    if not fields.count():
        return Message(role, content)
    return Message(
        role=role,
        content=content,
        item_id=fields.string("id"),
        status=_read_status(fields),
        extras=unread_fields(fields, "responses", _ONLY_HERE),
    )


def _read_status(fields: JsonObject) -> Status | None:
    return _STATUSES.get(fields.string("status") or "")


def _read_call(
    fields: JsonObject, kind: CallKind, name_call: Callable[[str, str], str]
) -> ToolCall:
    words = CALLS.get(kind)
    if words is None:
        # A tool without a name is known by its kind.
        name: str = kind
        arguments = read_arguments(fields, kind)
    else:
        name = fields.string("name") or ""
        arguments = string_or_raw_json(fields.raw(words.field))
    item_id = fields.string("id")
    return ToolCall(
        # Some clients keep only one of the two ids (P064).
        call_id=fields.string("call_id") or item_id or name_call(name, arguments),
        name=name,
        arguments=arguments,
        kind=kind,
        namespace=fields.string("namespace"),
        item_id=item_id,
        status=_read_status(fields),
        extras=unread_fields(fields, "responses", _ONLY_HERE),
    )


def _read_output(fields: JsonObject, kind: CallKind) -> ToolOutput:
    output = (
        _read_output_content(fields.output("output"), fields.at("output"))
        if kind in CALLS
        else read_output(fields, kind)
    )
    # What a local shell answered has just the id of the call.
    call_id = fields.string("call_id") or (fields.peek("id") if kind == "local_shell" else None)
    return ToolOutput(
        call_id=call_id or None,
        output=output,
        kind=kind,
        name=fields.string("name"),
        item_id=fields.string("id"),
        status=_read_status(fields),
        extras=unread_fields(fields, "responses", _ONLY_HERE),
    )


def _read_output_content(given: str | list[Raw] | None, path: str) -> str | tuple[Part, ...]:
    """Read what a tool answered. A list of parts with a picture may come as a string (P052)."""
    if isinstance(given, str) and given.startswith("[{") and '"input_image"' in given:
        return _unwrapped(given, path) or given
    if isinstance(given, list):
        return read_content(given, path, "responses")
    return given or ""


def _unwrapped(given: str, path: str) -> tuple[Part, ...] | None:
    """Read a list of parts out of a string, if it is just that and nothing else."""
    try:
        parts = read_content(decode(given.encode(), _RAWS, path), path, "responses")
    except InvalidRequestError:
        return None
    whole = all(
        isinstance(part, Text | File) or (isinstance(part, Image) and (part.url or part.file_id))
        for part in parts
    )
    return parts if whole else None


def _read_reasoning(fields: JsonObject) -> Reasoning:
    """Read a reasoning, all of whose fields may be missing (P083)."""
    return Reasoning(
        summary=_read_texts(fields, "summary"),
        content=_read_texts(fields, "content"),
        encrypted=fields.string("encrypted_content") or None,
        item_id=fields.string("id"),
        status=_read_status(fields),
        extras=unread_fields(fields, "responses", _ONLY_HERE),
    )


def _read_texts(fields: JsonObject, name: str) -> tuple[str, ...]:
    given = fields.text_or_raws(name)
    if isinstance(given, str):
        return (given,)
    path = fields.at(name)
    return tuple(
        read_fields(raw, f"{path}[{number}]").string("text") or ""
        for number, raw in enumerate(given or [])
    )
