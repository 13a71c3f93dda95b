"""The stage that turns function calls of a backend back into calls of the tools that they emulate.

The input of a custom tool is unwrapped as it streams. The call of a built-in tool is written only
when it is complete, because a client could run an incomplete one. Blocks that begin after such a
call wait for it, so that a stream has the same order as the whole reply. A call of an unknown name
goes to the one tool that it can mean, if there is one.
"""

from collections import deque
from collections.abc import Callable

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
from adapters.tool_emulation.builtin_tools import empty_arguments, parse_builtin_arguments
from adapters.tool_emulation.custom_tools import (
    CustomInputParser,
    ParsedInput,
    input_as_arguments,
    unwrap_input,
)
from adapters.tool_emulation.registry import RegisteredTool, ToolRegistry

# Returns an error if the input of a custom tool does not match the tool's grammar.
GrammarCheck = Callable[[CustomTool, str], str | None]

_TRUNCATED = "they break off; nothing of them can be run"


class CallRestorer:
    """A stage that restores the calls of a reply."""

    def __init__(
        self, registry: ToolRegistry, losses: Losses, check: GrammarCheck | None = None
    ) -> None:
        self._registry = registry
        self._losses = losses
        self._check = check
        # The blocks whose events change, by the numbers that the reader gave them.
        self._pending: dict[int, PendingBlock] = {}
        # By choice: the blocks that wait for the end of a built-in tool call.
        self._queues: dict[int, deque[QueuedBlock]] = {}
        # How many blocks were opened, and the new numbers of those that got another.
        self._opened_count = 0
        self._numbers: dict[int, int] = {}

    # Lookup

    def _find(self, call: ToolCall) -> RegisteredTool | None:
        entry = self._registry.by_backend_name(call)
        if entry is not None:
            return entry
        entry = self._registry.resolve_unknown(call)
        if entry is not None:
            reason = f"no tool is called {call.name}; it is taken for {entry.display_name}"
            self._losses.changed(call_path(call), reason)
        return entry

    def _report_kind(self, call: ToolCall, entry: RegisteredTool) -> None:
        """Report a function called as a custom tool, or a custom tool called as a function."""
        if call.kind == "function" and entry.backend_kind == "custom":
            reason = "the backend calls a function of that name; it is the custom tool"
            self._losses.changed(call_path(call), reason)
        if call.kind == "custom" and entry.kind == "function":
            reason = "the backend calls a custom tool of that name; it is the function"
            self._losses.changed(call_path(call), reason)

    # Whole replies

    def reply(self, reply: Reply) -> Reply:
        """Restore the calls of a whole reply."""
        return replace(reply, choices=tuple(map(self._restore_choice, reply.choices)))

    def _restore_choice(self, choice: Choice) -> Choice:
        return replace(choice, items=tuple(map(self._restore_item, choice.items)))

    def _restore_item(self, item: Item) -> Item:
        if not isinstance(item, ToolCall):
            return item
        entry = self._find(item)
        return item if entry is None else self.restore_call(item, entry)

    def restore_call(self, call: ToolCall, entry: RegisteredTool) -> ToolCall:
        """Restore a call whose arguments have all come."""
        restored = replace(call, name=entry.name, namespace=entry.namespace)
        match call.kind, entry.tool:
            case "function" | "custom", HostedTool() as tool:
                return self._restore_builtin(restored, tool, entry)
            case "function", CustomTool():
                self._report_kind(call, entry)
                parsed = unwrap_input(call.arguments)
                status = self.report_input(restored, parsed)
                restored = replace(restored, kind="custom", arguments=parsed.text, status=status)
            case "custom", FunctionTool():
                self._report_kind(call, entry)
                return as_function_call(restored)
            case _:
                pass
        self.check_grammar(restored, entry)
        return restored

    def report_input(self, call: ToolCall, parsed: ParsedInput) -> Status | None:
        """Report losses in the input of a custom tool, and return the status of the call.

        Truncated input makes the call incomplete, whatever the backend says, because a client would
        run a complete call.
        """
        parsed.report(call_path(call), self._losses)
        if not parsed.is_truncated or call.status == "incomplete":
            return call.status
        self._losses.changed(call_path(call), "its input breaks off; it is told as incomplete")
        return "incomplete"

    def _restore_builtin(self, call: ToolCall, tool: HostedTool, entry: RegisteredTool) -> ToolCall:
        if call.status == "incomplete":
            if call.arguments:
                self._losses.dropped(f"{call_path(call)}.arguments", _TRUNCATED)
            return replace(call, kind=entry.kind, arguments=empty_arguments(entry.kind))
        parsed = parse_builtin_arguments(tool, call.arguments)
        if parsed is None:
            reason = f"its arguments are none of {tool.kind}; it stays the call of a function"
            self._losses.changed(call_path(call), reason)
            return as_function_call(call)
        parsed.report(call_path(call), self._losses)
        return replace(call, kind=entry.kind, arguments=parsed.arguments)

    def check_grammar(self, call: ToolCall, entry: RegisteredTool) -> None:
        """Report input of a custom tool that does not match its grammar."""
        if self._check is None or call.status == "incomplete" or call.kind != "custom":
            return
        error = (
            self._check(entry.tool, call.arguments) if isinstance(entry.tool, CustomTool) else None
        )
        if error is not None:
            reason = f"its input does not keep to the grammar: {error}"
            self._losses.changed(call_path(call), reason)

    # Streams

    def feed(self, event: Event) -> list[Event]:
        """Process an event."""
        match event:
            case Delta():
                block = self._pending.get(event.index) if self._pending else None
                if block is not None:
                    return block.fill(event)
                return [self._renumbered(event) if self._numbers else event]
            case Opened():
                return self._open_block(event)
            case Closed():
                block = self._pending.pop(event.index, None)
                return [self._renumbered(event)] if block is None else block.close(event)
            case Failed():
                return [*self._release_all(), event]
            case _:
                return [event]

    def _open_block(self, event: Opened) -> list[Event]:
        queue = self._queues.get(event.choice)
        if queue is not None:
            block = self._pending[event.index] = QueuedBlock(event)
            queue.append(block)
            return []
        if isinstance(event.item, ToolCall):
            return self._open_call(event, event.item)
        return [self.open(event)]

    def open(self, event: Opened) -> Opened:
        """Give a block its number."""
        number = self._opened_count
        self._opened_count += 1
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
            self._pending[event.index] = BufferedBuiltinCall(self, event, call, entry)
            self._queues[event.choice] = deque()
            return []
        self._report_kind(call, entry)
        restored = replace(call, name=entry.name, namespace=entry.namespace)
        changes_kind = {call.kind, entry.kind} == {"function", "custom"}
        item = replace(restored, kind=entry.kind) if changes_kind else restored
        opened = self.open(replace(event, item=item))
        block = self._pending_call(opened, restored, entry)
        if block is not None:
            self._pending[event.index] = block
        return [opened]

    def _pending_call(
        self, opened: Opened, call: ToolCall, entry: RegisteredTool
    ) -> "PendingBlock | None":
        """Return what converts the arguments of a call; None if they pass unchanged."""
        match call.kind, entry.kind:
            case "custom", "function":
                return BufferedCustomCall(opened, call)
            case "function", "custom":
                custom = replace(call, kind="custom")
                return CustomInputStream(self, opened, custom, entry, CustomInputParser())
            case "custom", "custom" if self._check is not None:
                return CustomInputStream(self, opened, call, entry, None)
            case _:
                return None

    def release(self, choice: int) -> list[Event]:
        """Process the blocks that waited for a call, up to the next call that is buffered."""
        queue = self._queues.pop(choice, deque())
        events: list[Event] = []
        while queue:
            if choice in self._queues:
                self._queues[choice] = queue
                break
            block = queue.popleft()
            self._pending.pop(block.index, None)
            events += [out for event in block.events for out in self.feed(event)]
        return events

    def _release_all(self) -> list[Event]:
        """Process all waiting blocks, because the calls that they wait for will not end."""
        events: list[Event] = []
        while self._queues:
            events += self.release(next(iter(self._queues)))
        return events

    @property
    def passes_deltas(self) -> bool:
        """True while deltas pass unchanged: no call is being restored, no block renumbered."""
        return not self._pending and not self._numbers

    def flush(self) -> list[Event]:
        """Return nothing: all was emitted at the end of the stream."""
        return []


class CustomInputStream:
    """A custom tool call in a stream, whose input is emitted as it comes."""

    def __init__(
        self,
        restorer: CallRestorer,
        opened: Opened,
        call: ToolCall,
        entry: RegisteredTool,
        parser: CustomInputParser | None,
    ) -> None:
        self._restorer = restorer
        self._number = opened.index
        self._call = call
        self._entry = entry
        # None if the backend called it as a custom tool already.
        self._parser = parser
        self._emitted: list[str] = []

    def fill(self, delta: Delta) -> list[Event]:
        """Emit the input that a delta of the arguments holds."""
        return self._emit(delta.text if self._parser is None else self._parser.feed(delta.text))

    def _emit(self, text: str) -> list[Event]:
        if not text:
            return []
        self._emitted.append(text)
        return [Delta(self._number, "arguments", text)]

    def close(self, closed: Closed) -> list[Event]:
        """Emit the rest of the input."""
        parsed = ParsedInput("") if self._parser is None else self._parser.finish()
        rest = self._emit(parsed.text)
        call = replace(self._call, arguments="".join(self._emitted), status=closed.status)
        status = self._restorer.report_input(call, parsed) or closed.status
        self._restorer.check_grammar(replace(call, status=status), self._entry)
        return [*rest, replace(closed, index=self._number, status=status)]


class BufferedCustomCall:
    """A call of a function, made as a custom tool call and held until it is complete."""

    def __init__(self, opened: Opened, call: ToolCall) -> None:
        self._number = opened.index
        self._call = call
        self._texts: list[str] = []

    def fill(self, delta: Delta) -> list[Event]:
        """Hold a delta of the input."""
        self._texts.append(delta.text)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Emit the whole input as arguments."""
        call = replace(self._call, arguments="".join(self._texts), status=closed.status)
        arguments = as_function_call(call).arguments
        deltas: list[Event] = [Delta(self._number, "arguments", arguments)] if arguments else []
        return [*deltas, replace(closed, index=self._number)]


class BufferedBuiltinCall:
    """A call of a built-in tool, held until it is complete."""

    def __init__(
        self, restorer: CallRestorer, opened: Opened, call: ToolCall, entry: RegisteredTool
    ) -> None:
        self._restorer = restorer
        self._opened = opened
        self._call = call
        self._entry = entry
        self._texts: list[str] = []

    def fill(self, delta: Delta) -> list[Event]:
        """Hold a delta of the arguments."""
        self._texts.append(delta.text)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Emit the whole call, and what waited for it."""
        call = replace(self._call, arguments="".join(self._texts), status=closed.status)
        restored = self._restorer.restore_call(call, self._entry)
        item = replace(restored, arguments="", status=None)
        opened = self._restorer.open(replace(self._opened, item=item))
        return [
            opened,
            Delta(opened.index, "arguments", restored.arguments),
            replace(closed, index=opened.index),
            *self._restorer.release(opened.choice),
        ]


class QueuedBlock:
    """A block that waits for the end of a buffered call."""

    def __init__(self, opened: Opened) -> None:
        self.index = opened.index
        self.events: list[Event] = [opened]

    def fill(self, delta: Delta) -> list[Event]:
        """Hold a delta."""
        self.events.append(delta)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Hold the end of the block."""
        self.events.append(closed)
        return []


PendingBlock = CustomInputStream | BufferedCustomCall | BufferedBuiltinCall | QueuedBlock


def as_function_call(call: ToolCall) -> ToolCall:
    """Return a custom tool call as a function call, whose arguments are JSON."""
    if call.kind == "function":
        return call
    is_complete = call.status != "incomplete"
    arguments = input_as_arguments(call.arguments, is_complete=is_complete)
    return replace(call, kind="function", arguments=arguments)
