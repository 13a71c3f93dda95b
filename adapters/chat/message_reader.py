"""Reads the messages of Chat and legacy, which may stand side by side in one history."""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from adapters.chat.parts import DETAILS, read_details
from adapters.errors import InvalidRequestError
from adapters.ids import StableIds
from adapters.ir.normalize import PendingCalls
from adapters.ir.types import (
    CallKind,
    Extras,
    Item,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Status,
    Text,
    ToolCall,
    ToolOutput,
)
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.wire.content import read_annotation, read_content
from adapters.wire.extra_fields import DropPolicy, unread_fields
from adapters.wire.json_object import JsonObject, read_fields, string_or_raw_json

# A short way for plain messages: read in one step, by the shape that nearly all of them have.
#
# A long history is mostly strings and calls. What has any other shape, or any field more, is read
# the
# long way, which is lenient and misses nothing; both give the same items.


Placed = tuple[Item, str]
NonEmptyStr = Annotated[str, Meta(min_length=1)]


class PlainFunction(Struct, gc=False, forbid_unknown_fields=True):
    """Whom a call calls."""

    name: NonEmptyStr
    arguments: str


class PlainCall(Struct, gc=False, forbid_unknown_fields=True):
    """A call with all that it should have."""

    id: NonEmptyStr
    function: PlainFunction
    type: Literal["function"] = "function"


class System(Struct, tag_field="role", tag="system", gc=False, forbid_unknown_fields=True):
    """A system message."""

    content: str


class Developer(Struct, tag_field="role", tag="developer", gc=False, forbid_unknown_fields=True):
    """A developer message."""

    content: str


class User(Struct, tag_field="role", tag="user", gc=False, forbid_unknown_fields=True):
    """A user message."""

    content: str


class Assistant(Struct, tag_field="role", tag="assistant", gc=False, forbid_unknown_fields=True):
    """An assistant's message."""

    content: str | None = None
    tool_calls: tuple[PlainCall, ...] = ()
    function_call: PlainFunction | None = None


class FunctionMessage(
    Struct, tag_field="role", tag="function", gc=False, forbid_unknown_fields=True
):
    """A function's answer, in the legacy form."""

    name: NonEmptyStr
    content: str


class Tool(Struct, tag_field="role", tag="tool", gc=False, forbid_unknown_fields=True):
    """A tool's answer."""

    tool_call_id: NonEmptyStr
    content: str


_ROLES: dict[type[Struct], Role] = {
    System: "system",
    Developer: "developer",
    User: "user",
}
Plain = System | Developer | User | Assistant | Tool | FunctionMessage
_DECODER: Decoder[Plain] = Decoder(Plain)


def read_plain(raw: Raw, path: str, name_call: Callable[[str, str], str]) -> list[Placed]:
    """Read a plain message; nothing if it is not one."""
    try:
        plain = _DECODER.decode(raw)
    except DECODE_ERRORS:
        return []
    match plain:
        case System() | Developer() | User():
            return [(Message(_ROLES[type(plain)], (Text(plain.content),)), path)]
        case Tool():
            return [(ToolOutput(plain.tool_call_id, plain.content), path)]
        case FunctionMessage():
            return [(ToolOutput(None, plain.content, name=plain.name), path)]
        case Assistant():
            return _read_turn(plain, path, name_call)


def _read_turn(plain: Assistant, path: str, name_call: Callable[[str, str], str]) -> list[Placed]:
    placed: list[Placed] = []
    if plain.content:
        placed.append((Message("assistant", (Text(plain.content),)), path))
    for number, call in enumerate(plain.tool_calls):
        item = ToolCall(call.id, call.function.name, call.function.arguments)
        placed.append((item, f"{path}.tool_calls[{number}]"))
    old = plain.function_call
    if old is not None and not plain.tool_calls:
        item = ToolCall(name_call(old.name, old.arguments), old.name, old.arguments)
        placed.append((item, f"{path}.function_call"))
    return placed


# Gives an id to a call that has none, from its name and arguments.
NameCall = Callable[[str, str], str]

_SPEAKERS: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user"}

# What clients echo of an answer, and what only Chat can say of a message.
_ONLY_HERE = {
    "audio": DropPolicy("capability"),
    "parsed": DropPolicy(None),
    "role": DropPolicy(None),
}


def read_messages(raws: list[Raw], losses: Losses, *, short_way: bool = True) -> Iterator[Placed]:
    """Read a history into items, each with the path of where it stood."""
    name_call = StableIds()
    waiting = PendingCalls()
    for number, raw in enumerate(raws):
        path = f"messages[{number}]"
        plain = read_plain(raw, path, name_call) if short_way else None
        for item, where in plain or _read_message(raw, path, name_call, losses):
            yield _followed(item, waiting), where


def _followed(item: Item, waiting: PendingCalls) -> Item:
    """Keep track of who waits for an answer; give an answer without an id that of its call."""
    match item:
        case ToolCall():
            waiting.add(item)
        case ToolOutput():
            return _answered(item, waiting)
        case Message(role="assistant") | Reasoning():
            pass
        case _:
            waiting.end_batch()
    return item


def _read_message(raw: Raw, path: str, name_call: NameCall, losses: Losses) -> Iterator[Placed]:
    fields = read_fields(raw, path)
    role = fields.string("role") or ""
    if role == "assistant":
        yield from _message_reader_read_turn(fields, name_call, losses)
    elif role in ("tool", "function"):
        yield _read_output(fields), path
    elif role in _SPEAKERS:
        content = read_content(fields.text_or_raws("content"), fields.at("content"), "completions")
        extras = unread_fields(fields, "completions", _ONLY_HERE)
        yield Message(_SPEAKERS[role], content, extras=extras), path
    else:
        known = "system, developer, user, assistant, tool, function"
        raise InvalidRequestError(fields.at("role"), f"{role!r} is none of {known}")


def _message_reader_read_turn(
    fields: JsonObject, name_call: NameCall, losses: Losses
) -> Iterator[Placed]:
    """Read an assistant's message, and say where each of its items stood in it."""
    path = fields.path
    modern = fields.has("tool_calls")
    calls = 0

    def name_and_tell(name: str, arguments: str) -> str:
        if modern:
            losses.invented(f"{path}.tool_calls", f"a call of {name} has no id; it gets one")
        return name_call(name, arguments)

    for item in read_assistant(fields, name_and_tell):
        if isinstance(item, ToolCall):
            yield item, f"{path}.tool_calls[{calls}]" if modern else f"{path}.function_call"
            calls += 1
        elif isinstance(item, Reasoning):
            yield item, f"{path}.reasoning_content"
        else:
            yield item, path


def _answered(output: ToolOutput, waiting: PendingCalls) -> ToolOutput:
    """Find the call of an answer without an id, by its name and by order (P176, P178)."""
    if output.call_id is not None:
        waiting.take_by_id(output.call_id)
        return output
    call = waiting.take_by_name(output.name)
    return output if call is None else replace(output, call_id=call.call_id)


def _read_output(fields: JsonObject) -> ToolOutput:
    """Read a tool's answer; in the legacy form it has a name and no id."""
    given = fields.output("content")
    output = (
        read_content(given, fields.at("content"), "completions")
        if isinstance(given, list)
        else given or ""
    )
    call_id = fields.string("tool_call_id") or None
    name = fields.string("name") or None
    return ToolOutput(call_id, output, name=name, extras=unread_fields(fields, "completions"))


def read_assistant(
    fields: JsonObject, name_call: NameCall, status: Status | None = None
) -> Iterator[Item]:
    """Read an assistant's turn: what it thought, what it said, whom it called, in that order."""
    thought = _read_thought(fields)
    # What helpers of clients made of the text.
    fields.raw("parsed")
    if thought is not None:
        yield replace(thought, status=status)
    content = _read_said(fields)
    calls = tuple(_read_calls(fields, name_call, status))
    extras = unread_fields(fields, "completions", _ONLY_HERE)
    said = any(not isinstance(part, Text) or part.text for part in content)
    if said or not calls or _worth_keeping(extras):
        kept = content if said or not calls else ()
        yield Message("assistant", kept, status=status, extras=extras)
    yield from calls


def _worth_keeping(extras: Extras) -> bool:
    return any(extra.severity is not None for extra in extras)


def _read_thought(fields: JsonObject) -> Reasoning | None:
    """Read the reasoning: one text, under any of three names (P084), perhaps as a list."""
    first = fields.raw("reasoning_content")
    second = fields.raw("reasoning")
    listed = fields.raw(DETAILS)
    text, extras = ("", ()) if listed is None else read_details(listed)
    for raw in (first, second):
        if raw is not None and bytes(raw).startswith(b'"') and string_or_raw_json(raw):
            text = string_or_raw_json(raw)
            break
    return Reasoning(content=(text,) if text else (), extras=extras) if text or extras else None


def _read_said(fields: JsonObject) -> tuple[Part, ...]:
    content = read_content(fields.text_or_raws("content"), fields.at("content"), "completions")
    annotations = tuple(read_annotation(raw, "completions") for raw in fields.array("annotations"))
    if annotations and content and isinstance(content[0], Text):
        content = (replace(content[0], annotations=annotations), *content[1:])
    refusal = fields.string("refusal")
    if refusal:
        # The text beside a refusal is empty, as a rule: then the refusal stands alone.
        kept = tuple(p for p in content if not (isinstance(p, Text) and not p.text))
        return (*kept, Refusal(refusal))
    return content


def _read_calls(
    fields: JsonObject, name_call: NameCall, status: Status | None
) -> Iterator[ToolCall]:
    """Read the calls in either form; where a server sends both, it repeats one call.

    llama-cpp-python gets the name wrong in the legacy copy, so the modern form is the one to read.
    """
    calls = fields.objects("tool_calls")
    legacy = fields.nested("function_call")
    for call in calls:
        yield _read_call(call, name_call, status)
    if legacy is not None and not calls:
        name = legacy.string("name") or ""
        arguments = string_or_raw_json(legacy.raw("arguments"))
        extras = unread_fields(legacy, "completions")
        yield ToolCall(name_call(name, arguments), name, arguments, status=status, extras=extras)


def _read_call(fields: JsonObject, name_call: NameCall, status: Status | None) -> ToolCall:
    kind: CallKind = "custom" if fields.string("type") == "custom" else "function"
    custom = fields.nested("custom")
    if custom is not None:
        kind = "custom"
    inner = custom or fields.nested("function") or fields
    name = inner.string("name") or ""
    arguments = string_or_raw_json(inner.raw("input" if kind == "custom" else "arguments"))
    call_id = fields.string("id") or name_call(name, arguments)
    # The place among the calls says what `index` repeats. What the helpers of the openai package
    # made of the arguments stands in histories that they wrote.
    fields.raw("index")
    inner.raw("parsed_arguments")
    extras = unread_fields(fields, "completions")
    if inner is not fields:
        extras += unread_fields(inner, "completions")
    return ToolCall(call_id, name, arguments, kind, status=status, extras=extras)
