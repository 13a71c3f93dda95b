"""Calls of a stream on their way, where they are not told as they come."""

from typing import Protocol

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Status, ToolCall
from adapters.tool_emulation.custom_tools import CustomInputParser, Unwrapped, as_arguments
from adapters.tool_emulation.registry import RegisteredTool


class CallRestorerHooks(Protocol):
    """What raises the calls of a stream, as far as one on its way asks."""

    def open(self, event: Opened) -> Opened:
        """Give a block its number."""
        ...

    def raise_call(self, call: ToolCall, entry: RegisteredTool) -> ToolCall:
        """Raise a call that is whole, or that breaks off."""
        ...

    def report_input(self, call: ToolCall, input_: Unwrapped) -> Status | None:
        """Say what is not in the input of a custom tool; tell how the call has ended."""
        ...

    def judge(self, call: ToolCall, entry: RegisteredTool) -> None:
        """Say so if the input of a custom tool does not keep to its grammar."""
        ...

    def release(self, choice: int) -> list[Event]:
        """Tell what waited for a call."""
        ...


def as_function(call: ToolCall) -> ToolCall:
    """Give the call of a custom tool as that of a function, which takes JSON."""
    if call.kind == "function":
        return call
    whole = call.status != "incomplete"
    return replace(call, kind="function", arguments=as_arguments(call.arguments, whole=whole))


class CustomInputStream:
    """The call of a custom tool on its way: its input is told as it comes."""

    def __init__(
        self,
        around: CallRestorerHooks,
        opened: Opened,
        call: ToolCall,
        entry: RegisteredTool,
        unwrapper: CustomInputParser | None,
    ) -> None:
        self._around = around
        self._number = opened.index
        self._call = call
        self._entry = entry
        # None: it came as the call of a custom tool already.
        self._unwrapper = unwrapper
        self._told: list[str] = []

    def fill(self, delta: Delta) -> list[Event]:
        """Take a piece of the arguments."""
        text = delta.text if self._unwrapper is None else self._unwrapper.feed(delta.text)
        return self._tell(text)

    def _tell(self, text: str) -> list[Event]:
        if not text:
            return []
        self._told.append(text)
        return [Delta(self._number, "arguments", text)]

    def close(self, closed: Closed) -> list[Event]:
        """Tell the rest."""
        input_ = Unwrapped("") if self._unwrapper is None else self._unwrapper.finish()
        rest = self._tell(input_.text)
        call = replace(self._call, arguments="".join(self._told), status=closed.status)
        status = self._around.report_input(call, input_) or closed.status
        self._around.judge(replace(call, status=status), self._entry)
        return [*rest, replace(closed, index=self._number, status=status)]


class BufferedCustomCall:
    """The call of a function that came as that of a custom tool: told when it is whole."""

    def __init__(self, opened: Opened, call: ToolCall) -> None:
        self._number = opened.index
        self._call = call
        self._held: list[str] = []

    def fill(self, delta: Delta) -> list[Event]:
        """Take a piece of the input."""
        self._held.append(delta.text)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Tell all of it."""
        call = replace(self._call, arguments="".join(self._held), status=closed.status)
        arguments = as_function(call).arguments
        told: list[Event] = [Delta(self._number, "arguments", arguments)] if arguments else []
        return [*told, replace(closed, index=self._number)]


class BufferedBuiltinCall:
    """The call of a tool that has no name: told when it is whole."""

    def __init__(
        self, around: CallRestorerHooks, opened: Opened, call: ToolCall, entry: RegisteredTool
    ) -> None:
        self._around = around
        self._opened = opened
        self._call = call
        self._entry = entry
        self._held: list[str] = []

    def fill(self, delta: Delta) -> list[Event]:
        """Take a piece of the arguments."""
        self._held.append(delta.text)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Tell all of it."""
        status: Status = closed.status
        call = replace(self._call, arguments="".join(self._held), status=status)
        raised = self._around.raise_call(call, self._entry)
        bare = replace(raised, arguments="", status=None)
        opened = self._around.open(replace(self._opened, item=bare))
        return [
            opened,
            Delta(opened.index, "arguments", raised.arguments),
            replace(closed, index=opened.index),
            *self._around.release(opened.choice),
        ]


class QueuedBlock:
    """A block that comes after a call which is told when it is whole."""

    def __init__(self, opened: Opened) -> None:
        self.index = opened.index
        self.events: list[Event] = [opened]

    def fill(self, delta: Delta) -> list[Event]:
        """Keep a piece."""
        self.events.append(delta)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Keep its end."""
        self.events.append(closed)
        return []


Lane = CustomInputStream | BufferedCustomCall | BufferedBuiltinCall | QueuedBlock
