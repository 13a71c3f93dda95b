"""Declares the tools of a request in the words that its backend has for them."""

from collections.abc import Iterator

from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.errors import UnsupportedRequestError
from adapters.ir.types import CallKind, CustomTool, FunctionTool, HostedTool, Request, Tool
from adapters.losses import Losses
from adapters.tool_emulation import builtin_tools as builtins
from adapters.tool_emulation import custom_tools as grammars
from adapters.tool_emulation import tool_search as searching
from adapters.tool_emulation.registry import (
    BackendToolSupport,
    Identity,
    Namespace,
    RegisteredTool,
    ToolRegistry,
    is_valid_name,
    qualified_name,
    read_namespace,
    without_child_field,
)
from adapters.tool_emulation.tool_choice import must_call, tools_named_by_choice
from adapters.tool_emulation.tool_search import (
    ToolsItem,
    items_with_tools,
    tools_from_items,
    tools_visible_to_backend,
)
from adapters.wire.json_object import read_fields

Placed = tuple[Tool, str]

# A tool that only programs may call, which a server of its family writes and runs.
_PROGRAMS = "programmatic_tool_calling"
_CALLERS = "allowed_callers"
_DIRECT, _PROGRAM = b'"direct"', b'"programmatic"'
_FROM_THE_START = "it is declared from the start"


class Declaration(Struct, frozen=True):
    """One tool: what the backend is told, where it was declared, and what the client runs."""

    # None: the backend is told of it together with others.
    tool: Tool | None
    path: str
    # None: it does not run at the client.
    entry: RegisteredTool | None = None
    # Not declared, but brought along by the history.
    from_history: bool = False
    # To be declared only if a search finds it.
    deferred: bool = False


def declare_tools(
    request: Request, target: BackendToolSupport, losses: Losses
) -> tuple[list[Placed], ToolRegistry]:
    """Give the tools as the backend is told of them, and what each of them is.

    A tool that it is not told of now, because nothing asks for it, it may know from elsewhere: its
    call is that of the tool all the same. So is the call of one that it finds in the items.
    """
    held = items_with_tools(request)
    lines = _without_repeats(_Reader(target, losses).read(request, held), losses)
    found = _select_deferred(request, lines, target, losses)
    told = [(line.tool, line.path) for line in found if line.tool is not None]
    # Of two under one name, what is declared counts.
    entries = {entry.backend_identity: entry for entry in _entries_there(held, target)}
    entries |= {line.entry.backend_identity: line.entry for line in lines if line.entry is not None}
    return told, ToolRegistry(entries.values())


class _Reader:
    """Reads the tools of a request."""

    def __init__(self, target: BackendToolSupport, losses: Losses) -> None:
        self._target = target
        self._losses = losses
        # Where there is a search for them, tools may be deferred.
        self._defers = target.supports_hosted(searching.TOOL_SEARCH)

    def read(self, request: Request, held: list[ToolsItem]) -> list[Declaration]:
        """Read those that are declared, then those that the history brings along."""
        lines: list[Declaration] = []
        for tool, path in request.tools_with_paths():
            plain = self._read_plain(tool, path)
            lines += self._read(tool, path) if plain is None else (plain,)
        for tool, path in tools_from_items(held, self._target, self._losses):
            # Whatever was found is not deferred any more.
            lines += [replace(one, later=True, deferred=False) for one in self._read(tool, path)]
        return lines

    def _read_plain(self, tool: Tool, path: str) -> Declaration | None:
        """Give a function of which nothing changes, as most are; None if it is not one."""
        if not isinstance(tool, FunctionTool) or tool.extras:
            return None
        name = tool.name
        if not is_valid_name(name, self._target.max_name_length):
            return None
        return Declaration(
            tool, path, RegisteredTool("function", name, None, tool, path, "function", name)
        )

    def _read(self, tool: Tool, path: str) -> Iterator[Declaration]:
        match tool:
            case FunctionTool() | CustomTool():
                yield from self._read_callable(tool, path)
            case HostedTool(kind="namespace"):
                yield from self._read_namespace(tool, path)
            case HostedTool(kind="tool_search"):
                yield from self._read_search(tool, path)
            case HostedTool() if builtins.builtin_runs_on_client(tool, path):
                if self._is_offered(read_fields(tool.value, path).raw(_CALLERS), path):
                    kind = builtins.CALL_KINDS[tool.kind]
                    function = builtins.builtin_as_function(tool, kind, path)
                    yield self._read_kind(kind, tool, function, path)
            case HostedTool():
                yield Declaration(tool, path)

    # Functions and custom tools, in a namespace or not

    def _read_callable(
        self, tool: FunctionTool | CustomTool, path: str, within: Namespace | None = None
    ) -> Iterator[Declaration]:
        offered = self._offered(tool, path)
        if offered is None:
            return
        deferred = searching.is_deferred(offered) and not self._defers
        if not self._defers:
            offered = searching.without_defer_loading(offered)
        namespace = None if within is None else within.name
        name = qualified_name(namespace, offered.name, self._target.max_name_length)
        if name != offered.name and within is None:
            self._losses.changed(f"{path}.name", f"the backend refuses it; it is called {name}")
        shown = offered if within is None else within.describe(offered)
        told, kind = self._tell(shown, name, path)
        entry = RegisteredTool(_kind_of(tool), tool.name, namespace, tool, path, kind, name)
        yield Declaration(told, path, entry, deferred=deferred)

    def _offered(
        self, tool: FunctionTool | CustomTool, path: str
    ) -> FunctionTool | CustomTool | None:
        """Leave out a tool that may not be called here; of others, who may call them."""
        callers = next((extra.value for extra in tool.extras if extra.name == _CALLERS), None)
        if callers is None or self._target.supports_hosted(_PROGRAMS):
            return tool
        extras = tuple(extra for extra in tool.extras if extra.name != _CALLERS)
        return replace(tool, extras=extras) if self._is_offered(callers, path) else None

    def _is_offered(self, callers: Raw | None, path: str) -> bool:
        """Leave out a tool that only programs may call, where no programs are run."""
        said = b"" if callers is None else bytes(callers)
        if self._target.supports_hosted(_PROGRAMS) or _PROGRAM not in said or _DIRECT in said:
            return True
        why = "only programs may call it, and the backend runs none"
        self._losses.dropped(path, why, "capability")
        return False

    def _tell(self, tool: FunctionTool | CustomTool, name: str, path: str) -> tuple[Tool, CallKind]:
        """Give the tool as it is, or the function that stands for it."""
        told = tool if tool.name == name else replace(tool, name=name)
        if isinstance(told, FunctionTool):
            return told, "function"
        if self._target.supports(told):
            return told, "custom"
        self._losses.changed(path, "the backend has no custom tools; it becomes a function")
        if told.format == "grammar" and grammars.json_schema_pattern(told) is None:
            why = "the model is shown the grammar, but nothing holds it to it"
            self._losses.changed(f"{path}.format", why, "capability")
        return grammars.custom_tool_as_function(told, strict=self._target.strict), "function"

    def _read_namespace(self, tool: HostedTool, path: str) -> Iterator[Declaration]:
        space = read_namespace(tool, path)
        takes = self._target.supports
        if takes(tool) and all(takes(child) for child, _ in space.children):
            yield Declaration(self._loaded(tool, space), path)
            for child, inner in space.children:
                yield Declaration(None, inner, _as_it_is(child, inner, space.name))
            return
        self._losses.changed(path, "the backend has no namespaces; its tools are told one by one")
        for inner in space.others:
            why = "outside of its namespace it cannot be called"
            self._losses.dropped(inner, why, "capability")
        for child, inner in space.children:
            yield from self._read_callable(child, inner, space)

    def _loaded(self, tool: HostedTool, space: Namespace) -> HostedTool:
        """Give a namespace whose tools need not be searched for, where there is no search."""
        deferred = [inner for child, inner in space.children if searching.is_deferred(child)]
        if self._defers or not deferred:
            return tool
        for inner in deferred:
            self._losses.changed(f"{inner}.{searching.DEFER_LOADING}", _FROM_THE_START)
        return without_child_field(tool, searching.DEFER_LOADING)

    # Tools that have no names

    def _read_kind(
        self, kind: CallKind, tool: HostedTool, function: FunctionTool, path: str
    ) -> Declaration:
        if self._target.supports(tool):
            return Declaration(tool, path, RegisteredTool(kind, kind, None, tool, path, kind, kind))
        why = f"the backend has no tool {tool.kind}; it becomes a function"
        self._losses.changed(path, why)
        return Declaration(
            function, path, RegisteredTool(kind, kind, None, tool, path, "function", kind)
        )

    def _read_search(self, tool: HostedTool, path: str) -> Iterator[Declaration]:
        if searching.search_runs_on_client(tool, path):
            function = searching.search_as_function(tool, searching.TOOL_SEARCH, path)
            yield self._read_kind("tool_search", tool, function, path)
        elif self._target.supports(tool):
            yield Declaration(tool, path)
        else:
            why = "the backend has no search for tools; they are declared without it"
            self._losses.changed(path, why)


def _kind_of(tool: FunctionTool | CustomTool) -> CallKind:
    return "custom" if isinstance(tool, CustomTool) else "function"


def _as_it_is(
    tool: FunctionTool | CustomTool, path: str, namespace: str | None = None
) -> RegisteredTool:
    """Give a tool that the backend knows as what it is."""
    kind, name = _kind_of(tool), tool.name
    return RegisteredTool(kind, name, namespace, tool, path, kind, name, namespace)


def _entries_there(held: list[ToolsItem], target: BackendToolSupport) -> Iterator[RegisteredTool]:
    """Give the tools that the backend finds in the items by itself."""
    for tool, path in tools_visible_to_backend(held, target):
        match tool:
            case FunctionTool() | CustomTool():
                yield _as_it_is(tool, path)
            case HostedTool(kind="namespace"):
                space = read_namespace(tool, path)
                for child, inner in space.children:
                    yield _as_it_is(child, inner, space.name)
            case HostedTool():
                # It is called by its kind, if it is called at all.
                continue


# One name, one tool


def _without_repeats(lines: list[Declaration], losses: Losses) -> list[Declaration]:
    """Keep one tool of each name; two different ones are refused, or the later one counts."""
    kept: list[Declaration] = []
    places: dict[Identity, int] = {}
    for line in lines:
        if line.entry is None:
            kept.append(line)
            continue
        place = places.setdefault(line.entry.backend_identity, len(kept))
        if place == len(kept):
            kept.append(line)
        else:
            kept[place] = _chosen(kept[place], line, line.entry, losses)
    return kept


def _chosen(
    first: Declaration, second: Declaration, entry: RegisteredTool, losses: Losses
) -> Declaration:
    known = first.entry
    if known is None or not _is_same(known, entry):
        why = f"{known} and {entry} would both be called {entry.backend_name}"
        raise UnsupportedRequestError(second.path, why)
    if first.tool == second.tool and not second.from_history:
        losses.dropped(second.path, "the same tool was declared before")
        return first
    if first.tool != second.tool and not second.from_history:
        raise UnsupportedRequestError(
            second.path, f"{known} and {entry} are different tools of one name"
        )
    # What a history brings along is what the client knew last.
    return replace(second, path=first.path)


def _is_same(one: RegisteredTool, other: RegisteredTool) -> bool:
    return (one.kind, one.namespace, one.name) == (other.kind, other.namespace, other.name)


# Deferred tools


def _select_deferred(
    request: Request, lines: list[Declaration], target: BackendToolSupport, losses: Losses
) -> list[Declaration]:
    """Declare deferred tools: all of them, or those that fit best what the user says."""
    limit = target.deferred_tools
    deferred = [line for line in lines if line.deferred]
    if limit is None or len(deferred) <= limit:
        for line in deferred:
            losses.changed(f"{line.path}.{searching.DEFER_LOADING}", _FROM_THE_START)
        return lines
    needed = _needed(request, lines)
    if not limit and must_call(request.tool_choice) and not _any_told(lines, needed):
        # A call is asked for, so there must be something to call.
        limit = 1
    kept = needed | _fitting(request, deferred, limit, losses)
    return [line for line in lines if not line.deferred or line.path in kept]


def _needed(request: Request, lines: list[Declaration]) -> frozenset[str]:
    """Find the tools that were called before, and may be again, or that a choice names."""
    table = ToolRegistry(line.entry for line in lines if line.entry is not None)
    named = frozenset(entry.path for entry in tools_named_by_choice(request.tool_choice, table))
    called = searching.called_names(request)
    return named | {entry.path for entry in table.entries if entry.name in called}


def _any_told(lines: list[Declaration], needed: frozenset[str]) -> bool:
    """Tell whether a tool is declared whatever the user says."""
    return any(line.entry and (not line.deferred or line.path in needed) for line in lines)


def _fitting(
    request: Request, deferred: list[Declaration], limit: int, losses: Losses
) -> frozenset[str]:
    """Search for tools; where none fits, the first ones may serve, and are better than none."""
    places = searching.search_tools(request, [_searched(line) for line in deferred], limit)
    why = f"{len(places)} of {len(deferred)} deferred tools fit what was said; they are declared"
    if not places and limit:
        places = [*range(limit)]
        why = f"no deferred tool fits what was said; {limit} of {len(deferred)} are declared"
    losses.changed("tools", why)
    return frozenset(deferred[place].path for place in places)


def _searched(line: Declaration) -> str:
    """Give the words by which a tool is found."""
    match line.tool:
        case FunctionTool() | CustomTool() as tool:
            return f"{tool.name} {tool.description or ''}"
        case _:
            return ""
