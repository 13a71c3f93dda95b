"""Reads tools, tool choices and text formats, whichever dialect spelled them.

Chat nests (`{type, function: {name}}`), Responses does not (`{type, name}`), legacy says neither
type nor wrapper, and clients mix them up (P002, P028). Writing is exact and is each dialect's own.
"""

from typing import Literal

from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.conversation import (
    Allowed,
    Custom,
    Extras,
    Family,
    Format,
    Function,
    Hosted,
    HostedChoice,
    Mode,
    Named,
    Request,
    Tool,
    ToolChoice,
)
from adapters.errors import InvalidInput
from adapters.extras import left_over
from adapters.fields import Fields, read_fields, read_text_or_fields
from adapters.loss import Losses
from adapters.plain_tools import read_plain
from adapters.schemas import is_strict

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
        plain = read_plain(raw, family) if short_way else None
        tools.append(plain or _read_tool(raw, f"{path}[{number}]", family))
    return tuple(tools)


def _read_tool(raw: Raw, path: str, family: Family) -> Tool:
    fields = read_fields(raw, path)
    kind = fields.text("type") or "function"
    if kind == "function":
        return _read_function(fields, family)
    if kind == "custom":
        return _read_custom(fields, family)
    return Hosted(kind, raw)


def _read_function(fields: Fields, family: Family) -> Function:
    inner = fields.fields("function") or fields
    return Function(
        name=_name(inner),
        description=inner.text("description"),
        parameters=inner.raw("parameters"),
        strict=_read_strict(inner),
        extras=_tool_extras(fields, inner, family),
    )


def _read_strict(fields: Fields) -> bool | None:
    """Read `strict`; what is not a boolean counts as not said (P006)."""
    raw = fields.raw("strict")
    return None if raw is None else _BOOLEANS.get(bytes(raw))


def _read_custom(fields: Fields, family: Family) -> Custom:
    inner = fields.fields("custom") or fields
    form = inner.fields("format")
    kind = _CUSTOM_FORMATS.get(form.text("type") or "text") if form else None
    # Chat puts the grammar one level deeper than Responses.
    grammar = (form.fields("grammar") or form) if form else Fields({})
    return Custom(
        name=_name(inner),
        description=inner.text("description"),
        format=kind,
        syntax=grammar.text("syntax"),
        definition=grammar.text("definition"),
        extras=_tool_extras(fields, inner, family) + _format_extras(form, grammar, family),
    )


def _format_extras(form: Fields | None, grammar: Fields, family: Family) -> Extras:
    if form is None:
        return ()
    return left_over(grammar, family, prefix="format.") + left_over(form, family, prefix="format.")


def _name(fields: Fields) -> str:
    name = fields.text("name")
    if not name:
        raise InvalidInput(fields.at("name"), "a tool needs a name")
    return name


def _tool_extras(fields: Fields, inner: Fields, family: Family) -> Extras:
    """Take the rest; old Codex repeats the `name` beside the wrapper."""
    if inner is fields:
        return left_over(fields, family)
    fields.raw("name")
    return left_over(fields, family) + left_over(inner, family)


def read_tool_choice(
    raw: Raw | None, path: str, tools: tuple[Tool, ...], losses: Losses
) -> ToolChoice | None:
    """Read a tool choice: a word, a bare tool name, or an object in either shape."""
    if raw is None:
        return None
    value = read_text_or_fields(raw, path)
    if isinstance(value, str):
        mode = _MODES.get(value)
        return Mode(mode) if mode else _named(value, tools)
    choice = _read_choice_object(value, raw, tools, losses)
    if not isinstance(choice, HostedChoice):
        _report_rest(value, losses)
    return choice


def _report_rest(fields: Fields, losses: Losses) -> None:
    for name, _ in fields.rest():
        losses.dropped(fields.at(name), "a tool choice has no such field", exact=True)


def _read_choice_object(
    fields: Fields, raw: Raw, tools: tuple[Tool, ...], losses: Losses
) -> ToolChoice:
    kind = fields.text("type") or "function"
    if kind in _MODES:
        return Mode(_MODES[kind])
    if kind == "allowed_tools":
        return _read_allowed(fields.fields("allowed_tools") or fields, tools, losses)
    # `tool` is Anthropic's word for a named function (P013).
    if kind in ("function", "custom", "tool"):
        inner = fields.fields(kind) or fields
        name, namespace = inner.text("name"), inner.text("namespace")
        if not name:
            raise InvalidInput(inner.at("name"), "the tool choice names no tool")
        _report_rest(inner, losses)
        named = _named(name, tools, "custom" if kind == "custom" else None)
        return named if namespace is None else replace(named, namespace=namespace)
    return HostedChoice(kind, raw)


def _named(name: str, tools: tuple[Tool, ...], kind: Literal["custom"] | None = None) -> Named:
    """Name a tool, of the kind that it was declared as."""
    declared = any(isinstance(tool, Custom) and tool.name == name for tool in tools)
    return Named(name, "custom" if kind or declared else "function")


def _read_allowed(fields: Fields, tools: tuple[Tool, ...], losses: Losses) -> Allowed:
    named: list[Named] = []
    others: list[Raw] = []
    path = fields.at("tools")
    for number, raw in enumerate(fields.raws("tools")):
        match _read_choice_object(read_fields(raw, f"{path}[{number}]"), raw, tools, losses):
            case Named() as choice:
                named.append(choice)
            case _:
                others.append(raw)
    word = fields.text("mode") or "auto"
    mode = _MODES.get(word)
    if mode is None:
        raise InvalidInput(fields.at("mode"), f"{word!r} is none of auto, required, none")
    _report_rest(fields, losses)
    return Allowed(mode, tuple(named), tuple(others))


def read_format(fields: Fields | None, family: Family) -> Format | None:
    """Read the format of the answer's text: Chat nests a JSON schema, Responses does not."""
    if fields is None:
        return None
    word = fields.text("type") or "text"
    kind = _FORMATS.get(word)
    if kind is None:
        raise InvalidInput(fields.at("type"), f"{word!r} is none of {', '.join(_FORMATS)}")
    inner = fields.fields("json_schema") or fields
    beside = left_over(fields, family) if inner is not fields and kind == "json_schema" else ()
    return Format(
        kind=kind,
        name=inner.text("name"),
        schema=inner.raw("schema"),
        strict=inner.flag("strict"),
        description=inner.text("description"),
        extras=beside + left_over(inner, family),
    )


def declared_names(tools: tuple[Tool, ...]) -> frozenset[str]:
    """Give the names of the tools that the client itself runs."""
    return frozenset(tool.name for tool in tools if not isinstance(tool, Hosted))


def without_strict(tool: Tool, path: str, capabilities: Capabilities, losses: Losses) -> Tool:
    """Leave `strict` out where the backend does not know it (P007)."""
    if not isinstance(tool, Function) or capabilities.strict or tool.strict is False:
        return tool
    if tool.strict:
        losses.dropped(f"{path}.strict", NO_STRICT, "capability")
    elif is_strict(tool.parameters):
        # Nobody said, but the Responses API would have been strict.
        losses.dropped(f"{path}.strict", NO_STRICT)
    return replace(tool, strict=False)


def write_parallel(
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
