"""Writer of requests for Chat backends."""

from functools import partial

import msgspec
from msgspec import Raw

from adapters.capabilities import Capabilities
from adapters.chat.message_writer import MessageWriter
from adapters.chat.wire import LABEL, NAMES, Wire, extras_writer
from adapters.ir import types as ir
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select_tools
from adapters.wire.extra_fields import ExtrasWriter, copy_present, drop_unsupported_fields
from adapters.wire.json_object import read_fields
from adapters.wire.json_schema import is_strict, parameters_schema
from adapters.wire.tools import (
    report_unused_settings,
    without_strict,
    write_parallel_tool_calls,
    write_schema_format,
    write_tool_head,
)

# Fields that have the same name and meaning in the IR and in Chat.
_SAME_FIELDS = (
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
_SEARCH_OPTIONS = "web_search_options"
_ENCODER = msgspec.json.Encoder()


def write_request(request: ir.Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Write a request."""
    wire: Wire = {"model": request.model} if request.model is not None else {}
    wire["messages"] = MessageWriter(request, capabilities, losses).write()
    _write_tools(request, capabilities, losses, wire)
    write_settings(request, LABEL, capabilities, losses, wire)
    if request.max_output_tokens is not None:
        wire[capabilities.max_tokens_field] = request.max_output_tokens
    extras_writer(losses, forward=capabilities.extra_fields).carry(request.extras, wire)
    drop_unsupported_fields(wire, capabilities.unsupported_fields, NAMES, losses)
    return _ENCODER.encode(wire)


# Tools


def supports_tool(tool: ir.Tool, capabilities: Capabilities) -> bool:
    """Whether a tool can be declared unchanged to a Chat backend."""
    match tool:
        case ir.FunctionTool():
            return True
        case ir.CustomTool():
            return bool(capabilities.custom_tools)
        case ir.HostedTool():
            return capabilities.web_search_options and tool.kind.startswith("web_search")


def _write_tools(
    request: ir.Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    """Write the tools and their settings, but nothing if there are no tools.

    Servers reject an empty list (https://github.com/vllm-project/vllm/issues/39780).
    """
    support = ToolSupport(
        partial(supports_tool, capabilities=capabilities),
        bool(capabilities.allowed_tools),
        choices=capabilities.tool_choices,
        requires_choice=capabilities.explicit_tool_choice,
    )
    selection = select_tools(request, support, losses)
    has_search = capabilities.web_search_options and any(
        isinstance(tool, ir.HostedTool) for tool, _ in selection.tools
    )
    if isinstance(selection.choice, ir.HostedChoice) or (
        has_search
        and len(selection.tools) == 1
        and selection.choice == ir.ToolChoiceMode("required")
    ):
        losses.dropped("tool_choice", "Chat Completions cannot force a web search", "meaning")
    extras = extras_writer(losses)
    tools: list[Wire] = []
    for tool, path in selection.tools:
        if not isinstance(tool, ir.HostedTool):
            supported = without_strict(tool, path, capabilities, losses)
            tools.append(_write_tool(supported, path, extras, losses))
        elif _SEARCH_OPTIONS in wire:
            losses.dropped(path, "Chat Completions supports only one web search tool")
        elif selection.choice == ir.ToolChoiceMode("none"):
            losses.dropped(path, "the tool choice excludes this tool; not declared", "adapted")
        else:
            wire[_SEARCH_OPTIONS] = _write_web_search(tool, path, losses)
    if tools:
        wire["tools"] = tools
        if selection.choice is not None:
            wire["tool_choice"] = _write_choice(selection.choice)
        write_parallel_tool_calls(request, capabilities, losses, wire)
        is_given = any(extra.name == "tool_stream" for extra in request.extras)
        if request.stream and capabilities.tool_stream and not is_given:
            wire["tool_stream"] = True
            losses.invented("tool_stream", "the backend streams arguments only with it", "adapted")
    elif _SEARCH_OPTIONS not in wire:
        report_unused_settings(request, losses)


def _write_tool(tool: ir.Tool, path: str, extras: ExtrasWriter, losses: Losses) -> Wire:
    match tool:
        case ir.FunctionTool():
            function = write_function(tool, path, extras, losses)
            # By default, the Responses API applies strict mode if the schema allows it.
            if is_strict(tool.parameters) if tool.strict is None else tool.strict:
                function["strict"] = True
            return {"type": "function", "function": function}
        case ir.CustomTool():
            return {"type": "custom", "custom": _write_custom(tool, path, extras)}
        case ir.HostedTool():
            raise AssertionError(f"Chat has no tool {tool.kind}")


def write_function(tool: ir.FunctionTool, path: str, extras: ExtrasWriter, losses: Losses) -> Wire:
    """Write the fields of a function that Chat and legacy share."""
    wire = write_tool_head(tool)
    wire["parameters"] = parameters_schema(tool.parameters, path, losses)
    extras.carry(tool.extras, wire, path)
    return wire


def _write_custom(tool: ir.CustomTool, path: str, extras: ExtrasWriter) -> Wire:
    wire = write_tool_head(tool)
    if tool.format == "grammar":
        grammar = {"syntax": tool.syntax, "definition": tool.definition}
        wire["format"] = {"type": "grammar", "grammar": grammar}
    elif tool.format == "text":
        wire["format"] = {"type": "text"}
    extras.carry(tool.extras, wire, path)
    return wire


def _write_web_search(tool: ir.HostedTool, path: str, losses: Losses) -> Wire:
    """Write a web search as `web_search_options`."""
    fields = read_fields(tool.value, path)
    fields.string("type")
    wire: Wire = {}
    if (size := fields.string("search_context_size")) is not None:
        wire["search_context_size"] = size
    if (location := fields.nested("user_location")) is not None:
        location.string("type")
        approximate = location.take_remaining()
        wire["user_location"] = {"type": "approximate", "approximate": approximate}
    for name in fields.take_remaining():
        losses.dropped(f"{path}.{name}", "Chat Completions does not support this field")
    return wire


def _write_choice(choice: ir.ToolChoice) -> str | Wire | Raw:
    match choice:
        case ir.ToolChoiceMode():
            return choice.mode
        case ir.NamedToolChoice():
            return {"type": choice.kind, choice.kind: {"name": choice.name}}
        case ir.AllowedToolsChoice():
            tools = [*map(_write_choice, choice.tools), *choice.others]
            return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
        case ir.HostedChoice():
            return choice.value


# Settings


def write_settings(
    request: ir.Request, label: str, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    """Write all fields besides messages and tools that Chat and legacy share."""
    extras = extras_writer(losses, label)
    copy_present(request, _SAME_FIELDS, wire)
    if request.choices is not None:
        wire["n"] = request.choices
    if request.stop:
        wire["stop"] = list(request.stop)
    if request.format is not None:
        wire["response_format"] = _write_format(request.format, extras, losses)
    if request.effort is not None:
        wire["reasoning_effort"] = request.effort
    if request.store is not None:
        wire["store"] = request.store
    if request.service_tier == "ultrafast":
        losses.dropped("service_tier", f"{label} does not support ultrafast", "meaning")
    elif request.service_tier is not None:
        wire["service_tier"] = request.service_tier
    if request.prompt_cache_options is not None:
        _write_cache_options(request.prompt_cache_options, label, losses, extras, wire)
    if request.stream:
        _write_stream_options(request, capabilities, losses, wire)


def _write_format(format_: ir.ResponseFormat, extras: ExtrasWriter, losses: Losses) -> Wire:
    if format_.kind != "json_schema":
        wire: Wire = {"type": format_.kind}
        if format_.schema is not None:
            # llama.cpp accepts a schema in `json_object`, too.
            wire["schema"] = format_.schema
        extras.carry(format_.extras, wire, "format")
        return wire
    schema = write_schema_format(format_, losses)
    extras.carry(format_.extras, schema, "format")
    return {"type": "json_schema", "json_schema": schema}


def _write_cache_options(
    options: ir.CacheOptions, label: str, losses: Losses, extras: ExtrasWriter, wire: Wire
) -> None:
    written: Wire = {}
    if options.mode is not None:
        written["mode"] = options.mode
    if options.ttl == "30m":
        written["ttl"] = options.ttl
    elif options.ttl is not None:
        losses.dropped("prompt_cache_options.ttl", f"{label} does not support {options.ttl}")
    extras.carry(options.extras, written, "prompt_cache_options")
    if written:
        wire["prompt_cache_options"] = written


def _write_stream_options(
    request: ir.Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    options: Wire = {}
    copy_present(request, ("include_usage", "include_obfuscation"), options)
    if options and capabilities.stream_options:
        wire["stream_options"] = options
        return
    for name in options:
        losses.dropped(name, "the backend does not support stream_options")
