"""A short way for plain messages: read in one step, by the shape that nearly all of them have.

A long history is mostly strings and calls. What has any other shape, or any field more, is read the
long way, which is lenient and misses nothing; both give the same items.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from adapters.ir.types import Item, Message, Role, Text, ToolCall, ToolOutput
from adapters.json_text import DECODE_ERRORS

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
