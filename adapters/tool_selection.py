"""Decides which tools are declared to a backend and which choice is made among them.

One place for every dialect: what a target cannot declare is dropped and reported, a choice that
needs what is no longer there is refused (P014), and `allowed_tools` becomes a shorter declaration
where the backend does not know it.
"""

from collections.abc import Callable, Iterable

from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.capabilities import ToolChoiceWord
from adapters.errors import UnsupportedRequestError
from adapters.ir.types import (
    AllowedToolsChoice,
    FunctionTool,
    HostedChoice,
    HostedTool,
    NamedToolChoice,
    Request,
    Tool,
    ToolChoice,
    ToolChoiceMode,
)
from adapters.losses import Losses
from adapters.tool_emulation.names import Identity, tool_identities
from adapters.wire.json_object import read_fields

Placed = tuple[Tool, str]

# What tells servers of tools apart.
_LABEL = "server_label"


class Selection(Struct, frozen=True):
    """The tools to declare, each with its path in the request, and the choice among them."""

    tools: tuple[Placed, ...]
    choice: ToolChoice | None
    # The tools that the backend finds in the items: there to be chosen, without being declared.
    visible: tuple[Placed, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tools or self.visible)

    def identities(self) -> frozenset[Identity]:
        """Give how the tools that the client itself runs are called."""
        return _identities(self.tools + self.visible)


def _identities(placed: Iterable[Placed]) -> frozenset[Identity]:
    return frozenset(one for tool, path in placed for one in tool_identities(tool, path))


def _resolve(named: NamedToolChoice, known: frozenset[Identity]) -> frozenset[Identity]:
    """Find the tool that is named; nobody needs to say the namespace of one."""
    exact = (named.namespace, named.name)
    if exact in known or named.namespace is not None:
        return known & {exact}
    return frozenset(one for one in known if one[1] == named.name)


class ToolSupport(Struct, frozen=True):
    """What a backend can be told of tools."""

    can_declare: Callable[[Tool], bool]
    allowed_tools: bool
    # Whether `allowed_tools` may list tools that run elsewhere.
    allowed_tools_lists_hosted: bool = False
    # The tools that it finds in the items that it is sent.
    visible: tuple[Placed, ...] = ()
    # The other choices that it can be told, and whether it must be told one.
    choices: tuple[ToolChoiceWord, ...] = ("auto", "none", "required", "named")
    requires_choice: bool = False


def select(request: Request, abilities: ToolSupport, losses: Losses) -> Selection:
    """Choose what to declare and what to force."""
    declared: list[Placed] = []
    for tool, path in request.tools_with_paths():
        if abilities.can_declare(tool):
            declared.append((tool, path))
        else:
            losses.dropped(path, f"the backend has no {_describe(tool)}", "capability")
    selection = Selection(tuple(declared), request.tool_choice, abilities.visible)
    if isinstance(selection.choice, AllowedToolsChoice):
        selection = _select_allowed(request, selection, selection.choice, abilities, losses)
    selection = _approximate_choice(_checked(request, selection, losses), abilities, losses)
    if abilities.requires_choice and selection and selection.choice is None:
        return replace(selection, choice=ToolChoiceMode("auto"))
    return selection


def _approximate_choice(selection: Selection, abilities: ToolSupport, losses: Losses) -> Selection:
    """Say a choice that the backend cannot be told in another way, as nearly as may be."""
    match selection.choice:
        case NamedToolChoice() as named if "named" not in abilities.choices:
            why = "the backend cannot be made to call one tool; only that one is declared"
            losses.changed("tool_choice", why)
            only = _having(selection.tools, _resolve(named, selection.identities()))
            narrowed = replace(selection, tools=only, choice=ToolChoiceMode("required"))
            return _approximate_choice(narrowed, abilities, losses)
        case ToolChoiceMode(mode="required") if "required" not in abilities.choices:
            return replace(selection, choice=_demand(selection, abilities, losses))
        case ToolChoiceMode(mode="none") if "none" not in abilities.choices:
            why = "the backend cannot be told to call nothing; no tool is declared"
            losses.changed("tool_choice", why)
            return Selection((), None)
        case _:
            return selection


def _having(placed: tuple[Placed, ...], wanted: frozenset[Identity]) -> tuple[Placed, ...]:
    """Give the tools that are wanted, and the namespaces that have any of them."""
    return tuple(one for one in placed if not wanted.isdisjoint(tool_identities(*one)))


def _demand(selection: Selection, abilities: ToolSupport, losses: Losses) -> ToolChoice:
    """Demand a call of a backend that cannot be told `required`: where there is just one tool."""
    match selection.tools:
        case ((FunctionTool(name=name), _),) if "named" in abilities.choices:
            return NamedToolChoice(name)
        case _:
            why = "the backend cannot be made to call a tool; it becomes auto"
            losses.changed("tool_choice", why, "capability")
            return ToolChoiceMode("auto")


def _describe(tool: Tool) -> str:
    return f"tool {tool.kind}" if isinstance(tool, HostedTool) else f"custom tools ({tool.name})"


def _select_allowed(
    request: Request,
    selection: Selection,
    allowed: AllowedToolsChoice,
    abilities: ToolSupport,
    losses: Losses,
) -> Selection:
    """Keep `allowed_tools` where the backend knows it; elsewhere declare only what it lists."""
    if allowed.mode == "none":
        return replace(selection, choice=ToolChoiceMode("none"))
    known = _identities(request.tools_with_paths()) | _identities(selection.visible)
    undeclared = [one.name for one in allowed.tools if not _resolve(one, known)]
    if undeclared:
        why = f"allowed_tools lists tools that are not declared: {', '.join(undeclared)}"
        raise UnsupportedRequestError("tool_choice", why)
    hosted = _hosted(selection, allowed)
    kept = _without_missing(selection, allowed, abilities, losses)
    if not kept.tools and not kept.others and not hosted:
        raise UnsupportedRequestError(
            "tool_choice", "allowed_tools leaves no tool that the backend has"
        )
    if abilities.allowed_tools and abilities.allowed_tools_lists_hosted:
        return replace(selection, choice=kept)
    if abilities.allowed_tools and kept.tools:
        # What runs elsewhere cannot be listed: it is there, or it is not.
        local = (one for one in selection.tools if not isinstance(one[0], HostedTool))
        return replace(selection, tools=(*local, *hosted), choice=kept)
    has_none = "the backend has no allowed_tools"
    why = "allowed_tools cannot list what runs elsewhere" if abilities.allowed_tools else has_none
    losses.changed("tool_choice", f"{why}; only the listed tools are declared")
    return _narrowed(selection, kept, hosted)


def _narrowed(
    selection: Selection, kept: AllowedToolsChoice, hosted: tuple[Placed, ...]
) -> Selection:
    """Declare only what is listed."""
    known = selection.identities()
    listed = frozenset(one for named in kept.tools for one in _resolve(named, known))
    tools = (*_having(selection.tools, listed), *hosted)
    if kept.mode == "required" and len(tools) == len(kept.tools) == 1:
        return replace(selection, tools=tools, choice=kept.tools[0])
    return replace(selection, tools=tools, choice=ToolChoiceMode(kept.mode))


def _hosted(selection: Selection, allowed: AllowedToolsChoice) -> tuple[Placed, ...]:
    """Give the tools that run elsewhere, as far as a list has them."""
    return tuple(
        (tool, path)
        for tool, path in selection.tools
        if isinstance(tool, HostedTool) and any(_lists(raw, tool) for raw in allowed.others)
    )


def _lists(raw: Raw, tool: HostedTool) -> bool:
    """Tell whether an entry of a list is a tool; servers of tools have labels besides."""
    entry = read_fields(raw)
    label = entry.peek(_LABEL)
    alike = _is_alike(tool.kind, entry.peek("type") or "")
    return alike and label in (None, read_fields(tool.value).peek(_LABEL))


def _without_missing(
    selection: Selection, allowed: AllowedToolsChoice, abilities: ToolSupport, losses: Losses
) -> AllowedToolsChoice:
    """Take out of the list what the backend has not, or what it cannot list."""
    known = selection.identities()
    kept = tuple(one for one in allowed.tools if _resolve(one, known))
    lists_all = abilities.allowed_tools_lists_hosted and abilities.allowed_tools
    there = [tool for tool, _ in selection.tools if isinstance(tool, HostedTool)]
    missing = not lists_all and not all(
        any(_lists(raw, tool) for tool in there) for raw in allowed.others
    )
    if len(kept) < len(allowed.tools) or missing:
        losses.changed("tool_choice", "tools that the backend has not leave the list", "capability")
    return AllowedToolsChoice(allowed.mode, kept, allowed.others if lists_all else ())


def _checked(request: Request, selection: Selection, losses: Losses) -> Selection:
    """Refuse a choice that cannot be made; leave out one that has nothing to choose from."""
    match selection.choice:
        case NamedToolChoice(name=name) as named if not _resolve(named, selection.identities()):
            declared = _resolve(named, _identities(request.tools_with_paths()))
            why = f"the backend cannot be given {name}" if declared else f"{name} is not declared"
            losses.dropped("tool_choice", why, "meaning")
        case HostedChoice(kind=kind) if not _has_hosted(selection, kind):
            losses.dropped("tool_choice", f"the backend has no tool {kind}", "meaning")
        case ToolChoiceMode(mode="required") if not selection:
            losses.dropped("tool_choice", "there is no tool to call", "meaning")
        case _:
            pass
    return selection or Selection((), None)


def _has_hosted(selection: Selection, kind: str) -> bool:
    """Tell whether a hosted tool is there."""
    return any(
        isinstance(tool, HostedTool) and _is_alike(tool.kind, kind)
        for tool, _ in selection.tools + selection.visible
    )


def _is_alike(kind: str, other: str) -> bool:
    """Tell whether two types are of one tool: `web_search` has names with dates and previews."""
    return kind.startswith(other) or other.startswith(kind)
