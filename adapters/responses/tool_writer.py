"""Writes tools, tool choices and text formats for the Responses API: everything flat."""

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
from adapters.wire.json_schema import parameters_schema

Wire = dict[str, object]


def write_tool(tool: Tool, path: str, carrier: ExtrasWriter, losses: Losses) -> Wire | Raw:
    """Write one tool for a backend."""
    match tool:
        case FunctionTool():
            return _write_function(tool, path, carrier, losses)
        case CustomTool():
            return _write_custom(tool, path, carrier)
        case HostedTool():
            return tool.value


def _write_function(tool: FunctionTool, path: str, carrier: ExtrasWriter, losses: Losses) -> Wire:
    wire: Wire = {"type": "function", "name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    wire["parameters"] = parameters_schema(tool.parameters, path, losses)
    # Always said where it is known: silence would mean "strict, if possible" (P005).
    wire["strict"] = tool.strict
    carrier.carry(tool.extras, wire, path)
    return wire


def _write_custom(tool: CustomTool, path: str, carrier: ExtrasWriter) -> Wire:
    wire: Wire = {"type": "custom", "name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if tool.format == "grammar":
        wire["format"] = {"type": "grammar", "syntax": tool.syntax, "definition": tool.definition}
    elif tool.format == "text":
        wire["format"] = {"type": "text"}
    carrier.carry(tool.extras, wire, path)
    return wire


def echo_tool(tool: Tool, carrier: ExtrasWriter, losses: Losses) -> Wire | Raw:
    """Write one tool as a reply repeats it: Open Responses wants every key of a function."""
    if not isinstance(tool, FunctionTool):
        return write_tool(tool, "tools", carrier, losses)
    wire: Wire = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    carrier.carry(tool.extras, wire, "tools")
    return wire


def echo_format(form: ResponseFormat | None, carrier: ExtrasWriter, losses: Losses) -> Wire:
    """Write the format of the text as a reply repeats it, again with every key."""
    wire = write_format(form, carrier, losses)
    if wire["type"] == "json_schema":
        wire = {"type": "json_schema", "name": None, "description": None, "strict": False} | wire
    return wire


def write_choice(choice: ToolChoice) -> str | Wire | Raw:
    """Write a tool choice."""
    match choice:
        case ToolChoiceMode():
            return choice.mode
        case NamedToolChoice():
            within = {} if choice.namespace is None else {"namespace": choice.namespace}
            return {"type": choice.kind, "name": choice.name, **within}
        case AllowedToolsChoice():
            tools = [*map(write_choice, choice.tools), *choice.others]
            return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
        case HostedChoice():
            return choice.value


def write_format(form: ResponseFormat | None, carrier: ExtrasWriter, losses: Losses) -> Wire:
    """Write the format of the answer's text."""
    if form is None:
        return {"type": "text"}
    if form.kind != "json_schema":
        if form.schema is not None:
            losses.dropped("format.schema", f"{form.kind} has no schema", "capability")
        plain: Wire = {"type": form.kind}
        carrier.carry(form.extras, plain, "format")
        return plain
    if form.name is None:
        losses.invented("format", "a schema needs a name; it is called response")
    named = {
        "name": form.name or "response",
        "description": form.description,
        "schema": form.schema,
        "strict": form.strict,
    }
    wire: Wire = {"type": "json_schema"}
    wire |= {key: value for key, value in named.items() if value is not None}
    carrier.carry(form.extras, wire, "format")
    return wire
