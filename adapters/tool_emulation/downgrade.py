"""Tells the calls of an answer to a client that knows only functions, or no namespaces.

The raw input of a custom tool becomes the one field of a function, escaped as it comes. A tool in a
namespace gets one name, and a tool without a name that of its kind. When the client replays the
history, `lower` finds the tool by that name again.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.normalize import call_path
from adapters.ir.types import (
    CallKind,
    Choice,
    Extras,
    HostedTool,
    Item,
    Message,
    OpaqueItem,
    Reply,
    Request,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Losses, Severity
from adapters.tool_emulation import builtin_tools as builtins
from adapters.tool_emulation import tool_search as searching
from adapters.tool_emulation.custom_tools import INPUT_SUFFIX, INPUT_PREFIX, escape, unwrap_input, wrap_input
from adapters.tool_emulation.registry import (
    BackendToolSupport,
    RegisteredTool,
    ToolRegistry,
    qualified_name,
)
from adapters.tool_emulation.tool_search import is_hoisted_tools_item

# Says the calls of a history, and what they brought, in words that its backend has.


Placed = tuple[Item, str]

WRAPPED = "there are no custom calls here; its input is wrapped in JSON"

# Who called a tool: the model itself, or a program that it wrote and its server runs.
CALLER = "caller"
_DIRECT = b'"direct"'
_PROGRAMS = "programmatic_tool_calling"

# Items of tools that run at the server, by how their kinds begin, and the tool that they belong to.
_SERVERS = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_": "mcp",
    "program": _PROGRAMS,
    "tool_search_": "tool_search",
}


class HistoryEmulator:
    """The items of a request, as its backend can be told them."""

    def __init__(self, table: ToolRegistry, target: BackendToolSupport, losses: Losses) -> None:
        self._table = table
        self._target = target
        self._losses = losses
        # By the ids of their items, for outputs that name no other.
        self._call_ids: dict[str, str] = {}

    def lower(self, request: Request) -> Iterator[Placed]:
        """Give each item, with its path; what was nothing but tools is declared elsewhere."""
        for item, path in request.items_with_paths():
            match item:
                case Message():
                    # Most items are, and need no further look.
                    yield item, path
                case ToolCall():
                    yield self._lower_call(item, path), path
                case ToolOutput():
                    yield self._lower_output(item, path), path
                case OpaqueItem() if is_hoisted_tools_item(item, self._target):
                    continue
                case OpaqueItem() if self._is_foreign(item):
                    why = f"the backend has no item {item.kind}"
                    self._losses.dropped(path, why, _severity(item))
                case _:
                    yield item, path

    def _is_foreign(self, item: OpaqueItem) -> bool:
        """Tell whether an item is of a tool that the backend, of its own family, has not."""
        tool = next((t for begin, t in _SERVERS.items() if item.kind.startswith(begin)), None)
        return tool is not None and not self._target.supports_hosted(tool)

    # Calls

    def _lower_call(self, call: ToolCall, path: str) -> ToolCall:
        if call.item_id is not None:
            self._call_ids[call.item_id] = call.call_id
        if called_by_program(call.extras):
            call = replace(call, extras=self._called_directly(call.extras, path))
        entry = self._table.by_client_name(call.name, call.namespace)
        if entry is not None:
            return self._told(call, entry, path)
        if self._target.supports_call_kind(call.kind):
            return self._named(call, path)
        if call.kind == "custom":
            self._losses.changed(path, WRAPPED)
        else:
            why = f"the backend has no tool {call.kind}; it becomes the call of a function"
            self._losses.changed(path, why)
        return self._named(self._as_function(call, path), path)

    def _told(self, call: ToolCall, entry: RegisteredTool, path: str) -> ToolCall:
        """Give the call of a declared tool as the backend knows it."""
        if call.kind != entry.backend_kind:
            is_function = entry.backend_kind == "function"
            call = self._as_function(call, path) if is_function else self._raised(call, entry, path)
        if call.kind != entry.backend_kind or (call.namespace, call.name) == entry.backend_identity:
            return call
        return replace(call, name=entry.backend_name, namespace=entry.backend_namespace)

    def _as_function(self, call: ToolCall, path: str) -> ToolCall:
        """Give a call of any kind as that of a function; the id of an item tells of its kind."""
        if call.kind == "function":
            return call
        if call.kind == "custom":
            arguments = wrap_input(call.arguments)
            return replace(call, kind="function", arguments=arguments, item_id=None)
        arguments = builtins.to_function_arguments(call.kind, call.arguments)
        extras = self._without_own(call.extras, path)
        return replace(call, kind="function", arguments=arguments, item_id=None, extras=extras)

    def _raised(self, call: ToolCall, entry: RegisteredTool, path: str) -> ToolCall:
        """Give the call of a function as what it stands for, for a backend that knows that."""
        if not isinstance(entry.tool, HostedTool):
            input_ = unwrap_input(call.arguments)
            input_.report(f"{path}.arguments", self._losses)
            return replace(call, kind="custom", arguments=input_.text)
        meant = builtins.parse_builtin_arguments(entry.tool, call.arguments)
        if meant is None:
            return call
        meant.report(f"{path}.arguments", self._losses)
        return replace(call, kind=entry.kind, arguments=meant.arguments)

    def _without_own(self, extras: Extras, path: str) -> Extras:
        """Leave out what only the family of such a tool says of a call.

        What the backend itself put on the call goes back to it, whatever the call stands for.
        """
        own = [extra for extra in extras if extra.family == "responses"]
        for extra in own:
            if extra.severity is not None:
                why = "the call of a function has no place for it"
                self._losses.dropped(f"{path}.{extra.name}", why, extra.severity)
        return tuple(extra for extra in extras if extra not in own)

    def _called_directly(self, extras: Extras, path: str) -> Extras:
        """Leave out which program called, where no programs are run."""
        if self._target.supports_hosted(_PROGRAMS):
            return extras
        why = "the backend runs no programs; it is a call like any other"
        self._losses.dropped(f"{path}.{CALLER}", why)
        return tuple(extra for extra in extras if extra.name != CALLER)

    def _named(self, call: ToolCall, path: str) -> ToolCall:
        """Make the name of a tool legal that is not declared."""
        if call.namespace is not None and self._target.supports_hosted("namespace"):
            return call
        name = qualified_name(call.namespace, call.name, self._target.max_name_length)
        if name != call.name:
            self._losses.changed(f"{path}.name", f"the backend refuses it; it is called {name}")
        return replace(call, name=name, namespace=None)

    # Outputs

    def _lower_output(self, output: ToolOutput, path: str) -> ToolOutput:
        """Tell what a tool answered as a function would, where its kind is not known."""
        if called_by_program(output.extras):
            output = replace(output, extras=self._called_directly(output.extras, path))
        if self._target.supports_call_kind(output.kind):
            return output
        content = output.output
        if output.kind == "tool_search":
            content = searching.describe_found_tools(output, self._told_name)
        if output.kind != "custom":
            output = replace(output, extras=self._without_own(output.extras, path))
        call_id = self._call_ids.get(output.call_id or "", output.call_id)
        return replace(output, call_id=call_id, output=content, kind="function", item_id=None)

    def _told_name(self, namespace: str | None, name: str) -> str:
        """Give the name under which a model can call a tool that was found."""
        entry = self._table.by_client_name(name, namespace)
        if entry is None:
            return qualified_name(namespace, name, self._target.max_name_length)
        within = entry.backend_namespace
        return entry.backend_name if within is None else f"{within}.{entry.backend_name}"


def called_by_program(extras: Extras) -> bool:
    """Tell whether a program called, by what only its family says of a call."""
    return any(one.name == CALLER and _DIRECT not in bytes(one.value) for one in extras)


def _severity(item: OpaqueItem) -> Severity:
    """Tell how grave it is to leave an item out; what a search found is declared anyway."""
    return "hint" if item.kind.startswith("tool_search_") else "capability"


class CallDowngrader:
    """Tells the calls of a reply, whole or streamed."""

    def __init__(self, kinds: frozenset[CallKind], losses: Losses) -> None:
        # The kinds of calls that the client knows.
        self._kinds = kinds
        self._losses = losses
        # The blocks whose text is being escaped.
        self._wrapped: set[int] = set()

    # Whole

    def reply(self, reply: Reply) -> Reply:
        """Tell the calls of a whole reply."""
        return replace(reply, choices=tuple(map(self._tell_choice, reply.choices)))

    def _tell_choice(self, choice: Choice) -> Choice:
        return replace(choice, items=tuple(map(self._tell_item, choice.items)))

    def _tell_item(self, item: Item) -> Item:
        if not isinstance(item, ToolCall):
            return item
        told = self._told(item)
        if item.kind != "custom" or told.kind == "custom":
            return told
        arguments = wrap_input(item.arguments)
        # Input that breaks off must not look whole (P144).
        whole = item.status != "incomplete"
        return replace(told, arguments=arguments if whole else arguments.removesuffix(INPUT_SUFFIX))

    def _told(self, call: ToolCall) -> ToolCall:
        """Give a call under a name and a kind that the client knows."""
        if called_by_program(call.extras):
            why = "there are no programs here; it is a call like any other"
            self._losses.dropped(f"{call_path(call)}.{CALLER}", why)
        if call.namespace is not None:
            name = qualified_name(call.namespace, call.name)
            why = f"there are no namespaces here; it is called {name}"
            self._losses.changed(call_path(call), why)
            call = replace(call, name=name, namespace=None)
        if call.kind in self._kinds:
            return call
        other = f"there are no calls of {call.kind} here; it becomes the call of a function"
        self._losses.changed(call_path(call), WRAPPED if call.kind == "custom" else other)
        return replace(call, kind="function")

    # Streamed

    def feed(self, event: Event) -> list[Event]:
        """Pass an event on."""
        match event:
            case Delta():
                if event.index in self._wrapped:
                    return [replace(event, text=escape(event.text))]
                return [event]
            case Opened(item=ToolCall() as call):
                return self._open(event, call)
            case Closed() if event.index in self._wrapped:
                self._wrapped.remove(event.index)
                whole = event.status == "completed"
                return [Delta(event.index, "arguments", INPUT_SUFFIX), event] if whole else [event]
            case _:
                return [event]

    def _open(self, event: Opened, call: ToolCall) -> list[Event]:
        told = self._told(call)
        opened = replace(event, item=told)
        if call.kind != "custom" or told.kind == "custom":
            return [opened]
        self._wrapped.add(event.index)
        return [opened, Delta(event.index, "arguments", INPUT_PREFIX)]

    @property
    def passes_deltas(self) -> bool:
        """Tell whether deltas pass as they are: no input is being escaped."""
        return not self._wrapped

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []
