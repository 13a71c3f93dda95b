"""Says which tools to use in the words that the backend has for them."""

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.ir.types import (
    AllowedToolsChoice,
    HostedChoice,
    HostedTool,
    NamedToolChoice,
    ToolChoice,
    ToolChoiceMode,
)
from adapters.tool_emulation.builtin_tools import CALL_KINDS
from adapters.tool_emulation.registry import RegisteredTool, ToolRegistry
from adapters.wire.json_object import read_fields

# A name that only a choice has.
_KINDS = {**CALL_KINDS, "computer_use": "computer"}


def emulate_tool_choice(choice: ToolChoice | None, table: ToolRegistry) -> ToolChoice | None:
    """Give the choice among the tools as they are told."""
    match choice:
        case None | ToolChoiceMode():
            return choice
        case NamedToolChoice():
            return _lowered_name(choice, table)
        case AllowedToolsChoice():
            return _lowered_list(choice, table)
        case HostedChoice():
            found = _found(choice.value, choice.kind, table)
            return found[0] if len(found) == 1 else choice


def tools_named_by_choice(
    choice: ToolChoice | None, table: ToolRegistry
) -> tuple[RegisteredTool, ...]:
    """Give the tools that a choice names, by themselves or with all of their namespace."""
    match choice:
        case NamedToolChoice():
            entry = table.by_choice(choice)
            return () if entry is None else (entry,)
        case AllowedToolsChoice():
            spaces = [
                _namespace(raw, read_fields(raw).string("type") or "") for raw in choice.others
            ]
            within = [entry for space in spaces for entry in table.in_namespace(space)]
            return (
                *(one for named in choice.tools for one in tools_named_by_choice(named, table)),
                *within,
            )
        case HostedChoice():
            return table.in_namespace(_namespace(choice.value, choice.kind))
        case None | ToolChoiceMode():
            return ()


def must_call(choice: ToolChoice | None) -> bool:
    """Tell whether a tool must be called, whichever."""
    return isinstance(choice, ToolChoiceMode | AllowedToolsChoice) and choice.mode == "required"


def _namespace(raw: Raw, kind: str) -> str | None:
    """Give the namespace that a choice names."""
    return read_fields(raw).string("name") if kind == "namespace" else None


def _lowered_name(named: NamedToolChoice, table: ToolRegistry) -> NamedToolChoice | HostedChoice:
    """Name a tool; one that the backend knows by its kind has no name there."""
    entry = table.by_choice(named)
    if entry is None:
        return named
    if isinstance(entry.tool, HostedTool) and entry.backend_kind != "function":
        kind = entry.tool.kind
        return HostedChoice(kind, Raw(msgspec.json.encode({"type": kind})))
    if named.namespace is None and table.has_unique_backend_name(entry):
        # The API has no word for it, and the name is enough.
        return replace(_named(entry), namespace=None)
    return _named(entry)


def _named(entry: RegisteredTool) -> NamedToolChoice:
    return NamedToolChoice(entry.backend_name, entry.backend_kind, entry.backend_namespace)


def _lowered_list(allowed: AllowedToolsChoice, table: ToolRegistry) -> AllowedToolsChoice:
    """List the tools; what became functions is found among those that have no names."""
    lowered = [_lowered_name(named, table) for named in allowed.tools]
    tools = [one for one in lowered if isinstance(one, NamedToolChoice)]
    others = [one.value for one in lowered if isinstance(one, HostedChoice)]
    for raw in allowed.others:
        found = _found(raw, read_fields(raw).string("type") or "", table)
        tools += found
        others += [] if found else [raw]
    return replace(allowed, tools=tuple(tools), others=tuple(others))


def _found(raw: Raw, kind: str, table: ToolRegistry) -> list[NamedToolChoice]:
    """Find the functions that stand for a tool without a name, or for all of a namespace."""
    if kind == "namespace":
        within = table.in_namespace(_namespace(raw, kind))
        return [_named(entry) for entry in within if entry.backend_namespace is None]
    entry = table.by_kind(_KINDS.get(kind, kind))
    if entry is None or entry.backend_kind != "function":
        return []
    return [_named(entry)]
