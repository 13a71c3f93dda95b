"""Tells the calls of an answer to a client that knows only functions, or no namespaces.

The raw input of a custom tool becomes the one field of a function, escaped as it comes. A tool in a
namespace gets one name, and a tool without a name that of its kind. When the client replays the
history, `lower` finds the tool by that name again.
"""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.items import call_path
from adapters.ir.types import CallKind, Choice, Item, Reply, ToolCall
from adapters.losses import Losses
from adapters.tool_emulation.custom_tools import CLOSING, OPENING, escaped, wrap_input
from adapters.tool_emulation.history import CALLER, WRAPPED, called_by_program
from adapters.tool_emulation.names import qualified_name


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
        return replace(told, arguments=arguments if whole else arguments.removesuffix(CLOSING))

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
                    return [replace(event, text=escaped(event.text))]
                return [event]
            case Opened(item=ToolCall() as call):
                return self._open(event, call)
            case Closed() if event.index in self._wrapped:
                self._wrapped.remove(event.index)
                whole = event.status == "completed"
                return [Delta(event.index, "arguments", CLOSING), event] if whole else [event]
            case _:
                return [event]

    def _open(self, event: Opened, call: ToolCall) -> list[Event]:
        told = self._told(call)
        opened = replace(event, item=told)
        if call.kind != "custom" or told.kind == "custom":
            return [opened]
        self._wrapped.add(event.index)
        return [opened, Delta(event.index, "arguments", OPENING)]

    @property
    def passes_deltas(self) -> bool:
        """Tell whether deltas pass as they are: no input is being escaped."""
        return not self._wrapped

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []
