"""Decides which tools are declared to a backend and which choice is made among them.

One place for every dialect: what a target cannot declare is dropped and reported, a choice that
names what is no longer there is refused (P014), and `allowed_tools` becomes a shorter declaration
where the backend does not know it.
"""

from collections.abc import Callable

from msgspec import Struct

from adapters.conversation import (
    Allowed,
    Hosted,
    HostedChoice,
    Mode,
    Named,
    Request,
    Tool,
    ToolChoice,
)
from adapters.errors import Refused
from adapters.loss import Losses
from adapters.tools import declared_names


class Selection(Struct, frozen=True):
    """The tools to declare, each with its place in the request, and the choice among them."""

    tools: tuple[tuple[int, Tool], ...]
    choice: ToolChoice | None


def select(
    request: Request,
    losses: Losses,
    can_declare: Callable[[Tool], bool],
    *,
    knows_allowed_tools: bool,
) -> Selection:
    """Choose what to declare and what to force."""
    declared: list[tuple[int, Tool]] = []
    for number, tool in enumerate(request.tools):
        if can_declare(tool):
            declared.append((number, tool))
        else:
            losses.dropped(
                f"tools[{number}]", f"the backend has no {_describe(tool)}", "capability"
            )
    selection = Selection(tuple(declared), request.tool_choice)
    if isinstance(selection.choice, Allowed):
        selection = _select_allowed(selection, selection.choice, losses, native=knows_allowed_tools)
    return _checked(selection, losses)


def _describe(tool: Tool) -> str:
    return f"tool {tool.kind}" if isinstance(tool, Hosted) else f"custom tools ({tool.name})"


def _select_allowed(
    selection: Selection, allowed: Allowed, losses: Losses, *, native: bool
) -> Selection:
    """Keep `allowed_tools` where the backend knows it; elsewhere declare only what it lists."""
    names = declared_names(tuple(tool for _, tool in selection.tools))
    missing = [named.name for named in allowed.tools if named.name not in names]
    if missing:
        raise Refused("tool_choice", f"allowed_tools lists undeclared tools: {', '.join(missing)}")
    if native:
        return selection
    if allowed.others:
        losses.dropped("tool_choice", "allowed_tools lists tools that the backend has not")
    listed = {named.name for named in allowed.tools}
    kept = tuple(
        (number, tool)
        for number, tool in selection.tools
        if not isinstance(tool, Hosted) and tool.name in listed
    )
    if not kept:
        raise Refused("tool_choice", "allowed_tools leaves no tool")
    losses.changed("tool_choice", "the backend has no allowed_tools; only those are declared")
    return Selection(kept, _choice_of(allowed))


def _choice_of(allowed: Allowed) -> ToolChoice:
    if allowed.mode == "required" and len(allowed.tools) == 1:
        return allowed.tools[0]
    return Mode(allowed.mode)


def _checked(selection: Selection, losses: Losses) -> Selection:
    """Refuse a choice that cannot be made; leave out one that has nothing to choose from."""
    names = declared_names(tuple(tool for _, tool in selection.tools))
    match selection.choice:
        case Named(name=name) if name not in names:
            losses.dropped("tool_choice", f"there is no tool {name} to call", "meaning")
        case HostedChoice(kind=kind) if not _has_hosted(selection, kind):
            losses.dropped("tool_choice", f"there is no tool {kind} to use", "meaning")
        case Mode(mode="required") if not selection.tools:
            losses.dropped("tool_choice", "there is no tool to call", "meaning")
        case _:
            pass
    return selection if selection.tools else Selection((), None)


def _has_hosted(selection: Selection, kind: str) -> bool:
    return any(
        isinstance(tool, Hosted) and tool.kind.startswith(kind) for _, tool in selection.tools
    )
