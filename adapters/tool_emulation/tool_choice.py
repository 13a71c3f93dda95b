"""Emulation of the tool choice of a request."""

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
from adapters.tool_emulation.registry import NAMESPACE, RegisteredTool, ToolRegistry
from adapters.wire.json_object import read_fields

# `computer_use` exists in a tool choice only.
_CALL_KINDS = {**CALL_KINDS, "computer_use": "computer"}


def emulate_tool_choice(choice: ToolChoice | None, registry: ToolRegistry) -> ToolChoice | None:
    """Return the choice in terms of the tools that are declared to the backend."""
    match choice:
        case None | ToolChoiceMode():
            return choice
        case NamedToolChoice():
            return _emulate_named(choice, registry)
        case AllowedToolsChoice():
            return _emulate_allowed(choice, registry)
        case HostedChoice():
            functions = _emulating_functions(choice.value, choice.kind, registry)
            return functions[0] if len(functions) == 1 else choice


def tools_named_by_choice(
    choice: ToolChoice | None, registry: ToolRegistry
) -> tuple[RegisteredTool, ...]:
    """Return the tools that a choice names directly or by their namespace."""
    match choice:
        case NamedToolChoice():
            entry = registry.by_choice(choice)
            return () if entry is None else (entry,)
        case AllowedToolsChoice():
            others = (HostedChoice(_kind(raw), raw) for raw in choice.others)
            choices: tuple[ToolChoice, ...] = (*choice.tools, *others)
            return tuple(tool for one in choices for tool in tools_named_by_choice(one, registry))
        case HostedChoice():
            return registry.in_namespace(_namespace(choice.value, choice.kind))
        case None | ToolChoiceMode():
            return ()


def requires_call(choice: ToolChoice | None) -> bool:
    """Whether the model must call some tool."""
    return isinstance(choice, ToolChoiceMode | AllowedToolsChoice) and choice.mode == "required"


def _kind(raw: Raw) -> str:
    return read_fields(raw).string("type") or ""


def _namespace(raw: Raw, kind: str) -> str | None:
    """Return the namespace that an entry of a choice names; None for other kinds."""
    return read_fields(raw).string("name") if kind == NAMESPACE else None


def _emulate_named(
    choice: NamedToolChoice, registry: ToolRegistry
) -> NamedToolChoice | HostedChoice:
    """Return a choice with the backend name of a tool, or with the type of a built-in tool."""
    entry = registry.by_choice(choice)
    if entry is None:
        return choice
    if isinstance(entry.tool, HostedTool) and entry.backend_kind != "function":
        kind = entry.tool.kind
        return HostedChoice(kind, Raw(msgspec.json.encode({"type": kind})))
    if choice.namespace is None and registry.has_unique_backend_name(entry):
        # Omit the namespace, because the API has no field for it; the name is unique.
        return replace(_backend_choice(entry), namespace=None)
    return _backend_choice(entry)


def _backend_choice(entry: RegisteredTool) -> NamedToolChoice:
    return NamedToolChoice(entry.backend_name, entry.backend_kind, entry.backend_namespace)


def _emulate_allowed(choice: AllowedToolsChoice, registry: ToolRegistry) -> AllowedToolsChoice:
    """Return the choice with backend names; hosted entries may become functions."""
    converted = [_emulate_named(named, registry) for named in choice.tools]
    tools = [one for one in converted if isinstance(one, NamedToolChoice)]
    others = [one.value for one in converted if isinstance(one, HostedChoice)]
    for raw in choice.others:
        functions = _emulating_functions(raw, _kind(raw), registry)
        tools += functions
        others += [] if functions else [raw]
    return replace(choice, tools=tuple(tools), others=tuple(others))


def _emulating_functions(raw: Raw, kind: str, registry: ToolRegistry) -> list[NamedToolChoice]:
    """Return the functions that emulate a built-in tool or all tools of a namespace."""
    if kind == NAMESPACE:
        entries = registry.in_namespace(_namespace(raw, kind))
        return [_backend_choice(entry) for entry in entries if entry.backend_namespace is None]
    entry = registry.by_kind(_CALL_KINDS.get(kind, kind))
    if entry is None or entry.backend_kind != "function":
        return []
    return [_backend_choice(entry)]
