"""Requests.

{"model": "m", "stream": true, "instructions": "…", "dialogue": […], "limit": 100,
 "tools": [{"name": "f", "purpose": "…", "schema": {…}}], "tool_use": "auto"}
"""

import msgspec

from adapters.capabilities import Capabilities
from adapters.ir.normalize import unzip
from adapters.ir.types import FunctionTool, NamedToolChoice, Request, ToolChoice, ToolChoiceMode
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select
from adapters.wire.extra_fields import copy_present, drop_refused, unread_fields
from adapters.wire.json_object import JsonObject, RequestBody
from tests.fourth_dialect.dialogue.wire import (
    FAMILY,
    LABEL,
    NAMES,
    Wire,
    extras_writer,
    read_items,
    write_items,
)

_SETTINGS = ("model", "instructions", "stream", "temperature")
_SUPPORTED = {"items", "paths", "tools", "tool_paths", "tool_choice", "max_output_tokens", "extras"}
UNSUPPORTED_FIELDS = frozenset(Request.__struct_fields__) - _SUPPORTED - {*_SETTINGS}
# Replies always have the usage, and nothing is stored.
_HARMLESS = {"include_usage", "include_obfuscation", "store"}
_CHANGES_REPLY = {"choices", "stop", "format", "parallel_tool_calls"}
_MODES: dict[str, ToolChoice] = {
    "auto": ToolChoiceMode("auto"),
    "none": ToolChoiceMode("none"),
    "required": ToolChoiceMode("required"),
}


def read_request(body: RequestBody, _losses: Losses) -> Request:
    """Read a request."""
    fields = body.reader()
    items, paths = unzip([*read_items(fields.array("dialogue"), "dialogue")])
    tools = [(_read_tool(tool), tool.path) for tool in fields.objects("tools")]
    return Request(
        model=fields.string("model"),
        instructions=fields.string("instructions"),
        items=items,
        paths=paths,
        tools=tuple(tool for tool, _ in tools),
        tool_paths=tuple(path for _, path in tools),
        tool_choice=_read_choice(fields),
        max_output_tokens=fields.integer("limit"),
        temperature=fields.number("temperature"),
        stream=fields.boolean("stream"),
        extras=unread_fields(fields, FAMILY),
    )


def _read_tool(fields: JsonObject) -> FunctionTool:
    name, purpose = fields.string("name") or "", fields.string("purpose")
    return FunctionTool(name, purpose, fields.raw("schema"), extras=unread_fields(fields, FAMILY))


def _read_choice(fields: JsonObject) -> ToolChoice | None:
    choice = fields.text_or_fields("tool_use")
    if isinstance(choice, JsonObject):
        return NamedToolChoice(choice.string("only") or "")
    return None if choice is None else _MODES.get(choice)


def write_request(request: Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Write a request; report what it cannot carry."""
    wire: Wire = {}
    copy_present(request, _SETTINGS, wire)
    wire["dialogue"] = write_items(request.items_with_paths(), losses)
    if request.max_output_tokens is not None:
        wire["limit"] = request.max_output_tokens
    _write_tools(request, capabilities, losses, wire)
    for name in sorted(UNSUPPORTED_FIELDS - _HARMLESS):
        if getattr(request, name) not in (None, ()):
            severity = "capability" if name in _CHANGES_REPLY else "hint"
            losses.dropped(name, f"{LABEL} has no place for it", severity)
    extras_writer(losses, capabilities.extra_fields).carry(request.extras, wire)
    drop_refused(wire, capabilities.unsupported_fields, NAMES, losses)
    return msgspec.json.encode(wire)


def _write_tools(request: Request, given: Capabilities, losses: Losses, wire: Wire) -> None:
    support = ToolSupport(
        lambda tool: isinstance(tool, FunctionTool), allowed_tools=False, choices=given.tool_choices
    )
    selection = select(request, support, losses)
    tools: list[Wire] = []
    for tool, path in selection.tools:
        if isinstance(tool, FunctionTool):
            declared: Wire = {"name": tool.name, "purpose": tool.description}
            if tool.parameters is not None:
                declared["schema"] = tool.parameters
            if tool.strict:
                losses.dropped(f"{path}.strict", f"{LABEL} has no strict tools", "capability")
            extras_writer(losses).carry(tool.extras, declared, path)
            tools.append(declared)
    if tools:
        wire["tools"] = tools
    match selection.choice:
        case NamedToolChoice(name=name):
            wire["tool_use"] = {"only": name}
        case ToolChoiceMode(mode=mode):
            wire["tool_use"] = mode
        case _:
            pass
