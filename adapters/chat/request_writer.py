"""Writes a request for a Chat backend."""

import msgspec
from msgspec import Raw

from adapters.capabilities import Capabilities
from adapters.chat.message_writer import MessageWriter
from adapters.chat.wire import NAMES
from adapters.ir.types import (
    AllowedToolsChoice,
    CustomTool,
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
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select
from adapters.wire.extra_fields import ExtrasWriter, copy_present, drop_refused
from adapters.wire.json_object import read_fields
from adapters.wire.json_schema import is_strict, parameters_schema
from adapters.wire.tools import without_strict, write_parallel_tool_calls

# Writes tools, tool choices and text formats for Chat: everything nested.


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


# Fields that the hub and Chat spell and mean alike.
_SAME = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
    "verbosity",
    "stream",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "moderation",
)
# The one tool that runs elsewhere is no tool here.
_OPTIONS = "web_search_options"
_ENCODER = msgspec.json.Encoder()


def write_request(request: Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Write a request."""
    carrier = ExtrasWriter("completions", MessageWriter.label, losses, capabilities.extra_fields)
    messages = MessageWriter(request, capabilities, losses).write(request.instructions)
    wire: Wire = {"model": request.model} if request.model is not None else {}
    wire["messages"] = messages
    _write_tools(request, capabilities, losses, wire)
    write_settings(request, MessageWriter.label, capabilities, losses, wire)
    if request.max_output_tokens is not None:
        name = capabilities.max_tokens_field
        wire[name] = request.max_output_tokens
    carrier.carry(request.extras, wire)
    drop_refused(wire, capabilities.unsupported_fields, NAMES, losses)
    return _ENCODER.encode(wire)


def supports_tool(tool: Tool, capabilities: Capabilities) -> bool:
    """Tell whether a Chat backend can be told of a tool as it is."""
    match tool:
        case FunctionTool():
            return True
        case CustomTool():
            return bool(capabilities.custom_tools)
        case HostedTool():
            return capabilities.web_search_options and tool.kind.startswith("web_search")


def _write_tools(request: Request, capabilities: Capabilities, losses: Losses, wire: Wire) -> None:
    """Write the tools, and what is said of their use; with none left, nothing is said (P016)."""
    abilities = ToolSupport(
        lambda tool: supports_tool(tool, capabilities),
        capabilities.allowed_tools,
        choices=capabilities.tool_choices,
        requires_choice=capabilities.explicit_tool_choice,
    )
    selection = select(request, abilities, losses)
    searches = any(isinstance(tool, HostedTool) for tool, _ in selection.tools)
    if isinstance(selection.choice, HostedChoice) or (
        searches and len(selection.tools) == 1 and selection.choice == ToolChoiceMode("required")
    ):
        losses.dropped("tool_choice", "a web search cannot be forced here", "meaning")
    carrier = ExtrasWriter("completions", MessageWriter.label, losses)
    tools: list[Wire] = []
    for tool, path in selection.tools:
        if isinstance(tool, HostedTool):
            if _OPTIONS in wire:
                losses.dropped(path, "there is one search, and it has its options")
            elif selection.choice != ToolChoiceMode("none"):
                wire[_OPTIONS] = write_web_search(tool, path, losses)
        else:
            told = without_strict(tool, path, capabilities, losses)
            tools.append(write_tool(told, path, carrier, losses))
    if tools:
        wire["tools"] = tools
        if selection.choice is not None:
            wire["tool_choice"] = write_choice(selection.choice)
        write_parallel_tool_calls(request, capabilities, losses, wire)


def write_settings(
    request: Request, label: str, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    """Write all that is neither messages nor tools, and that Chat and legacy share."""
    carrier = ExtrasWriter("completions", label, losses)
    copy_present(request, _SAME, wire)
    if request.choices is not None:
        wire["n"] = request.choices
    if request.stop:
        wire["stop"] = list(request.stop)
    if request.format is not None:
        wire["response_format"] = write_format(request.format, carrier, losses)
    if request.effort is not None:
        wire["reasoning_effort"] = request.effort
    if request.store is not None:
        wire["store"] = request.store
    _write_service_tier(request, label, losses, wire)
    _write_cache_options(request, label, losses, carrier, wire)
    if request.stream:
        _write_stream_options(request, capabilities, losses, wire)


def _write_service_tier(request: Request, label: str, losses: Losses, wire: Wire) -> None:
    if request.service_tier == "ultrafast":
        losses.dropped("service_tier", f"{label} has no tier ultrafast", "meaning")
    elif request.service_tier is not None:
        wire["service_tier"] = request.service_tier


def _write_cache_options(
    request: Request, label: str, losses: Losses, carrier: ExtrasWriter, wire: Wire
) -> None:
    options = request.prompt_cache_options
    if options is None:
        return
    written: Wire = {}
    if options.mode is not None:
        written["mode"] = options.mode
    if options.ttl == "30m":
        written["ttl"] = options.ttl
    elif options.ttl is not None:
        losses.dropped("prompt_cache_options.ttl", f"{label} has no ttl {options.ttl}")
    carrier.carry(options.extras, written, "prompt_cache_options")
    if written:
        wire["prompt_cache_options"] = written


def _write_stream_options(
    request: Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    options: Wire = {}
    copy_present(request, ("include_usage", "include_obfuscation"), options)
    if options and capabilities.stream_options:
        wire["stream_options"] = options
        return
    for name in options:
        losses.dropped(name, "the backend takes no stream_options")
