"""Writes tools, tool choices and text formats for Chat: everything nested."""

from msgspec import Raw

from adapters.ir.types import (
    AllowedToolsChoice,
    CustomTool,
    FunctionTool,
    HostedChoice,
    HostedTool,
    NamedToolChoice,
    ResponseFormat,
    Tool,
    ToolChoice,
    ToolChoiceMode,
)
from adapters.losses import Losses
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_object import read_fields
from adapters.wire.json_schema import is_strict, parameters_schema

Wire = dict[str, object]


def write_function(tool: FunctionTool, path: str, carrier: ExtrasWriter, losses: Losses) -> Wire:
    """Write what Chat and legacy say of a function: its name, its purpose, its schema."""
    wire: Wire = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    wire["parameters"] = parameters_schema(tool.parameters, path, losses)
    carrier.carry(tool.extras, wire, path)
    return wire


def write_tool(tool: Tool, path: str, carrier: ExtrasWriter, losses: Losses) -> Wire:
    """Write one tool that the client runs."""
    match tool:
        case FunctionTool():
            inner = write_function(tool, path, carrier, losses)
            # Where nobody said, the Responses API would be strict if it could.
            if is_strict(tool.parameters) if tool.strict is None else tool.strict:
                inner["strict"] = True
            return {"type": "function", "function": inner}
        case CustomTool():
            return {"type": "custom", "custom": _write_custom(tool, path, carrier)}
        case HostedTool():
            raise AssertionError(f"Chat has no tool {tool.kind}")


def _write_custom(tool: CustomTool, path: str, carrier: ExtrasWriter) -> Wire:
    wire: Wire = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if tool.format == "grammar":
        grammar = {"syntax": tool.syntax, "definition": tool.definition}
        wire["format"] = {"type": "grammar", "grammar": grammar}
    elif tool.format == "text":
        wire["format"] = {"type": "text"}
    carrier.carry(tool.extras, wire, path)
    return wire


def write_choice(choice: ToolChoice) -> str | Wire | Raw:
    """Write a tool choice."""
    match choice:
        case ToolChoiceMode():
            return choice.mode
        case NamedToolChoice():
            return {"type": choice.kind, choice.kind: {"name": choice.name}}
        case AllowedToolsChoice():
            tools = [*map(write_choice, choice.tools), *choice.others]
            return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
        case HostedChoice():
            return choice.value


def write_format(form: ResponseFormat, carrier: ExtrasWriter, losses: Losses) -> Wire:
    """Write the format of the answer's text."""
    if form.kind != "json_schema":
        wire: Wire = {"type": form.kind}
        if form.schema is not None:
            # llama.cpp takes a schema here, too.
            wire["schema"] = form.schema
        carrier.carry(form.extras, wire, "format")
        return wire
    if form.name is None:
        losses.invented("format", "a schema needs a name; it is called response")
    named = {
        "name": form.name or "response",
        "description": form.description,
        "schema": form.schema,
        "strict": form.strict,
    }
    inner: Wire = {key: value for key, value in named.items() if value is not None}
    carrier.carry(form.extras, inner, "format")
    return {"type": "json_schema", "json_schema": inner}


def write_web_search(tool: HostedTool, path: str, losses: Losses) -> Wire:
    """Write a web search as the options that Chat has for it."""
    fields = read_fields(tool.value, path)
    fields.string("type")
    wire: Wire = {}
    size = fields.string("search_context_size")
    if size is not None:
        wire["search_context_size"] = size
    location = fields.nested("user_location")
    if location is not None:
        location.string("type")
        wire["user_location"] = {
            "type": "approximate",
            "approximate": dict(location.take_remaining()),
        }
    for name, _ in fields.take_remaining():
        losses.dropped(f"{path}.{name}", "Chat Completions has no such option of a search")
    return wire
