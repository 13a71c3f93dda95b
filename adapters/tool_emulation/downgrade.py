"""Conversion of calls to the kinds that a backend (in the history) or a client (in a reply) knows.

In a reply, the input of a custom tool becomes the one argument of a function, escaped as it
streams. A tool in a namespace gets a qualified name, and a built-in tool is called by its kind.
When the client sends the calls back in its history, the tools are found by these names.
"""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.normalize import call_path
from adapters.ir.types import (
    CallKind,
    Extras,
    Family,
    HostedTool,
    Item,
    OpaqueItem,
    Reply,
    Request,
    ToolCall,
    ToolOutput,
)
from adapters.losses import Losses
from adapters.stages.stage import Stage
from adapters.tool_emulation.builtin_tools import parse_builtin_arguments, to_function_arguments
from adapters.tool_emulation.custom_tools import (
    INPUT_PREFIX,
    INPUT_SUFFIX,
    INPUT_WRAPPED,
    escape,
    unwrap_input,
    wrap_input,
)
from adapters.tool_emulation.generated_images import image_as_message
from adapters.tool_emulation.registry import (
    CALLER,
    PROGRAMS,
    BackendToolSupport,
    RegisteredTool,
    ToolRegistry,
    distinct_name,
    is_called_by_program,
    qualified_name,
)
from adapters.tool_emulation.tool_search import describe_found_tools, is_hoisted_tools_item
from adapters.tool_emulation.wrapped_values import wrap_value

# Calls and outputs in the history of a request

# The hosted tool that an item belongs to, by the prefix of the item's type.
_HOSTED_ITEM_PREFIXES = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_": "mcp",
    "program": PROGRAMS,
    "tool_search_": "tool_search",
}


class HistoryEmulator:
    """Converts the items of a request to those that its backend supports."""

    def __init__(
        self,
        registry: ToolRegistry,
        client_family: Family,
        backend: BackendToolSupport,
        losses: Losses,
    ) -> None:
        self._registry = registry
        self._client_family = client_family
        self._backend = backend
        self._losses = losses
        # Call ids by item id, for outputs that give an item id as their call id.
        self._call_ids: dict[str, str] = {}

    def convert(self, request: Request) -> tuple[tuple[Item, ...], tuple[str, ...]]:
        """Return the items and their paths, without items whose tools are declared instead."""
        items: list[Item] = []
        paths: list[str] = []
        for item, path in request.items_with_paths():
            converted: Item = item
            match item:
                case ToolCall():
                    converted = self._convert_call(item, path)
                case ToolOutput():
                    converted = self._convert_output(item, path)
                case OpaqueItem(kind="image_generation_call") if self._is_unsupported(item):
                    converted = image_as_message(item, path, self._losses)
                case OpaqueItem() if is_hoisted_tools_item(item, self._backend):
                    continue
                case OpaqueItem() if self._is_unsupported(item):
                    # Tools that were found by a search are declared anyway.
                    is_search = item.kind.startswith("tool_search_")
                    reason = f"the backend does not support {item.kind} items"
                    self._losses.dropped(path, reason, "hint" if is_search else "capability")
                    continue
                case _:
                    pass
            items.append(converted)
            paths.append(path)
        return tuple(items), tuple(paths)

    def _is_unsupported(self, item: OpaqueItem) -> bool:
        """Whether an item belongs to a hosted tool that the backend does not have."""
        prefixes = _HOSTED_ITEM_PREFIXES.items()
        tool = next((tool for prefix, tool in prefixes if item.kind.startswith(prefix)), None)
        return tool is not None and not self._backend.supports_hosted(tool)

    # Calls

    def _convert_call(self, call: ToolCall, path: str) -> ToolCall:
        if call.item_id is not None:
            self._call_ids[call.item_id] = call.call_id
        if is_called_by_program(call.extras):
            call = replace(call, extras=self._without_caller(call.extras, path))
        entry = self._registry.by_client_name(call.name, call.namespace, call.kind)
        if entry is not None:
            return self._convert_declared(call, entry, path)
        if self._backend.supports_call_kind(call.kind):
            return self._with_valid_name(call, path)
        reason = f"{call.kind} tools are not supported; sent as a function call"
        if call.kind == "custom":
            reason = INPUT_WRAPPED
        self._losses.changed(path, reason, "adapted")
        return self._with_valid_name(self._as_function(call, path), path)

    def _convert_declared(self, call: ToolCall, entry: RegisteredTool, path: str) -> ToolCall:
        """Return the call of a declared tool in the kind and name that the backend knows."""
        if call.kind != entry.backend_kind:
            if entry.backend_kind == "function":
                call = self._as_function(call, path)
            else:
                call = self._restore(call, entry, path)
        elif entry.is_wrapped:
            call = replace(call, arguments=wrap_value(call.arguments))
        is_named = (call.namespace, call.name) == entry.backend_identity
        if is_named or call.kind != entry.backend_kind:
            return call
        return replace(call, name=entry.backend_name, namespace=entry.backend_namespace)

    def _as_function(self, call: ToolCall, path: str) -> ToolCall:
        """Return a call as a function call; remove item ids, whose prefix depends on the kind."""
        if call.kind == "function":
            return call
        if call.kind == "custom":
            arguments = wrap_input(call.arguments)
            return replace(call, kind="function", arguments=arguments, item_id=None)
        arguments = to_function_arguments(call.kind, call.arguments)
        extras = self._without_builtin_extras(call.extras, path)
        return replace(call, kind="function", arguments=arguments, item_id=None, extras=extras)

    def _restore(self, call: ToolCall, entry: RegisteredTool, path: str) -> ToolCall:
        """Return a function call as the call that it emulates, if its arguments are valid."""
        if not isinstance(entry.tool, HostedTool):
            parsed_input = unwrap_input(call.arguments)
            parsed_input.report(f"{path}.arguments", self._losses)
            return replace(call, kind="custom", arguments=parsed_input.text)
        parsed = parse_builtin_arguments(entry.tool, call.arguments)
        if parsed is None:
            return call
        parsed.report(f"{path}.arguments", self._losses)
        return replace(call, kind=entry.kind, arguments=parsed.arguments)

    def _without_builtin_extras(self, extras: Extras, path: str) -> Extras:
        """Drop the client's extra fields of a built-in call, which a function call cannot have.

        Keep extra fields of another family: the backend set them.
        """
        own = [extra for extra in extras if extra.family == self._client_family]
        for extra in own:
            if extra.severity is not None:
                reason = "function calls do not support this field"
                self._losses.dropped(f"{path}.{extra.name}", reason, extra.severity)
        return tuple(extra for extra in extras if extra not in own)

    def _without_caller(self, extras: Extras, path: str) -> Extras:
        """Drop the caller of a call, if the backend does not support programs."""
        if self._backend.supports_hosted(PROGRAMS):
            return extras
        reason = "programs are not supported; sent as an ordinary call"
        self._losses.dropped(f"{path}.{CALLER}", reason)
        return tuple(extra for extra in extras if extra.name != CALLER)

    def _with_valid_name(self, call: ToolCall, path: str) -> ToolCall:
        """Return the call of an undeclared tool with a name that the backend accepts."""
        if call.namespace is not None and self._backend.supports_hosted("namespace"):
            return call
        limit = self._backend.max_name_length
        name = qualified_name(call.namespace, call.name, limit)
        if name != call.name and self._registry.has_backend_name(name):
            # The name of a declared tool, which the model did not call here.
            name = distinct_name(name, (call.kind, call.namespace, call.name), limit)
        if name != call.name:
            reason = f"the backend rejects this name; sent as {name}"
            self._losses.changed(f"{path}.name", reason, "adapted")
        return replace(call, name=name, namespace=None)

    # Outputs

    def _convert_output(self, output: ToolOutput, path: str) -> ToolOutput:
        """Return an output as that of a function, if the backend does not support its kind."""
        if is_called_by_program(output.extras):
            output = replace(output, extras=self._without_caller(output.extras, path))
        if self._backend.supports_call_kind(output.kind):
            return output
        content = output.output
        if output.kind == "tool_search":
            content = describe_found_tools(output, self._callable_name)
        if output.kind != "custom":
            output = replace(output, extras=self._without_builtin_extras(output.extras, path))
        call_id = self._call_ids.get(output.call_id or "", output.call_id)
        return replace(output, call_id=call_id, output=content, kind="function", item_id=None)

    def _callable_name(self, namespace: str | None, name: str) -> str:
        """Return the name by which the model can call a tool that a search found."""
        entry = self._registry.by_client_name(name, namespace)
        if entry is None:
            return qualified_name(namespace, name, self._backend.max_name_length)
        prefix = "" if entry.backend_namespace is None else f"{entry.backend_namespace}."
        return prefix + entry.backend_name


# Calls in a reply


class CallDowngrader(Stage):
    """A stage that converts the calls of a reply to the kinds that a client knows."""

    def __init__(self, kinds: frozenset[CallKind], losses: Losses) -> None:
        super().__init__()
        self._kinds = kinds
        self._losses = losses

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has a call that must be converted for the client."""
        return any(
            isinstance(item, ToolCall) and not self._is_known(item)
            for choice in reply.choices
            for item in choice.items
        )

    def _is_known(self, call: ToolCall) -> bool:
        known = call.kind in self._kinds and call.namespace is None
        return known and not is_called_by_program(call.extras)

    def _open(self, event: Opened) -> list[Event]:
        call = event.item
        if not isinstance(call, ToolCall):
            return [event]
        downgraded = self._downgrade(call)
        if downgraded is call:
            return [event]
        opened = replace(event, item=downgraded)
        if call.kind != "custom" or downgraded.kind == "custom":
            return [opened]
        self._processors[event.index] = _WrappedInput()
        return [opened, Delta(event.index, "arguments", INPUT_PREFIX)]

    def _downgrade(self, call: ToolCall) -> ToolCall:
        """Return a call with a name and kind that the client knows, and unchanged arguments."""
        if is_called_by_program(call.extras):
            reason = "programs are not supported; returned as an ordinary call"
            self._losses.dropped(f"{call_path(call)}.{CALLER}", reason)
        if call.namespace is not None:
            name = qualified_name(call.namespace, call.name)
            reason = f"namespaces are not supported; returned as {name}"
            self._losses.changed(call_path(call), reason)
            call = replace(call, name=name, namespace=None)
        if call.kind in self._kinds:
            return call
        reason = f"{call.kind} tools are not supported; returned as a function call"
        self._losses.changed(call_path(call), INPUT_WRAPPED if call.kind == "custom" else reason)
        return replace(call, kind="function")


class _WrappedInput:
    """Wraps the input of a custom tool in JSON as it streams."""

    def feed(self, delta: Delta) -> list[Event]:
        """Escape a piece of the input."""
        return [replace(delta, text=escape(delta.text))]

    def close(self, closed: Closed) -> list[Event]:
        """End the JSON, unless the input is truncated: the client would run a complete call."""
        if closed.status != "completed":
            return [closed]
        return [Delta(closed.index, "arguments", INPUT_SUFFIX), closed]
