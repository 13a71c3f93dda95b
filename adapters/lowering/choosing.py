"""Says which tools to use in the words that the backend has for them."""

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.conversation import Allowed, Hosted, HostedChoice, Mode, Named, ToolChoice
from adapters.fields import read_fields
from adapters.lowering.builtins import KINDS
from adapters.lowering.table import Entry, Table

# A name that only a choice has.
_KINDS = {**KINDS, "computer_use": "computer"}


def lowered_choice(choice: ToolChoice | None, table: Table) -> ToolChoice | None:
    """Give the choice among the tools as they are told."""
    match choice:
        case None | Mode():
            return choice
        case Named():
            return _lowered_name(choice, table)
        case Allowed():
            return _lowered_list(choice, table)
        case HostedChoice():
            found = _found(choice.value, choice.kind, table)
            return found[0] if len(found) == 1 else choice


def chosen(choice: ToolChoice | None, table: Table) -> tuple[Entry, ...]:
    """Give the tools that a choice names, by themselves or with all of their namespace."""
    match choice:
        case Named():
            entry = table.named(choice)
            return () if entry is None else (entry,)
        case Allowed():
            spaces = [_namespace(raw, read_fields(raw).text("type") or "") for raw in choice.others]
            within = [entry for space in spaces for entry in table.in_namespace(space)]
            return (*(one for named in choice.tools for one in chosen(named, table)), *within)
        case HostedChoice():
            return table.in_namespace(_namespace(choice.value, choice.kind))
        case None | Mode():
            return ()


def must_call(choice: ToolChoice | None) -> bool:
    """Tell whether a tool must be called, whichever."""
    return isinstance(choice, Mode | Allowed) and choice.mode == "required"


def _namespace(raw: Raw, kind: str) -> str | None:
    """Give the namespace that a choice names."""
    return read_fields(raw).text("name") if kind == "namespace" else None


def _lowered_name(named: Named, table: Table) -> Named | HostedChoice:
    """Name a tool; one that the backend knows by its kind has no name there."""
    entry = table.named(named)
    if entry is None:
        return named
    if isinstance(entry.tool, Hosted) and entry.told_kind != "function":
        kind = entry.tool.kind
        return HostedChoice(kind, Raw(msgspec.json.encode({"type": kind})))
    if named.namespace is None and table.is_only(entry):
        # The API has no word for it, and the name is enough.
        return replace(_named(entry), namespace=None)
    return _named(entry)


def _named(entry: Entry) -> Named:
    return Named(entry.told_name, entry.told_kind, entry.told_namespace)


def _lowered_list(allowed: Allowed, table: Table) -> Allowed:
    """List the tools; what became functions is found among those that have no names."""
    lowered = [_lowered_name(named, table) for named in allowed.tools]
    tools = [one for one in lowered if isinstance(one, Named)]
    others = [one.value for one in lowered if isinstance(one, HostedChoice)]
    for raw in allowed.others:
        found = _found(raw, read_fields(raw).text("type") or "", table)
        tools += found
        others += [] if found else [raw]
    return replace(allowed, tools=tuple(tools), others=tuple(others))


def _found(raw: Raw, kind: str, table: Table) -> list[Named]:
    """Find the functions that stand for a tool without a name, or for all of a namespace."""
    if kind == "namespace":
        within = table.in_namespace(_namespace(raw, kind))
        return [_named(entry) for entry in within if entry.told_namespace is None]
    entry = table.of_kind(_KINDS.get(kind, kind))
    if entry is None or entry.told_kind != "function":
        return []
    return [_named(entry)]
