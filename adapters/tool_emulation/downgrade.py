"""The stage that rewrites the calls of a reply for clients that know only some kinds of calls.

The input of a custom tool becomes the one argument of a function, escaped as it streams. A tool in
a namespace gets a qualified name, and a built-in tool is called by its kind. When the client sends
the calls back in its history, `emulate_tools` finds the tools by these names.
"""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.normalize import call_path
from adapters.ir.types import CallKind, Reply, ToolCall
from adapters.losses import Losses
from adapters.stages.stage import Stage
from adapters.tool_emulation.custom_tools import (
    INPUT_PREFIX,
    INPUT_SUFFIX,
    INPUT_WRAPPED,
    escape,
)
from adapters.tool_emulation.names import qualified_name
from adapters.tool_emulation.programs import CALLER, is_called_by_program


class CallDowngrader(Stage):
    """A stage that writes the calls of a reply in the kinds that a client knows."""

    def __init__(self, kinds: frozenset[CallKind], losses: Losses) -> None:
        super().__init__()
        self._kinds = kinds
        self._losses = losses

    def may_change(self, reply: Reply) -> bool:
        """Whether the reply has a call that the client does not know as it is."""
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
        opened = replace(event, item=downgraded)
        if call.kind != "custom" or downgraded.kind == "custom":
            return [opened]
        self._handlers[event.index] = _WrappedInput()
        return [opened, Delta(event.index, "arguments", INPUT_PREFIX)]

    def _downgrade(self, call: ToolCall) -> ToolCall:
        """Return a call with a name and a kind that the client knows; its arguments unchanged."""
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
    """The input of a custom tool, escaped as it streams."""

    def fill(self, delta: Delta) -> list[Event]:
        """Escape a piece of the input."""
        return [replace(delta, text=escape(delta.text))]

    def close(self, closed: Closed) -> list[Event]:
        """End the JSON, unless the input is truncated: the client would run a complete call."""
        if closed.status != "completed":
            return [closed]
        return [Delta(closed.index, "arguments", INPUT_SUFFIX), closed]
