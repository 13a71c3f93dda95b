"""The stage that rewrites the calls of a reply for clients that know only some kinds of calls.

The input of a custom tool becomes the one argument of a function, escaped as it streams. A tool in
a namespace gets a qualified name, and a built-in tool is called by its kind. When the client sends
the calls back in its history, `emulate_tools` finds the tools by these names.
"""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.normalize import call_path
from adapters.ir.types import CallKind, Choice, Item, Reply, ToolCall
from adapters.losses import Losses
from adapters.tool_emulation.custom_tools import (
    INPUT_PREFIX,
    INPUT_SUFFIX,
    INPUT_WRAPPED,
    escape,
    wrap_input,
)
from adapters.tool_emulation.names import qualified_name
from adapters.tool_emulation.programs import CALLER, is_called_by_program


class CallDowngrader:
    """A stage that writes the calls of a reply in the kinds that a client knows."""

    def __init__(self, kinds: frozenset[CallKind], losses: Losses) -> None:
        self._kinds = kinds
        self._losses = losses
        # The blocks whose text is being escaped.
        self._wrapped: set[int] = set()

    # Whole replies

    def reply(self, reply: Reply) -> Reply:
        """Downgrade the calls of a whole reply."""
        return replace(reply, choices=tuple(map(self._downgrade_choice, reply.choices)))

    def _downgrade_choice(self, choice: Choice) -> Choice:
        return replace(choice, items=tuple(map(self._downgrade_item, choice.items)))

    def _downgrade_item(self, item: Item) -> Item:
        if not isinstance(item, ToolCall):
            return item
        call = self._downgrade(item)
        if item.kind != "custom" or call.kind == "custom":
            return call
        arguments = wrap_input(item.arguments)
        # Truncated input must not look complete, or the client runs the call.
        is_complete = item.status != "incomplete"
        return replace(
            call, arguments=arguments if is_complete else arguments.removesuffix(INPUT_SUFFIX)
        )

    def _downgrade(self, call: ToolCall) -> ToolCall:
        """Return a call with a name and a kind that the client knows; its arguments unchanged."""
        if is_called_by_program(call.extras):
            reason = "there are no programs here; it is a call like any other"
            self._losses.dropped(f"{call_path(call)}.{CALLER}", reason)
        if call.namespace is not None:
            name = qualified_name(call.namespace, call.name)
            reason = f"there are no namespaces here; it is called {name}"
            self._losses.changed(call_path(call), reason)
            call = replace(call, name=name, namespace=None)
        if call.kind in self._kinds:
            return call
        reason = f"there are no calls of {call.kind} here; it becomes the call of a function"
        self._losses.changed(call_path(call), INPUT_WRAPPED if call.kind == "custom" else reason)
        return replace(call, kind="function")

    # Streams

    def feed(self, event: Event) -> list[Event]:
        """Process an event."""
        match event:
            case Delta():
                if event.index in self._wrapped:
                    return [replace(event, text=escape(event.text))]
                return [event]
            case Opened(item=ToolCall() as call):
                return self._open(event, call)
            case Closed() if event.index in self._wrapped:
                self._wrapped.remove(event.index)
                if event.status != "completed":
                    return [event]
                return [Delta(event.index, "arguments", INPUT_SUFFIX), event]
            case _:
                return [event]

    def _open(self, event: Opened, call: ToolCall) -> list[Event]:
        downgraded = self._downgrade(call)
        opened = replace(event, item=downgraded)
        if call.kind != "custom" or downgraded.kind == "custom":
            return [opened]
        self._wrapped.add(event.index)
        return [opened, Delta(event.index, "arguments", INPUT_PREFIX)]

    @property
    def passes_deltas(self) -> bool:
        """True while deltas pass unchanged: no input is being escaped."""
        return not self._wrapped

    def flush(self) -> list[Event]:
        """Return nothing: all was emitted at the end of the stream."""
        return []
