"""Reader and writer of requests."""

from msgspec.json import Decoder, encode

from adapters.capabilities import Capabilities
from adapters.ir.types import FunctionTool, NamedToolChoice, Request, ToolChoice, ToolChoiceMode
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select_tools
from adapters.wire.json_object import RequestBody, decode
from tests.fourth_dialect.dialogue import wire

_REQUEST = Decoder(wire.RequestWire)
_SETTINGS = {"model", "stream", "instructions", "temperature", "max_output_tokens"}
_CONTENT = {"items", "paths", "tools", "tool_paths", "tool_choice"}
UNSUPPORTED_FIELDS = frozenset(Request.__struct_fields__) - _SETTINGS - _CONTENT
# Replies always have the usage, and nothing is stored.
_HARMLESS = {"include_usage", "include_obfuscation", "store", "extras"}
_CHOICES = {mode: ToolChoiceMode(mode) for mode in ("auto", "none", "required")}


def read_request(body: RequestBody, _losses: Losses) -> Request:
    received = decode(body.encode(), _REQUEST, "")
    return Request(
        model=received.model,
        stream=received.stream,
        instructions=received.instructions,
        items=tuple(map(wire.read_entry, received.dialogue)),
        paths=tuple(f"dialogue[{number}]" for number in range(len(received.dialogue))),
        tools=tuple(FunctionTool(t.name, t.purpose, t.schema or None) for t in received.tools),
        tool_choice=_read_choice(received.tool_use),
        max_output_tokens=received.limit,
        temperature=received.temperature,
    )


def _read_choice(choice: str | wire.OnlyTool | None) -> ToolChoice | None:
    if isinstance(choice, wire.OnlyTool):
        return NamedToolChoice(choice.only)
    return None if choice is None else _CHOICES.get(choice)


def write_request(request: Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Write a request; report what it cannot carry."""
    choices = capabilities.tool_choices
    support = ToolSupport(
        lambda tool: isinstance(tool, FunctionTool), allowed_tools=False, choices=choices
    )
    selection = select_tools(request, support, losses)
    sent = wire.RequestWire(
        [*wire.write_entries(request.items_with_paths(), losses)],
        request.model,
        request.stream,
        request.instructions,
        request.temperature,
        request.max_output_tokens,
        [
            _write_tool(tool, path, losses)
            for tool, path in selection.tools
            if isinstance(tool, FunctionTool)
        ],
        _write_choice(selection.choice),
    )
    reason = f"{wire.LABEL} has no place for it"
    for name in sorted(UNSUPPORTED_FIELDS - _HARMLESS):
        if getattr(request, name) not in (None, ()):
            losses.dropped(name, reason, "capability")
    for extra in request.extras:
        if extra.severity is not None:
            losses.dropped(extra.name, reason, extra.severity, client_path=True)
    return encode(sent)


def _write_tool(tool: FunctionTool, path: str, losses: Losses) -> wire.ToolWire:
    if tool.strict or tool.extras:
        losses.dropped(path, f"{wire.LABEL} has only name, purpose and schema of a tool")
    if tool.parameters is None:
        return wire.ToolWire(tool.name, tool.description)
    return wire.ToolWire(tool.name, tool.description, tool.parameters)


def _write_choice(choice: ToolChoice | None) -> str | wire.OnlyTool | None:
    match choice:
        case NamedToolChoice(name=name):
            return wire.OnlyTool(name)
        case ToolChoiceMode(mode=mode):
            return mode
        case _:
            return None
