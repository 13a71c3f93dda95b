"""Selection of the tools that are declared to a backend, and of the choice among them.

The request writers of all dialects use this module. Tools that the backend does not support are
dropped and reported. A choice that requires such a tool is rejected, because the model could call
another tool instead (https://github.com/Menci/Floway/issues/17). If the backend does not support
`allowed_tools`, only the allowed tools are declared.
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
from adapters.tool_emulation.registry import ToolIdentity, tool_identities
from adapters.wire.json_object import read_fields

ToolWithPath = tuple[Tool, str]

_AUTO = ToolChoiceMode("auto")

_UNUSED_REASON = "the tool choice excludes this tool; not declared"
_NO_TOOL_REASON = "no tool is declared"

# The limit of OpenAI's APIs, which other servers have adopted.
_USUAL_MAX_TOOLS = 128


class ToolSupport(Struct, frozen=True):
    """The tools and tool choices that a backend accepts."""

    can_declare: Callable[[Tool], bool]
    allowed_tools: bool
    # Whether `allowed_tools` may list hosted tools.
    allowed_tools_lists_hosted: bool = False
    # Tools that are not declared because the backend itself finds them in the items.
    visible: tuple[ToolWithPath, ...] = ()
    # The choices besides `allowed_tools` that the backend accepts, and whether it requires one.
    choices: tuple[ToolChoiceWord, ...] = ("auto", "none", "required", "named")
    requires_choice: bool = False


class Selection(Struct, frozen=True):
    """The tools to declare, and the choice to write."""

    tools: tuple[ToolWithPath, ...]
    choice: ToolChoice | None
    # Tools that can be chosen without a declaration, because the backend finds them in the items.
    visible: tuple[ToolWithPath, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tools or self.visible)

    def identities(self) -> frozenset[ToolIdentity]:
        """Return the identities of all tools with names."""
        return _identities(self.tools + self.visible)


def select_tools(request: Request, support: ToolSupport, losses: Losses) -> Selection:
    """Return the tools and the tool choice of a request that a backend accepts."""
    declared: list[ToolWithPath] = []
    for tool, path in request.tools_with_paths():
        if support.can_declare(tool):
            declared.append((tool, path))
        elif isinstance(tool, HostedTool):
            losses.dropped(path, f"the backend does not support {tool.kind} tools", "capability")
        else:
            reason = f"the backend does not support custom tools ({tool.name})"
            losses.dropped(path, reason, "capability")
    if len(declared) > _USUAL_MAX_TOOLS:
        reason = f"{len(declared)} tools are sent; many backends accept {_USUAL_MAX_TOOLS}"
        losses.changed("tools", reason)
    selection = Selection(tuple(declared), request.tool_choice, support.visible)
    if isinstance(selection.choice, AllowedToolsChoice):
        selection = _select_allowed(request, selection, selection.choice, support, losses)
    if selection.choice is not None:
        selection = _approximate_choice(_check_choice(request, selection, losses), support, losses)
    if selection.choice == _AUTO and "auto" not in support.choices:
        losses.dropped("tool_choice", "auto is the default; not sent", "adapted")
        return replace(selection, choice=None)
    if support.requires_choice and selection and selection.choice is None:
        return replace(selection, choice=ToolChoiceMode("auto"))
    return selection


# Names


def _identities(tools: Iterable[ToolWithPath]) -> frozenset[ToolIdentity]:
    return frozenset(identity for tool, path in tools for identity in tool_identities(tool, path))


def _resolve(choice: NamedToolChoice, known: frozenset[ToolIdentity]) -> frozenset[ToolIdentity]:
    """Return the identities that a choice may mean; it may omit the namespace."""
    exact = (choice.namespace, choice.name)
    if exact in known or choice.namespace is not None:
        return known & {exact}
    return frozenset(identity for identity in known if identity[1] == choice.name)


def _with_identities(
    tools: tuple[ToolWithPath, ...], identities: frozenset[ToolIdentity]
) -> tuple[ToolWithPath, ...]:
    """Return the tools that have one of these identities, and the namespaces with such tools."""
    return tuple(one for one in tools if not identities.isdisjoint(tool_identities(*one)))


# The choice


def _check_choice(request: Request, selection: Selection, losses: Losses) -> Selection:
    """Reject a choice of an unavailable tool; remove any other choice if there are no tools."""
    match selection.choice:
        case NamedToolChoice(name=name) as choice if not _resolve(choice, selection.identities()):
            is_declared = _resolve(choice, _identities(request.tools_with_paths()))
            missing = "supported" if is_declared else "declared"
            losses.dropped("tool_choice", f"the tool {name} is not {missing}", "meaning")
        case HostedChoice(kind=kind) if not _has_hosted(selection, kind):
            losses.dropped("tool_choice", f"the backend does not support {kind} tools", "meaning")
        case ToolChoiceMode(mode="required") if not selection:
            losses.dropped("tool_choice", _NO_TOOL_REASON, "meaning")
        case _ if not selection:
            losses.dropped("tool_choice", _NO_TOOL_REASON, "adapted")
        case _:
            pass
    return selection or Selection((), None)


def _declare_only(
    selection: Selection, tools: tuple[ToolWithPath, ...], losses: Losses
) -> Selection:
    """Return the selection with some of its tools, and report the others."""
    kept = {path for _, path in tools}
    for _, path in selection.tools:
        if path not in kept:
            # How it would be declared does not matter.
            namespace = _namespace_path(path)
            is_empty = namespace and not any(one.startswith(f"{namespace}.") for one in kept)
            losses.forget(namespace if is_empty else path)
            losses.dropped(namespace if is_empty else path, _UNUSED_REASON, "adapted")
    return replace(selection, tools=tools)


def _namespace_path(path: str) -> str:
    """Return the path of the namespace that contains a tool, or an empty string."""
    namespace = path.rpartition(".tools[")[0]
    return namespace if namespace.startswith("tools[") or ".tools[" in namespace else ""


def _approximate_choice(selection: Selection, support: ToolSupport, losses: Losses) -> Selection:
    """Replace a choice that the backend does not accept with the nearest one."""
    match selection.choice:
        case NamedToolChoice() as choice if "named" not in support.choices:
            reason = "forcing one tool is not supported; only this tool is declared"
            losses.changed("tool_choice", reason)
            only = _with_identities(selection.tools, _resolve(choice, selection.identities()))
            narrowed = _declare_only(selection, only, losses)
            required = replace(narrowed, choice=ToolChoiceMode("required"))
            return _approximate_choice(required, support, losses)
        case ToolChoiceMode(mode="required") if "required" not in support.choices:
            return replace(selection, choice=_approximate_required(selection, support, losses))
        case ToolChoiceMode(mode="none") if "none" not in support.choices:
            losses.changed("tool_choice", "none is not supported; no tool is declared")
            return replace(_declare_only(selection, (), losses), choice=None, visible=())
        case _:
            return selection


def _approximate_required(selection: Selection, support: ToolSupport, losses: Losses) -> ToolChoice:
    """Return the choice of the only tool instead of `required`, or else `auto`."""
    match selection.tools:
        case ((FunctionTool(name=name), _),) if "named" in support.choices:
            return NamedToolChoice(name)
        case _:
            losses.changed("tool_choice", "required is not supported; sent as auto", "capability")
            return ToolChoiceMode("auto")


# Allowed tools


def _select_allowed(
    request: Request,
    selection: Selection,
    choice: AllowedToolsChoice,
    support: ToolSupport,
    losses: Losses,
) -> Selection:
    """Keep `allowed_tools` if the backend supports it, or else declare only the listed tools."""
    if choice.mode == "none":
        return replace(selection, choice=ToolChoiceMode("none"))
    _refuse_undeclared(request, selection, choice)
    hosted = tuple(
        (tool, path)
        for tool, path in selection.tools
        if isinstance(tool, HostedTool) and any(_is_entry_of(raw, tool) for raw in choice.others)
    )
    allowed = _without_missing(selection, choice, support, losses)
    if not allowed.tools and not allowed.others and not hosted:
        reason = "none of the tools in allowed_tools is supported"
        raise UnsupportedRequestError("tool_choice", reason)
    if support.allowed_tools and support.allowed_tools_lists_hosted:
        return replace(selection, choice=allowed)
    if support.allowed_tools and allowed.tools:
        # Declare only the allowed hosted tools, because they cannot be listed.
        local = (one for one in selection.tools if not isinstance(one[0], HostedTool))
        return replace(_declare_only(selection, (*local, *hosted), losses), choice=allowed)
    reason = "allowed_tools is not supported"
    if support.allowed_tools:
        reason = "hosted tools are not supported in allowed_tools"
    losses.changed("tool_choice", f"{reason}; only the listed tools are declared")
    return _declare_only_listed(selection, allowed, hosted, losses)


def _refuse_undeclared(request: Request, selection: Selection, choice: AllowedToolsChoice) -> None:
    known = _identities(request.tools_with_paths()) | _identities(selection.visible)
    undeclared = [tool.name for tool in choice.tools if not _resolve(tool, known)]
    if undeclared:
        reason = f"allowed_tools contains tools that are not declared: {', '.join(undeclared)}"
        raise UnsupportedRequestError("tool_choice", reason)


def _declare_only_listed(
    selection: Selection,
    allowed: AllowedToolsChoice,
    hosted: tuple[ToolWithPath, ...],
    losses: Losses,
) -> Selection:
    known = selection.identities()
    listed = frozenset(identity for tool in allowed.tools for identity in _resolve(tool, known))
    tools = (*_with_identities(selection.tools, listed), *hosted)
    narrowed = _declare_only(selection, tools, losses)
    if allowed.mode == "required" and len(tools) == len(allowed.tools) == 1:
        return replace(narrowed, choice=allowed.tools[0])
    return replace(narrowed, choice=ToolChoiceMode(allowed.mode))


def _without_missing(
    selection: Selection, choice: AllowedToolsChoice, support: ToolSupport, losses: Losses
) -> AllowedToolsChoice:
    """Remove the tools that the backend does not support, or cannot list, from the choice."""
    known = selection.identities()
    tools = tuple(tool for tool in choice.tools if _resolve(tool, known))
    lists_hosted = support.allowed_tools_lists_hosted and support.allowed_tools
    hosted = [tool for tool, _ in selection.tools if isinstance(tool, HostedTool)]
    lacks_hosted = not lists_hosted and not all(
        any(_is_entry_of(raw, tool) for tool in hosted) for raw in choice.others
    )
    if len(tools) < len(choice.tools) or lacks_hosted:
        reason = "unsupported tools are removed from allowed_tools"
        losses.changed("tool_choice", reason, "capability")
    return AllowedToolsChoice(choice.mode, tools, choice.others if lists_hosted else ())


# Hosted tools


def _is_entry_of(raw: Raw, tool: HostedTool) -> bool:
    """Whether an entry of `allowed_tools` means this hosted tool; MCP servers also have labels."""
    entry = read_fields(raw)
    label = entry.peek("server_label")
    is_same_type = _is_same_type(tool.kind, entry.peek("type") or "")
    return is_same_type and label in (None, read_fields(tool.value).peek("server_label"))


def _has_hosted(selection: Selection, kind: str) -> bool:
    return any(
        isinstance(tool, HostedTool) and _is_same_type(tool.kind, kind)
        for tool, _ in selection.tools + selection.visible
    )


def _is_same_type(kind: str, other: str) -> bool:
    """Whether two types mean the same tool: one may have a date or "preview" at its end."""
    return kind.startswith(other) or other.startswith(kind)
