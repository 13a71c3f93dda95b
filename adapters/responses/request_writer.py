"""Writes a request for a Responses backend."""

import msgspec
from msgspec import Raw

from adapters.capabilities import Capabilities
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
from adapters.responses.item_writer import ItemWriter
from adapters.responses.output_writer import LABEL
from adapters.responses.wire import INCLUDE_LOGPROBS, NAMES
from adapters.tool_emulation.tool_search import items_with_tools, tools_visible_to_backend
from adapters.tool_selection import ToolSupport, select
from adapters.wire.extra_fields import ExtrasWriter, copy_present, drop_refused
from adapters.wire.json_schema import parameters_schema
from adapters.wire.tools import without_strict, write_parallel_tool_calls

# Writes tools, tool choices and text formats for the Responses API: everything flat.


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


# Fields that the hub and the Responses API spell and mean alike.
_SAME = (
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
_LEAST_OUTPUT_TOKENS = 16
_ENCODER = msgspec.json.Encoder()


def write_request(request: Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Write a request."""
    carrier = ExtrasWriter("responses", LABEL, losses)
    wire: Wire = {"model": request.model} if request.model is not None else {}
    if request.instructions is not None:
        wire["instructions"] = request.instructions
    wire["input"] = ItemWriter(capabilities, losses).write(request)
    _write_tools(request, capabilities, losses, carrier, wire)
    copy_present(request, _SAME, wire)
    _write_limit(request, losses, wire)
    _write_text(request, losses, carrier, wire)
    if request.effort is not None:
        wire["reasoning"] = {"effort": request.effort}
    _write_penalties(request, capabilities, losses, wire)
    _write_caching(request, carrier, wire)
    _write_stream_options(request, capabilities, losses, wire)
    # Chat keeps nothing unless asked, Responses everything unless told not to.
    wire["store"] = bool(request.store)
    ExtrasWriter("responses", LABEL, losses, capabilities.extra_fields).carry(request.extras, wire)
    _write_logprobs(request, losses, wire)
    _refuse_unsupported(request, losses)
    drop_refused(wire, capabilities.unsupported_fields, NAMES, losses)
    return _ENCODER.encode(wire)


def takes_tool(tool: Tool, capabilities: Capabilities) -> bool:
    """Tell whether a Responses backend can be told of a tool as it is."""
    match tool:
        case FunctionTool():
            return True
        case CustomTool():
            return capabilities.custom_tools is not False
        case HostedTool():
            # Types have dates and previews at their ends.
            types = capabilities.tool_types
            return types is None or tool.kind.startswith(types)


def _write_tools(
    request: Request, capabilities: Capabilities, losses: Losses, carrier: ExtrasWriter, wire: Wire
) -> None:
    abilities = ToolSupport(
        lambda tool: takes_tool(tool, capabilities),
        capabilities.allowed_tools,
        allowed_tools_lists_hosted=True,
        visible=tuple(tools_visible_to_backend(items_with_tools(request), "responses")),
        choices=capabilities.tool_choices,
        requires_choice=capabilities.explicit_tool_choice,
    )
    selection = select(request, abilities, losses)
    if not selection:
        return
    if selection.tools:
        wire["tools"] = [
            write_tool(without_strict(tool, path, capabilities, losses), path, carrier, losses)
            for tool, path in selection.tools
        ]
    if selection.choice is not None:
        wire["tool_choice"] = write_choice(selection.choice)
    write_parallel_tool_calls(request, capabilities, losses, wire)


def _write_limit(request: Request, losses: Losses, wire: Wire) -> None:
    limit = request.max_output_tokens
    if limit is None:
        return
    if limit < _LEAST_OUTPUT_TOKENS:
        losses.changed("max_output_tokens", f"{LABEL} wants at least {_LEAST_OUTPUT_TOKENS}")
    wire["max_output_tokens"] = max(limit, _LEAST_OUTPUT_TOKENS)


def _write_text(request: Request, losses: Losses, carrier: ExtrasWriter, wire: Wire) -> None:
    text: Wire = {}
    if request.format is not None:
        if request.format.kind == "json_schema" and request.format.schema is None:
            losses.dropped("format.schema", f"{LABEL} wants a schema", "meaning")
        text["format"] = write_format(request.format, carrier, losses)
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    if text:
        wire["text"] = text


def _write_penalties(
    request: Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    """Write the penalties where the backend has them: Open Responses does, OpenAI does not."""
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(request, name)
        if not value:
            continue
        if capabilities.penalties:
            wire[name] = value
        else:
            losses.dropped(name, f"{LABEL} has no penalties", "capability")


def _write_stream_options(
    request: Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    if request.include_obfuscation is None or not request.stream:
        return
    if capabilities.stream_options:
        wire["stream_options"] = {"include_obfuscation": request.include_obfuscation}
    else:
        losses.dropped("include_obfuscation", "the backend takes no stream_options")


def _write_caching(request: Request, carrier: ExtrasWriter, wire: Wire) -> None:
    options = request.prompt_cache_options
    if options is None:
        return
    named = {"mode": options.mode, "ttl": options.ttl}
    written: Wire = {key: value for key, value in named.items() if value is not None}
    carrier.carry(options.extras, written, "prompt_cache_options")
    wire["prompt_cache_options"] = written


def _write_logprobs(request: Request, losses: Losses, wire: Wire) -> None:
    if request.logprobs:
        others = request.find_extra("responses", "include")
        included = [] if others is None else msgspec.json.decode(others, type=list[str])
        wire["include"] = [*included, INCLUDE_LOGPROBS]
    elif request.top_logprobs:
        losses.dropped("top_logprobs", "it needs `logprobs: true`", "meaning")


def _refuse_unsupported(request: Request, losses: Losses) -> None:
    """Refuse what would make the answer one to another question."""
    if request.stop:
        losses.dropped("stop", f"{LABEL} has no stop sequences", "meaning")
    if (request.choices or 1) > 1:
        losses.dropped("choices", f"{LABEL} gives one answer", "meaning")
