"""Reads tools, tool choices and text formats, whichever dialect spelled them.

Chat nests (`{type, function: {name}}`), Responses does not (`{type, name}`), legacy says neither
type nor wrapper, and clients mix them up (P002, P028). Writing is exact and is each dialect's own.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.errors import InvalidRequestError
from adapters.ir.types import (
    AllowedToolsChoice,
    CustomTool,
    Extras,
    Family,
    FunctionTool,
    HostedChoice,
    HostedTool,
    NamedToolChoice,
    Request,
    ResponseFormat,
    Tool,
    ToolChoice,
    ToolChoiceMode,
)
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.wire.extra_fields import unread_fields
from adapters.wire.json_object import (
    MISSING,
    JsonObject,
    is_present,
    read_fields,
    read_text_or_fields,
)
from adapters.wire.json_schema import is_strict

# A short way for plain functions: read in one step, by the shape that nearly all of them have.
#
# What has any other shape, or any field more, is read the long way, which is lenient and misses
# nothing; both give the same tools.


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


# Words for the modes; `any` is Anthropic's for `required` (P013).
_MODES: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
}
_FORMATS: dict[str, Literal["text", "json_object", "json_schema"]] = {
    "text": "text",
    "json_object": "json_object",
    "json_schema": "json_schema",
}
_CUSTOM_FORMATS: dict[str, Literal["text", "grammar"]] = {"text": "text", "grammar": "grammar"}
_BOOLEANS = {b"true": True, b"false": False}


NO_STRICT = "the backend does not know strict"


def read_tools(
    raws: list[Raw], path: str, family: Family, *, short_way: bool = True
) -> tuple[Tool, ...]:
    """Read a list of tools."""
    tools: list[Tool] = []
    for number, raw in enumerate(raws):
        plain = read_typical_function(raw, family) if short_way else None
        tools.append(plain or _read_tool(raw, f"{path}[{number}]", family))
    return tuple(tools)


def _read_tool(raw: Raw, path: str, family: Family) -> Tool:
    fields = read_fields(raw, path)
    kind = fields.string("type") or "function"
    if kind == "function":
        return _read_function(fields, family)
    if kind == "custom":
        return _read_custom(fields, family)
    return HostedTool(kind, raw)


def _read_function(fields: JsonObject, family: Family) -> FunctionTool:
    inner = fields.nested("function") or fields
    return FunctionTool(
        name=_name(inner),
        description=inner.string("description"),
        parameters=inner.raw("parameters"),
        strict=_read_strict(inner),
        extras=_tool_extras(fields, inner, family),
    )


def _read_strict(fields: JsonObject) -> bool | None:
    """Read `strict`; what is not a boolean counts as not said (P006)."""
    raw = fields.raw("strict")
    return None if raw is None else _BOOLEANS.get(bytes(raw))


def _read_custom(fields: JsonObject, family: Family) -> CustomTool:
    inner = fields.nested("custom") or fields
    form = inner.nested("format")
    kind = _CUSTOM_FORMATS.get(form.string("type") or "text") if form else None
    # Chat puts the grammar one level deeper than Responses.
    grammar = (form.nested("grammar") or form) if form else JsonObject({})
    return CustomTool(
        name=_name(inner),
        description=inner.string("description"),
        format=kind,
        syntax=grammar.string("syntax"),
        definition=grammar.string("definition"),
        extras=_tool_extras(fields, inner, family) + _format_extras(form, grammar, family),
    )


def _format_extras(form: JsonObject | None, grammar: JsonObject, family: Family) -> Extras:
    if form is None:
        return ()
    return unread_fields(grammar, family, prefix="format.") + unread_fields(
        form, family, prefix="format."
    )


def _name(fields: JsonObject) -> str:
    name = fields.string("name")
    if not name:
        raise InvalidRequestError(fields.at("name"), "a tool needs a name")
    return name


def _tool_extras(fields: JsonObject, inner: JsonObject, family: Family) -> Extras:
    """Take the rest; old Codex repeats the `name` beside the wrapper."""
    if inner is fields:
        return unread_fields(fields, family)
    fields.raw("name")
    return unread_fields(fields, family) + unread_fields(inner, family)


def read_tool_choice(
    raw: Raw | None, path: str, tools: tuple[Tool, ...], losses: Losses
) -> ToolChoice | None:
    """Read a tool choice: a word, a bare tool name, or an object in either shape."""
    if raw is None:
        return None
    value = read_text_or_fields(raw, path)
    if isinstance(value, str):
        mode = _MODES.get(value)
        return ToolChoiceMode(mode) if mode else _named(value, tools)
    choice = _read_choice_object(value, raw, tools, losses)
    if not isinstance(choice, HostedChoice):
        _report_rest(value, losses)
    return choice


def _report_rest(fields: JsonObject, losses: Losses) -> None:
    for name, _ in fields.take_remaining():
        losses.dropped(fields.at(name), "a tool choice has no such field", exact=True)


def _read_choice_object(
    fields: JsonObject, raw: Raw, tools: tuple[Tool, ...], losses: Losses
) -> ToolChoice:
    kind = fields.string("type") or "function"
    if kind in _MODES:
        return ToolChoiceMode(_MODES[kind])
    if kind == "allowed_tools":
        return _read_allowed(fields.nested("allowed_tools") or fields, tools, losses)
    # `tool` is Anthropic's word for a named function (P013).
    if kind in ("function", "custom", "tool"):
        inner = fields.nested(kind) or fields
        name, namespace = inner.string("name"), inner.string("namespace")
        if not name:
            raise InvalidRequestError(inner.at("name"), "the tool choice names no tool")
        _report_rest(inner, losses)
        named = _named(name, tools, "custom" if kind == "custom" else None)
        return named if namespace is None else replace(named, namespace=namespace)
    return HostedChoice(kind, raw)


def _named(
    name: str, tools: tuple[Tool, ...], kind: Literal["custom"] | None = None
) -> NamedToolChoice:
    """Name a tool, of the kind that it was declared as."""
    declared = any(isinstance(tool, CustomTool) and tool.name == name for tool in tools)
    return NamedToolChoice(name, "custom" if kind or declared else "function")


def _read_allowed(
    fields: JsonObject, tools: tuple[Tool, ...], losses: Losses
) -> AllowedToolsChoice:
    named: list[NamedToolChoice] = []
    others: list[Raw] = []
    path = fields.at("tools")
    for number, raw in enumerate(fields.array("tools")):
        match _read_choice_object(read_fields(raw, f"{path}[{number}]"), raw, tools, losses):
            case NamedToolChoice() as choice:
                named.append(choice)
            case _:
                others.append(raw)
    word = fields.string("mode") or "auto"
    mode = _MODES.get(word)
    if mode is None:
        raise InvalidRequestError(fields.at("mode"), f"{word!r} is none of auto, required, none")
    _report_rest(fields, losses)
    return AllowedToolsChoice(mode, tuple(named), tuple(others))


def read_format(fields: JsonObject | None, family: Family) -> ResponseFormat | None:
    """Read the format of the answer's text: Chat nests a JSON schema, Responses does not."""
    if fields is None:
        return None
    word = fields.string("type") or "text"
    kind = _FORMATS.get(word)
    if kind is None:
        raise InvalidRequestError(fields.at("type"), f"{word!r} is none of {', '.join(_FORMATS)}")
    inner = fields.nested("json_schema") or fields
    beside = unread_fields(fields, family) if inner is not fields and kind == "json_schema" else ()
    return ResponseFormat(
        kind=kind,
        name=inner.string("name"),
        schema=inner.raw("schema"),
        strict=inner.boolean("strict"),
        description=inner.string("description"),
        extras=beside + unread_fields(inner, family),
    )


def declared_names(tools: tuple[Tool, ...]) -> frozenset[str]:
    """Give the names of the tools that the client itself runs."""
    return frozenset(tool.name for tool in tools if not isinstance(tool, HostedTool))


def without_strict(tool: Tool, path: str, capabilities: Capabilities, losses: Losses) -> Tool:
    """Leave `strict` out where the backend does not know it (P007)."""
    if not isinstance(tool, FunctionTool) or capabilities.strict_tools or tool.strict is False:
        return tool
    if tool.strict:
        losses.dropped(f"{path}.strict", NO_STRICT, "capability")
    elif is_strict(tool.parameters):
        # Nobody said, but the Responses API would have been strict.
        losses.dropped(f"{path}.strict", NO_STRICT)
    return replace(tool, strict=False)


def write_parallel_tool_calls(
    request: Request, capabilities: Capabilities, losses: Losses, wire: dict[str, object]
) -> None:
    """Write whether several calls may be made at once, where the backend can be told (P018)."""
    if request.parallel_tool_calls is None:
        return
    if capabilities.parallel_tool_calls:
        wire["parallel_tool_calls"] = request.parallel_tool_calls
    elif not request.parallel_tool_calls:
        # It is not told, but held to it: of its calls only the first is passed on.
        losses.dropped("parallel_tool_calls", "the backend cannot be told to make one call")
