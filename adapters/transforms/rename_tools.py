"""The transform that renames tools for the backend."""

from collections.abc import Mapping

from msgspec.structs import replace

from adapters.errors import UnsupportedRequestError
from adapters.ir.events import Event, Opened
from adapters.ir.types import (
    AllowedToolsChoice,
    CustomTool,
    FunctionTool,
    Item,
    NamedToolChoice,
    Request,
    Tool,
    ToolCall,
    ToolChoice,
    ToolOutput,
)
from adapters.transforms.transform import EventTransform, Transform, TransformLosses

_NAMED = ("function", "custom")


class RenameTools(Transform, frozen=True):
    """Renames functions and custom tools: their declarations, calls, outputs and the tool choice.

    The client receives calls with its own names. Names in texts are not changed.
    """

    # The names that the backend receives, by those of the clients.
    names: dict[str, str]

    def __post_init__(self) -> None:
        if not all((*self.names, *self.names.values())):
            raise ValueError("names must not be empty")
        if len(set(self.names.values())) < len(self.names):
            raise ValueError("names must not give two tools the same name")

    def request(self, request: Request, losses: TransformLosses) -> Request:
        """Return the request with the names for the backend."""
        tools = request.tools_with_paths()
        self._check(tools)
        return replace(
            request,
            tools=tuple([self._tool(tool, path, losses) for tool, path in tools]),
            items=tuple(map(self._item, request.items)),
            tool_choice=self._choice(request.tool_choice),
        )

    def _check(self, tools: list[tuple[Tool, str]]) -> None:
        """Raise `UnsupportedRequestError` if a tool has the new name of another one."""
        taken = set(self.names.values()) - self.names.keys()
        for tool, path in tools:
            if isinstance(tool, FunctionTool | CustomTool) and tool.name in taken:
                message = f"another tool is sent to the backend as {tool.name}"
                raise UnsupportedRequestError(path, message)

    def _tool(self, tool: Tool, path: str, losses: TransformLosses) -> Tool:
        if not isinstance(tool, FunctionTool | CustomTool) or tool.name not in self.names:
            return tool
        name = self.names[tool.name]
        losses.changed(path, f"sent as {name}; its calls are returned as {tool.name}", "adapted")
        return replace(tool, name=name)

    def _item(self, item: Item) -> Item:
        if isinstance(item, ToolCall) and item.namespace is None and item.kind in _NAMED:
            name = self.names.get(item.name)
            return item if name is None else replace(item, name=name)
        if isinstance(item, ToolOutput) and item.name in self.names:
            return replace(item, name=self.names[item.name])
        return item

    def _choice(self, choice: ToolChoice | None) -> ToolChoice | None:
        match choice:
            case NamedToolChoice():
                return self._named(choice)
            case AllowedToolsChoice():
                return replace(choice, tools=tuple(map(self._named, choice.tools)))
            case _:
                return choice

    def _named(self, choice: NamedToolChoice) -> NamedToolChoice:
        is_renamed = choice.namespace is None and choice.name in self.names
        return replace(choice, name=self.names[choice.name]) if is_renamed else choice

    def reply(self, _losses: TransformLosses) -> EventTransform:
        """Return the transform that restores the names of the client."""
        return _RestoreNames({name: client_name for client_name, name in self.names.items()})


class _RestoreNames(EventTransform):
    """Renames the calls of a reply."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    @property
    def passes_deltas(self) -> bool:
        """Whether deltas are not changed; the name of a call is in its first event."""
        return True

    def feed(self, event: Event) -> list[Event]:
        """Return an event with the name of the client."""
        if isinstance(event, Opened) and isinstance(event.item, ToolCall):
            call = event.item
            if call.namespace is None and call.kind in _NAMED and call.name in self._names:
                return [replace(event, item=replace(call, name=self._names[call.name]))]
        return [event]
