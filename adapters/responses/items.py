"""Reads the items of the Responses API: of a request's input and of a reply's output alike."""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw

from adapters.conversation import (
    Call,
    CallKind,
    File,
    Image,
    Item,
    Message,
    Opaque,
    Output,
    Part,
    Reasoning,
    Reference,
    Role,
    Status,
    Text,
)
from adapters.errors import InvalidInput
from adapters.extras import Fate, left_over
from adapters.fields import Fields, decode, read_fields, text_or_json
from adapters.loss import Losses
from adapters.mint import StableIds
from adapters.parts import read_content
from adapters.responses.client_calls import is_for_client, read_arguments
from adapters.responses.client_outputs import read_output
from adapters.responses.plain import read_plain
from adapters.responses.wire import ANY_CALLS, CALL_KINDS, CALLS, OUTPUT_KINDS

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
    "caller": Fate(None),
    "created_by": Fate(None),
    "execution": Fate(None),
    "pending_safety_checks": Fate("capability"),
}


def read_items(raws: list[Raw], losses: Losses, *, short_way: bool = True) -> Iterator[Placed]:
    """Read a list of items, each with the path of where it stood."""
    name_call = StableIds()
    seen: dict[str, Item] = {}
    for number, raw in enumerate(raws):
        path = f"input[{number}]"
        plain = read_plain(raw) if short_way else None
        item = plain or read_item(raw, path, name_call)
        if _is_repeated(item, seen):
            losses.dropped(path, "the same item, under the same id, came before")
        else:
            yield item, path


def _is_repeated(item: Item, seen: dict[str, Item]) -> bool:
    """Tell whether a client sent an item twice (P062); one id for two items is no repeat."""
    item_id = item.item_id
    if item_id is None or isinstance(item, Reference):
        return False
    return seen.setdefault(item_id, item) is not item and seen[item_id] == item


def read_item(raw: Raw, path: str, name_call: Callable[[str, str], str]) -> Item:
    """Read one item."""
    fields = read_fields(raw, path)
    kind = fields.text("type") or _guess_kind(fields)
    if kind == "message":
        return _read_message(fields)
    if kind in CALL_KINDS and is_for_client(fields, CALL_KINDS[kind]):
        return _read_call(fields, CALL_KINDS[kind], name_call)
    if kind in OUTPUT_KINDS and is_for_client(fields, OUTPUT_KINDS[kind]):
        return _read_output(fields, OUTPUT_KINDS[kind])
    if kind == "reasoning":
        return _read_reasoning(fields)
    item_id = fields.text("id")
    if kind == "item_reference":
        return Reference(item_id or "")
    return Opaque("responses", kind, raw, item_id)


def read_answer(raw: Raw, path: str, name_call: Callable[[str, str], str]) -> Item:
    """Read one item of an answer; outputs and references are no words of a model."""
    item = read_item(raw, path, name_call)
    if isinstance(item, Output | Reference):
        kind = ANY_CALLS[item.kind].output if isinstance(item, Output) else "item_reference"
        return Opaque("responses", kind, raw, item.item_id)
    return item


def _guess_kind(fields: Fields) -> str:
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
    raise InvalidInput(fields.at("type"), "the item says neither what it is nor who speaks")


def _read_message(fields: Fields) -> Message:
    word = fields.text("role") or ""
    role = _ROLES.get(word)
    if role is None:
        raise InvalidInput(fields.at("role"), f"{word!r} is none of {', '.join(_ROLES)}")
    content = read_content(fields.text_or_raws("content"), fields.at("content"), "responses")
    if not fields.count():
        return Message(role, content)
    return Message(
        role=role,
        content=content,
        item_id=fields.text("id"),
        status=_read_status(fields),
        extras=left_over(fields, "responses", _ONLY_HERE),
    )


def _read_status(fields: Fields) -> Status | None:
    return _STATUSES.get(fields.text("status") or "")


def _read_call(fields: Fields, kind: CallKind, name_call: Callable[[str, str], str]) -> Call:
    words = CALLS.get(kind)
    if words is None:
        # A tool without a name is known by its kind.
        name: str = kind
        arguments = read_arguments(fields, kind)
    else:
        name = fields.text("name") or ""
        arguments = text_or_json(fields.raw(words.field))
    item_id = fields.text("id")
    return Call(
        # Some clients keep only one of the two ids (P064).
        call_id=fields.text("call_id") or item_id or name_call(name, arguments),
        name=name,
        arguments=arguments,
        kind=kind,
        namespace=fields.text("namespace"),
        item_id=item_id,
        status=_read_status(fields),
        extras=left_over(fields, "responses", _ONLY_HERE),
    )


def _read_output(fields: Fields, kind: CallKind) -> Output:
    output = (
        _read_output_content(fields.output("output"), fields.at("output"))
        if kind in CALLS
        else read_output(fields, kind)
    )
    # What a local shell answered has just the id of the call.
    call_id = fields.text("call_id") or (fields.peek("id") if kind == "local_shell" else None)
    return Output(
        call_id=call_id or None,
        output=output,
        kind=kind,
        name=fields.text("name"),
        item_id=fields.text("id"),
        status=_read_status(fields),
        extras=left_over(fields, "responses", _ONLY_HERE),
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
    except InvalidInput:
        return None
    whole = all(
        isinstance(part, Text | File) or (isinstance(part, Image) and (part.url or part.file_id))
        for part in parts
    )
    return parts if whole else None


def _read_reasoning(fields: Fields) -> Reasoning:
    """Read a reasoning, all of whose fields may be missing (P083)."""
    return Reasoning(
        summary=_read_texts(fields, "summary"),
        content=_read_texts(fields, "content"),
        encrypted=fields.text("encrypted_content") or None,
        item_id=fields.text("id"),
        status=_read_status(fields),
        extras=left_over(fields, "responses", _ONLY_HERE),
    )


def _read_texts(fields: Fields, name: str) -> tuple[str, ...]:
    given = fields.text_or_raws(name)
    if isinstance(given, str):
        return (given,)
    path = fields.at(name)
    return tuple(
        read_fields(raw, f"{path}[{number}]").text("text") or ""
        for number, raw in enumerate(given or [])
    )
