"""Makes the calls of functions what they stand for: calls of custom tools, of shells, of searches.

A function that carries the raw input of a custom tool is unwrapped as it comes. A call of a tool
that is neither is told when it is whole, never half: a client could run it. What begins behind such
a call waits for it, so that a stream has the order of its whole. A name that nobody declared is
taken for the one tool that can be meant, if there is one.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Opened
from adapters.ir.normalize import call_path
from adapters.ir.types import (
    Choice,
    CustomTool,
    FunctionTool,
    HostedTool,
    Item,
    Reply,
    Status,
    ToolCall,
)
from adapters.losses import Losses
from adapters.tool_emulation import builtin_tools as builtins
from adapters.tool_emulation.custom_tools import CustomInputParser, ParsedInput, input_as_arguments, unwrap_input
from adapters.tool_emulation.registry import RegisteredTool, ToolRegistry

# Calls of a stream on their way, where they are not told as they come.


class CallRestorerHooks(Protocol):
    """What raises the calls of a stream, as far as one on its way asks."""

    def open(self, event: Opened) -> Opened:
        """Give a block its number."""
        ...

    def restore_call(self, call: ToolCall, entry: RegisteredTool) -> ToolCall:
        """Raise a call that is whole, or that breaks off."""
        ...

    def report_input(self, call: ToolCall, input_: ParsedInput) -> Status | None:
        """Say what is not in the input of a custom tool; tell how the call has ended."""
        ...

    def check_grammar(self, call: ToolCall, entry: RegisteredTool) -> None:
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
    return replace(call, kind="function", arguments=input_as_arguments(call.arguments, whole=whole))


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
        input_ = ParsedInput("") if self._unwrapper is None else self._unwrapper.finish()
        rest = self._tell(input_.text)
        call = replace(self._call, arguments="".join(self._told), status=closed.status)
        status = self._around.report_input(call, input_) or closed.status
        self._around.check_grammar(replace(call, status=status), self._entry)
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
        raised = self._around.restore_call(call, self._entry)
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


# Says what is wrong with the input of a custom tool, if it does not keep to the tool's grammar.
GrammarCheck = Callable[[CustomTool, str], str | None]

_BROKEN_OFF = "they break off; nothing of them can be run"


class CallRestorer:
    """Raises the calls of a reply, whole or streamed."""

    def __init__(
        self, table: ToolRegistry, losses: Losses, check: GrammarCheck | None = None
    ) -> None:
        self._table = table
        self._losses = losses
        self._check = check
        # The blocks that are not told as they come, by the numbers that the reader gave them.
        self._lanes: dict[int, Lane] = {}
        # By choice: the blocks that wait for one that is told when it is whole.
        self._waiting: dict[int, deque[QueuedBlock]] = {}
        # How many blocks were told, and the new numbers of those that got another.
        self._blocks = 0
        self._numbers: dict[int, int] = {}

    # Which tool?

    def _find(self, call: ToolCall) -> RegisteredTool | None:
        entry = self._table.by_backend_name(call)
        if entry is not None:
            return entry
        entry = self._table.resolve_unknown(call)
        if entry is not None:
            why = f"no tool is called {call.name}; it is taken for {entry.display_name}"
            self._losses.changed(call_path(call), why)
        return entry

    def _report_kind(self, call: ToolCall, entry: RegisteredTool) -> None:
        """Say so if a backend calls a tool as if it were of the other kind."""
        if call.kind == "function" and entry.backend_kind == "custom":
            why = "the backend calls a function of that name; it is the custom tool"
            self._losses.changed(call_path(call), why)
        if call.kind == "custom" and entry.kind == "function":
            why = "the backend calls a custom tool of that name; it is the function"
            self._losses.changed(call_path(call), why)

    # Whole

    def reply(self, reply: Reply) -> Reply:
        """Raise the calls of a whole reply."""
        return replace(reply, choices=tuple(map(self._raise_choice, reply.choices)))

    def _raise_choice(self, choice: Choice) -> Choice:
        return replace(choice, items=tuple(map(self._raise_item, choice.items)))

    def _raise_item(self, item: Item) -> Item:
        if not isinstance(item, ToolCall):
            return item
        entry = self._find(item)
        return item if entry is None else self.restore_call(item, entry)

    def restore_call(self, call: ToolCall, entry: RegisteredTool) -> ToolCall:
        """Raise a call that is whole, or that breaks off."""
        raised = replace(call, name=entry.name, namespace=entry.namespace)
        match call.kind, entry.tool:
            case "function" | "custom", HostedTool() as tool:
                return self._raise_kind(raised, tool, entry)
            case "function", CustomTool():
                self._report_kind(call, entry)
                input_ = unwrap_input(call.arguments)
                status = self.report_input(raised, input_)
                raised = replace(raised, kind="custom", arguments=input_.text, status=status)
            case "custom", FunctionTool():
                self._report_kind(call, entry)
                return as_function(raised)
            case _:
                pass
        self.check_grammar(raised, entry)
        return raised

    def report_input(self, call: ToolCall, input_: ParsedInput) -> Status | None:
        """Say what is not in the input of a custom tool; tell how the call has ended.

        Input that breaks off is not whole, whatever its backend says: a client could run it.
        """
        input_.report(call_path(call), self._losses)
        if not input_.breaks_off or call.status == "incomplete":
            return call.status
        self._losses.changed(call_path(call), "its input breaks off; it is told as incomplete")
        return "incomplete"

    def _raise_kind(self, call: ToolCall, tool: HostedTool, entry: RegisteredTool) -> ToolCall:
        if call.status == "incomplete":
            if call.arguments:
                self._losses.dropped(f"{call_path(call)}.arguments", _BROKEN_OFF)
            return replace(call, kind=entry.kind, arguments=builtins.empty_arguments(entry.kind))
        meant = builtins.parse_builtin_arguments(tool, call.arguments)
        if meant is None:
            why = f"its arguments are none of {tool.kind}; it stays the call of a function"
            self._losses.changed(call_path(call), why)
            return as_function(call)
        meant.report(call_path(call), self._losses)
        return replace(call, kind=entry.kind, arguments=meant.arguments)

    def check_grammar(self, call: ToolCall, entry: RegisteredTool) -> None:
        """Say so if the input of a custom tool does not keep to its grammar."""
        if self._check is None or call.status == "incomplete" or call.kind != "custom":
            return
        problem = (
            self._check(entry.tool, call.arguments) if isinstance(entry.tool, CustomTool) else None
        )
        if problem is not None:
            why = f"its input does not keep to the grammar: {problem}"
            self._losses.changed(call_path(call), why)

    # Streamed

    def feed(self, event: Event) -> list[Event]:
        """Pass an event on, blocks under their new numbers."""
        match event:
            case Delta():
                lane = self._lanes.get(event.index) if self._lanes else None
                if lane is not None:
                    return lane.fill(event)
                return [self._renumbered(event) if self._numbers else event]
            case Opened():
                return self._open_block(event)
            case Closed():
                lane = self._lanes.pop(event.index, None)
                return [self._renumbered(event)] if lane is None else lane.close(event)
            case Failed():
                return [*self._give_up_waiting(), event]
            case _:
                return [event]

    def _open_block(self, event: Opened) -> list[Event]:
        waiting = self._waiting.get(event.choice)
        if waiting is not None:
            lane = self._lanes[event.index] = QueuedBlock(event)
            waiting.append(lane)
            return []
        if isinstance(event.item, ToolCall):
            return self._open_call(event, event.item)
        return [self.open(event)]

    def open(self, event: Opened) -> Opened:
        """Give a block its number."""
        number = self._blocks
        self._blocks += 1
        if number == event.index and not self._numbers:
            return event
        self._numbers[event.index] = number
        return replace(event, index=number)

    def _renumbered(self, event: Delta | Closed) -> Delta | Closed:
        number = self._numbers.get(event.index, event.index)
        return event if number == event.index else replace(event, index=number)

    def _open_call(self, event: Opened, call: ToolCall) -> list[Event]:
        entry = self._find(call)
        if entry is None:
            return [self.open(event)]
        if call.kind in ("function", "custom") and isinstance(entry.tool, HostedTool):
            self._lanes[event.index] = BufferedBuiltinCall(self, event, call, entry)
            self._waiting[event.choice] = deque()
            return []
        self._report_kind(call, entry)
        raised = replace(call, name=entry.name, namespace=entry.namespace)
        other = {call.kind, entry.kind} == {"function", "custom"}
        told = replace(raised, kind=entry.kind) if other else raised
        opened = self.open(replace(event, item=told))
        lane = self._lane(opened, raised, entry)
        if lane is not None:
            self._lanes[event.index] = lane
        return [opened]

    def _lane(self, opened: Opened, call: ToolCall, entry: RegisteredTool) -> Lane | None:
        """Give what tells the call of a function or of a custom tool; None: it passes."""
        match call.kind, entry.kind:
            case "custom", "function":
                return BufferedCustomCall(opened, call)
            case "function", "custom":
                raised = replace(call, kind="custom")
                return CustomInputStream(self, opened, raised, entry, CustomInputParser())
            case "custom", "custom" if self._check is not None:
                return CustomInputStream(self, opened, call, entry, None)
            case _:
                return None

    # What waits

    def release(self, choice: int) -> list[Event]:
        """Tell what waited for a call, up to the next that is told when it is whole."""
        waiting = self._waiting.pop(choice, deque())
        events: list[Event] = []
        while waiting:
            if choice in self._waiting:
                self._waiting[choice] = waiting
                break
            block = waiting.popleft()
            self._lanes.pop(block.index, None)
            events += [told for one in block.events for told in self.feed(one)]
        return events

    def _give_up_waiting(self) -> list[Event]:
        """Tell all that waits: what it waited for will not come."""
        events: list[Event] = []
        while self._waiting:
            events += self.release(next(iter(self._waiting)))
        return events

    @property
    def passes_deltas(self) -> bool:
        """Tell whether deltas pass as they are: no call is being raised, no block renumbered."""
        return not self._lanes and not self._numbers

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []
