"""Writer of requests for Responses backends."""

import msgspec
from msgspec import Raw

from adapters.capabilities import Capabilities
from adapters.ir import types as ir
from adapters.losses import Losses
from adapters.responses.item_writer import ItemWriter
from adapters.responses.wire import FAMILY, INCLUDE_LOGPROBS, LABEL, NAMES, Wire
from adapters.tool_emulation.tool_search import items_with_tools, tools_visible_to_backend
from adapters.tool_selection import ToolSupport, select_tools
from adapters.wire.extra_fields import ExtrasWriter, copy_present, drop_unsupported_fields
from adapters.wire.json_schema import parameters_schema
from adapters.wire.tools import (
    report_unused_settings,
    without_strict,
    write_parallel_tool_calls,
    write_schema_format,
    write_tool_head,
)

# Fields with the same name and form as in the IR.
_SAME_FIELDS = (
    "temperature",
    "top_p",
    "top_logprobs",
    "stream",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "moderation",
)
_MIN_OUTPUT_TOKENS = 16
_ENCODER = msgspec.json.Encoder()


def write_request(request: ir.Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Convert a request to the body of a `/responses` request."""
    wire: Wire = {"model": request.model} if request.model is not None else {}
    if request.instructions is not None:
        wire["instructions"] = request.instructions
    wire["input"] = ItemWriter(capabilities, losses).write(request)
    extras = ExtrasWriter(FAMILY, LABEL, losses)
    _write_tools(request, capabilities, losses, extras, wire)
    _write_settings(request, capabilities, losses, extras, wire)
    if request.store is not None:
        wire["store"] = request.store
    elif "store" not in capabilities.unsupported_fields:
        wire["store"] = False
        reason = f"{LABEL} stores replies by default; sent as false"
        losses.invented("store", reason, "adapted")
    ExtrasWriter(FAMILY, LABEL, losses, capabilities.extra_fields).carry(request.extras, wire)
    _write_logprobs(request, losses, wire)
    if request.choices not in (None, 1):
        losses.dropped("choices", f"{LABEL} supports only one choice", "meaning")
    drop_unsupported_fields(wire, capabilities.unsupported_fields, NAMES, losses)
    return _ENCODER.encode(wire)


# Tools


def supports_tool(tool: ir.Tool, capabilities: Capabilities) -> bool:
    """Whether a tool can be declared unchanged to a Responses backend."""
    match tool:
        case ir.FunctionTool():
            return True
        case ir.CustomTool():
            return capabilities.custom_tools is not False
        case ir.HostedTool():
            # Types may end in a date or in "preview".
            types = capabilities.tool_types
            return types is None or tool.kind.startswith(types)


def _write_tools(
    request: ir.Request,
    capabilities: Capabilities,
    losses: Losses,
    extras: ExtrasWriter,
    wire: Wire,
) -> None:
    support = ToolSupport(
        lambda tool: supports_tool(tool, capabilities),
        capabilities.allowed_tools is not False,
        allowed_tools_lists_hosted=True,
        visible=tuple(tools_visible_to_backend(items_with_tools(request), FAMILY)),
        choices=capabilities.tool_choices,
        requires_choice=capabilities.explicit_tool_choice,
    )
    selection = select_tools(request, support, losses)
    if not selection:
        report_unused_settings(request, losses)
        return
    if selection.tools:
        wire["tools"] = [
            _write_tool(without_strict(tool, path, capabilities, losses), path, extras, losses)
            for tool, path in selection.tools
        ]
    if selection.choice is not None:
        wire["tool_choice"] = write_tool_choice(selection.choice)
    write_parallel_tool_calls(request, capabilities, losses, wire)


def _write_tool(tool: ir.Tool, path: str, extras: ExtrasWriter, losses: Losses) -> Wire | Raw:
    if isinstance(tool, ir.HostedTool):
        return tool.value
    is_function = isinstance(tool, ir.FunctionTool)
    wire: Wire = {"type": "function" if is_function else "custom"} | write_tool_head(tool)
    if isinstance(tool, ir.FunctionTool):
        wire["parameters"] = parameters_schema(tool.parameters, path, losses)
        # If `strict` were missing, OpenAI would be strict, and its models would give every optional
        # field a value (https://github.com/open-webui/open-webui/issues/27750).
        wire["strict"] = tool.strict
    elif tool.format == "grammar":
        wire["format"] = {"type": "grammar", "syntax": tool.syntax, "definition": tool.definition}
    elif tool.format == "text":
        wire["format"] = {"type": "text"}
    extras.carry(tool.extras, wire, path)
    return wire


def echo_tool(tool: ir.Tool, extras: ExtrasWriter, losses: Losses) -> Wire | Raw:
    """Write a tool for a response object, in which Open Responses requires all function fields."""
    if not isinstance(tool, ir.FunctionTool):
        return _write_tool(tool, "tools", extras, losses)
    wire: Wire = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    extras.carry(tool.extras, wire, "tools")
    return wire


def write_tool_choice(choice: ir.ToolChoice) -> str | Wire | Raw:
    """Write a tool choice."""
    match choice:
        case ir.ToolChoiceMode():
            return choice.mode
        case ir.NamedToolChoice():
            namespace = {} if choice.namespace is None else {"namespace": choice.namespace}
            return {"type": choice.kind, "name": choice.name, **namespace}
        case ir.AllowedToolsChoice():
            tools = [*map(write_tool_choice, choice.tools), *choice.others]
            return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
        case ir.HostedChoice():
            return choice.value


# Settings


def _write_settings(
    request: ir.Request,
    capabilities: Capabilities,
    losses: Losses,
    extras: ExtrasWriter,
    wire: Wire,
) -> None:
    """Write the fields of the IR other than input and tools."""
    copy_present(request, _SAME_FIELDS, wire)
    limit = request.max_output_tokens
    if limit is not None:
        if limit < _MIN_OUTPUT_TOKENS:
            losses.changed("max_output_tokens", f"{LABEL} requires at least {_MIN_OUTPUT_TOKENS}")
        wire["max_output_tokens"] = max(limit, _MIN_OUTPUT_TOKENS)
    _write_text(request, losses, extras, wire)
    if request.effort is not None:
        wire["reasoning"] = {"effort": request.effort}
    _write_penalties(request, capabilities, losses, wire)
    options = request.prompt_cache_options
    if options is not None:
        fields = {"mode": options.mode, "ttl": options.ttl}
        written: Wire = {name: value for name, value in fields.items() if value is not None}
        extras.carry(options.extras, written, "prompt_cache_options")
        wire["prompt_cache_options"] = written
    if request.stream and request.include_obfuscation is not None:
        if capabilities.stream_options:
            wire["stream_options"] = {"include_obfuscation": request.include_obfuscation}
        else:
            losses.dropped("include_obfuscation", "the backend does not support stream_options")


def _write_text(request: ir.Request, losses: Losses, extras: ExtrasWriter, wire: Wire) -> None:
    text: Wire = {}
    if request.format is not None:
        if request.format.kind == "json_schema" and request.format.schema is None:
            losses.dropped("format.schema", f"{LABEL} requires a schema", "meaning")
        text["format"] = _write_format(request.format, extras, losses)
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    if text:
        wire["text"] = text


def _write_format(format_: ir.ResponseFormat, extras: ExtrasWriter, losses: Losses) -> Wire:
    if format_.kind != "json_schema":
        if format_.schema is not None:
            reason = f"{format_.kind} does not support a schema"
            losses.dropped("format.schema", reason, "capability")
        wire: Wire = {"type": format_.kind}
    else:
        wire = {"type": "json_schema"} | write_schema_format(format_, losses)
    extras.carry(format_.extras, wire, "format")
    return wire


def echo_format(format_: ir.ResponseFormat | None, extras: ExtrasWriter, losses: Losses) -> Wire:
    """Write the format of the text for a response object, with all fields."""
    if format_ is None:
        return {"type": "text"}
    wire = _write_format(format_, extras, losses)
    if format_.kind == "json_schema":
        wire = {"type": "json_schema", "name": None, "description": None, "strict": False} | wire
    return wire


def _write_penalties(
    request: ir.Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    """Write the penalties, which Open Responses supports and OpenAI does not."""
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(request, name)
        if value and capabilities.penalties:
            wire[name] = value
        elif value:
            losses.dropped(name, f"{LABEL} does not support penalties", "capability")


def _write_logprobs(request: ir.Request, losses: Losses, wire: Wire) -> None:
    if request.logprobs:
        others = request.find_extra(FAMILY, "include")
        included = [] if others is None else msgspec.json.decode(others, type=list[str])
        wire["include"] = [*included, INCLUDE_LOGPROBS]
    elif request.top_logprobs:
        losses.dropped("top_logprobs", "`logprobs: true` is required", "meaning")
