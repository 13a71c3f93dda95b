"""Writes a request for a Chat backend."""

import msgspec

from adapters.capabilities import Capabilities
from adapters.chat.message_writer import MessageWriter
from adapters.chat.tool_writer import (
    write_choice,
    write_format,
    write_tool,
    write_web_search,
)
from adapters.chat.wire import NAMES
from adapters.ir.types import (
    CustomTool,
    FunctionTool,
    HostedChoice,
    HostedTool,
    Request,
    Tool,
    ToolChoiceMode,
)
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.settings import copy_present, drop_refused
from adapters.wire.tools import without_strict, write_parallel_tool_calls

Wire = dict[str, object]

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
    carrier = ExtrasWriter("completions", MessageWriter.label, losses, capabilities.forward)
    messages = MessageWriter(request, capabilities, losses).write(request.instructions)
    wire: Wire = {"model": request.model} if request.model is not None else {}
    wire["messages"] = messages
    _write_tools(request, capabilities, losses, wire)
    write_settings(request, MessageWriter.label, capabilities, losses, wire)
    if request.max_output_tokens is not None:
        name = "max_tokens" if capabilities.max_tokens else "max_completion_tokens"
        wire[name] = request.max_output_tokens
    carrier.carry(request.extras, wire)
    drop_refused(wire, capabilities.refuses, NAMES, losses)
    return _ENCODER.encode(wire)


def takes_tool(tool: Tool, capabilities: Capabilities) -> bool:
    """Tell whether a Chat backend can be told of a tool as it is."""
    match tool:
        case FunctionTool():
            return True
        case CustomTool():
            return bool(capabilities.custom_tools)
        case HostedTool():
            return capabilities.web_search and tool.kind.startswith("web_search")


def _write_tools(request: Request, capabilities: Capabilities, losses: Losses, wire: Wire) -> None:
    """Write the tools, and what is said of their use; with none left, nothing is said (P016)."""
    abilities = ToolSupport(
        lambda tool: takes_tool(tool, capabilities),
        capabilities.allowed_tools,
        choices=capabilities.tool_choices,
        choice_needed=capabilities.tool_choice_needed,
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
