"""The stage that turns function calls of a backend back into calls of the tools that they emulate.

The input of a custom tool is unwrapped as it streams. The call of a built-in tool is written only
when it is complete, because a client could run an incomplete one. Blocks that begin after such a
call wait for it, so that blocks keep their order. A call of an unknown name goes to the one tool
that it can mean, if there is one.
"""

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Opened
from adapters.ir.normalize import call_path
from adapters.ir.types import CallKind, CustomTool, HostedTool, Reply, Status, ToolCall
from adapters.losses import Losses
from adapters.stages.stage import BlockProcessor, Stage
from adapters.tool_emulation.builtin_tools import empty_arguments, parse_builtin_arguments
from adapters.tool_emulation.custom_tools import (
    CustomInputParser,
    ParsedInput,
    input_as_arguments,
)
from adapters.tool_emulation.registry import RegisteredTool, ToolRegistry

_TRUNCATED = "the arguments are truncated and cannot be used"


class CustomInput(Struct, frozen=True):
    """The input of a custom tool call, to be checked against the grammar of the tool."""

    tool: CustomTool
    input: str
    # The path of the call in losses.
    path: str


class CallRestorer(Stage):
    """A stage that restores the calls of a reply."""

    def __init__(
        self, registry: ToolRegistry, losses: Losses, *, collects_inputs: bool = False
    ) -> None:
        super().__init__()
        self._registry = registry
        self._losses = losses
        # Whether the inputs of tools with a grammar are wanted, and those so far.
        self._collects_inputs = collects_inputs
        self.custom_inputs: list[CustomInput] = []
        # By choice: the blocks that wait for the end of a built-in tool call.
        self._queues: dict[int, deque[QueuedBlock]] = {}

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has calls other than those of declared functions by their own names."""
        return not all(
            self._registry.knows_unchanged(item)
            for choice in reply.choices
            for item in choice.items
            if isinstance(item, ToolCall)
        )

    def _open(self, event: Opened) -> list[Event]:
        queue = self._queues.get(event.choice)
        if queue is not None:
            block = self._processors[event.index] = QueuedBlock(event)
            queue.append(block)
            return []
        call = event.item
        if not isinstance(call, ToolCall) or self._registry.knows_unchanged(call):
            return [event]
        entry = self._find(call)
        return [event] if entry is None else self._open_call(event, call, entry)

    def _fail(self, event: Failed) -> list[Event]:
        """Pass on all waiting blocks, because the calls that they wait for will not end."""
        events: list[Event] = []
        while self._queues:
            events += self.release(next(iter(self._queues)))
        return [*events, event]

    # Calls

    def _find(self, call: ToolCall) -> RegisteredTool | None:
        entry = self._registry.by_backend_name(call)
        if entry is not None:
            return entry
        entry = self._registry.resolve_unknown(call)
        if entry is not None:
            reason = f"no tool is named {call.name}; returned as {entry.display_name}"
            self._losses.changed(call_path(call), reason)
        return entry

    def _open_call(self, event: Opened, call: ToolCall, entry: RegisteredTool) -> list[Event]:
        restored = replace(call, name=entry.name, namespace=entry.namespace)
        if call.kind in ("function", "custom") and isinstance(entry.tool, HostedTool):
            builtin = BufferedBuiltinCall(self, event, restored, entry.tool, entry.kind)
            self._processors[event.index] = builtin
            self._queues[event.choice] = deque()
            return []
        self._report_kind(call, entry)
        if {call.kind, entry.kind} == {"function", "custom"}:
            restored = replace(restored, kind=entry.kind)
        handler = self._argument_handler(call, restored, entry)
        if handler is not None:
            self._processors[event.index] = handler
        return [replace(event, item=restored)]

    def _report_kind(self, call: ToolCall, entry: RegisteredTool) -> None:
        """Report a function called as a custom tool, or a custom tool called as a function."""
        if call.kind == "function" and entry.backend_kind == "custom":
            reason = "called as a function; returned as a call of the custom tool"
            self._losses.changed(call_path(call), reason)
        if call.kind == "custom" and entry.kind == "function":
            reason = "called as a custom tool; returned as a function call"
            self._losses.changed(call_path(call), reason)

    def _argument_handler(
        self, call: ToolCall, restored: ToolCall, entry: RegisteredTool
    ) -> BlockProcessor | None:
        """Return what converts the arguments of a call; None if they pass unchanged."""
        match call.kind, entry.kind:
            case "custom", "function":
                return BufferedCustomCall()
            case "function", "custom":
                return CustomInputStream(self, restored, entry, CustomInputParser())
            case "custom", "custom" if self._collects_inputs:
                return CustomInputStream(self, restored, entry, None)
            case _:
                return None

    # For the handlers of calls

    def end_input(self, call: ToolCall, entry: RegisteredTool, parsed: ParsedInput) -> Status:
        """Report losses in the input of a custom tool, and return the status of the call.

        Truncated input makes the call incomplete, whatever the backend says, because a client would
        run a complete call.
        """
        parsed.report(call_path(call), self._losses)
        if call.status == "incomplete":
            return "incomplete"
        if parsed.is_truncated:
            self._losses.changed(call_path(call), "the input is truncated; reported as incomplete")
            return "incomplete"
        if self._collects_inputs and isinstance(entry.tool, CustomTool):
            self.custom_inputs.append(CustomInput(entry.tool, call.arguments, call_path(call)))
        return call.status or "completed"

    def restore_builtin(self, call: ToolCall, tool: HostedTool, kind: CallKind) -> ToolCall:
        """Restore the call of a built-in tool whose arguments have all come."""
        if call.status == "incomplete":
            if call.arguments:
                self._losses.dropped(f"{call_path(call)}.arguments", _TRUNCATED)
            return replace(call, kind=kind, arguments=empty_arguments(kind))
        parsed = parse_builtin_arguments(tool, call.arguments)
        if parsed is None:
            reason = f"the arguments are not valid for {tool.kind}; returned as a function call"
            self._losses.changed(call_path(call), reason)
            arguments = call.arguments
            if call.kind == "custom":
                arguments = input_as_arguments(arguments, is_complete=True)
            return replace(call, kind="function", arguments=arguments)
        parsed.report(call_path(call), self._losses)
        return replace(call, kind=kind, arguments=parsed.arguments)

    def release(self, choice: int) -> list[Event]:
        """Process the blocks that waited for a call, up to the next call that is buffered."""
        queue = self._queues.pop(choice, deque())
        events: list[Event] = []
        while queue:
            if choice in self._queues:
                self._queues[choice] = queue
                break
            block = queue.popleft()
            self._processors.pop(block.index, None)
            events += self.feed_all(block.events)
        return events


class CustomInputStream:
    """A custom tool call, whose input is emitted as it comes."""

    def __init__(
        self,
        restorer: CallRestorer,
        call: ToolCall,
        entry: RegisteredTool,
        parser: CustomInputParser | None,
    ) -> None:
        self._restorer = restorer
        self._call = call
        self._entry = entry
        # None if the backend called it as a custom tool already.
        self._parser = parser
        self._texts: list[str] = []

    def feed(self, delta: Delta) -> list[Event]:
        """Emit the input that a delta of the arguments holds."""
        if self._parser is not None:
            delta = replace(delta, text=self._parser.feed(delta.text))
        self._texts.append(delta.text)
        return [delta] if delta.text else []

    def close(self, closed: Closed) -> list[Event]:
        """Emit the rest of the input."""
        parsed = ParsedInput("") if self._parser is None else self._parser.finish()
        arguments = "".join((*self._texts, parsed.text))
        call = replace(self._call, arguments=arguments, status=closed.status)
        status = self._restorer.end_input(call, self._entry, parsed)
        rest = [Delta(closed.index, "arguments", parsed.text)] if parsed.text else []
        return [*rest, replace(closed, status=status)]


class _BufferedArguments:
    """The arguments of a call that is held until it is complete."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def feed(self, delta: Delta) -> list[Event]:
        """Hold a delta."""
        self._texts.append(delta.text)
        return []


class BufferedCustomCall(_BufferedArguments):
    """A function call that the backend made as a custom tool call, held until it is complete."""

    def close(self, closed: Closed) -> list[Event]:
        """Emit the whole input as arguments."""
        is_complete = closed.status != "incomplete"
        arguments = input_as_arguments("".join(self._texts), is_complete=is_complete)
        return [Delta(closed.index, "arguments", arguments), closed] if arguments else [closed]


class BufferedBuiltinCall(_BufferedArguments):
    """A call of a built-in tool, held until it is complete."""

    def __init__(
        self,
        restorer: CallRestorer,
        opened: Opened,
        call: ToolCall,
        tool: HostedTool,
        kind: CallKind,
    ) -> None:
        super().__init__()
        self._restorer = restorer
        self._opened = opened
        self._call = call
        self._tool = tool
        self._kind: CallKind = kind

    def close(self, closed: Closed) -> list[Event]:
        """Emit the whole call, and what waited for it."""
        call = replace(self._call, arguments="".join(self._texts), status=closed.status)
        restored = self._restorer.restore_builtin(call, self._tool, self._kind)
        return [
            replace(self._opened, item=replace(restored, arguments="", status=None)),
            Delta(closed.index, "arguments", restored.arguments),
            closed,
            *self._restorer.release(self._opened.choice),
        ]


class QueuedBlock:
    """A block that waits for the end of a buffered call."""

    def __init__(self, opened: Opened) -> None:
        self.index = opened.index
        self.events: list[Event] = [opened]

    def feed(self, delta: Delta) -> list[Event]:
        """Hold a delta."""
        self.events.append(delta)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Hold the end of the block."""
        self.events.append(closed)
        return []
