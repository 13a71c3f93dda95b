"""The stage that converts function calls of a backend to calls of the tools that they emulate.

The input of a custom tool is unwrapped as it streams. The call of a built-in tool is emitted only
when it is complete, because a client could run an incomplete one. Later blocks wait for such a
call, so that blocks keep their order. A call with an unknown name is returned as a call of the only
tool that it can mean.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Opened
from adapters.ir.normalize import call_path
from adapters.ir.types import CallKind, CustomTool, HostedTool, Reply, Status, ToolCall
from adapters.losses import Losses
from adapters.stages.stage import BlockProcessor, Stage
from adapters.tool_emulation.builtin_tools import NO_EFFECT_ARGUMENTS, parse_builtin_arguments
from adapters.tool_emulation.custom_tools import CustomInputParser, ParsedInput, input_as_arguments
from adapters.tool_emulation.patches import PATCH_FOUND, PATCH_TOOL, PatchParser
from adapters.tool_emulation.registry import RegisteredTool, ToolRegistry
from adapters.tool_emulation.wrapped_values import unwrap_value

_TRUNCATED = "the arguments are truncated and cannot be used"


class CustomInput(Struct, frozen=True):
    """The input of a custom tool call, to check it against the grammar of the tool."""

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
        # Whether to collect the inputs of tools with a grammar, and the inputs so far.
        self._collects_inputs = collects_inputs
        self.custom_inputs: list[CustomInput] = []
        # The blocks that wait for the end of a built-in tool call, by choice.
        self._queues: dict[int, deque[QueuedBlock]] = {}

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has calls other than calls of declared functions by their names."""
        return not all(
            self._registry.knows_unchanged(item)
            for choice in reply.choices
            for item in choice.items
            if isinstance(item, ToolCall)
        )

    def _open(self, event: Opened) -> list[Event]:
        queue = self._queues.get(event.choice)
        if queue is not None:
            block = self._processors[event.index] = QueuedBlock(event.index, [event])
            queue.append(block)
            return []
        call = event.item
        if not isinstance(call, ToolCall) or self._registry.knows_unchanged(call):
            return [event]
        entry = self._find(call)
        return [event] if entry is None else self._open_call(event, call, entry)

    def _fail(self, event: Failed) -> list[Event]:
        """Emit all waiting blocks, because the calls that they wait for will not end."""
        events: list[Event] = []
        while self._queues:
            events += self._release(next(iter(self._queues)))
        for index, processor in self._processors.items():
            if isinstance(processor, CustomInputStream) and processor.patch is not None:
                rest, _ = processor.patch.finish(is_complete=False)
                events += [Delta(index, "arguments", rest)] if rest else []
        return [*events, event]

    # Calls

    def _find(self, call: ToolCall) -> RegisteredTool | None:
        entry = self._registry.by_backend_name(call)
        if entry is not None:
            return entry
        entry = self._registry.resolve_unknown(call)
        if entry is not None:
            reason = f"no tool is named {call.name}; returned as {entry.display_name}"
            if call.name == entry.display_name:
                reason = "the name contains the namespace, which is returned in its own field"
            self._losses.changed(call_path(call), reason)
        return entry

    def _open_call(self, event: Opened, call: ToolCall, entry: RegisteredTool) -> list[Event]:
        restored = replace(call, name=entry.name, namespace=entry.namespace)
        if call.kind in ("function", "custom") and isinstance(entry.tool, HostedTool):
            end = partial(self._end_builtin_call, event, restored, entry.tool, entry.kind)
            self._processors[event.index] = BufferedCall(end)
            self._queues[event.choice] = deque()
            return []
        self._report_kind(call, entry)
        if {call.kind, entry.kind} == {"function", "custom"}:
            restored = replace(restored, kind=entry.kind)
        processor = self._argument_processor(call, restored, entry)
        if processor is not None:
            self._processors[event.index] = processor
        return [replace(event, item=restored)]

    def _report_kind(self, call: ToolCall, entry: RegisteredTool) -> None:
        """Report a custom tool called as a function, or a function called as a custom tool."""
        if call.kind == "function" and entry.backend_kind == "custom":
            reason = "called as a function; returned as a call of the custom tool"
            self._losses.changed(call_path(call), reason)
        if call.kind == "custom" and entry.kind == "function":
            reason = "called as a custom tool; returned as a function call"
            self._losses.changed(call_path(call), reason)

    def _argument_processor(
        self, call: ToolCall, restored: ToolCall, entry: RegisteredTool
    ) -> BlockProcessor | None:
        """Return the processor for the arguments of a call; None if they are not changed."""
        match call.kind, entry.kind:
            case "custom", "function":
                return BufferedCall(_end_custom_call)
            case "function", "custom":
                patch = PatchParser() if entry.name == PATCH_TOOL else None
                return CustomInputStream(self, restored, entry, CustomInputParser(), patch)
            case "function", "function" if entry.is_wrapped:
                return BufferedCall(_end_wrapped_call)
            case "custom", "custom" if self._collects_inputs:
                return CustomInputStream(self, restored, entry, None)
            case _:
                return None

    # Ends of calls

    def report_patch(self, call: ToolCall) -> None:
        """Report that text around a patch was removed."""
        self._losses.changed(call_path(call), PATCH_FOUND)

    def end_input(self, call: ToolCall, entry: RegisteredTool, parsed: ParsedInput) -> Status:
        """Report losses in the input of a custom tool, and return the status of the call.

        A call with truncated input is always incomplete, because clients run complete calls.
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

    def _end_builtin_call(
        self,
        opened: Opened,
        call: ToolCall,
        tool: HostedTool,
        kind: CallKind,
        arguments: str,
        closed: Closed,
    ) -> list[Event]:
        """Emit the call of a built-in tool, and the blocks that waited for it."""
        call = replace(call, arguments=arguments, status=closed.status)
        restored = self._restore_builtin(call, tool, kind)
        return [
            replace(opened, item=replace(restored, arguments="", status=None)),
            Delta(closed.index, "arguments", restored.arguments),
            closed,
            *self._release(opened.choice),
        ]

    def _restore_builtin(self, call: ToolCall, tool: HostedTool, kind: CallKind) -> ToolCall:
        """Restore the complete call of a built-in tool."""
        if call.status == "incomplete":
            if call.arguments:
                self._losses.changed(call_path(call), _TRUNCATED)
            return replace(call, kind=kind, arguments=NO_EFFECT_ARGUMENTS[kind])
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

    def _release(self, choice: int) -> list[Event]:
        """Emit the blocks that waited for a call, up to the next call that must be buffered."""
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


class CustomInputStream(Struct, eq=False):
    """A custom tool call, whose input is emitted as it arrives."""

    restorer: CallRestorer
    call: ToolCall
    entry: RegisteredTool
    # None if the backend called it as a custom tool already.
    parser: CustomInputParser | None
    # Set for the tool whose input is a patch.
    patch: PatchParser | None = None
    fragments: list[str] = []

    def feed(self, delta: Delta) -> list[Event]:
        """Emit the input that a delta of the arguments contains."""
        if self.parser is not None:
            text = self.parser.feed(delta.text)
            delta = replace(delta, text=text if self.patch is None else self.patch.feed(text))
        self.fragments.append(delta.text)
        return [delta] if delta.text else []

    def close(self, closed: Closed) -> list[Event]:
        """Emit the rest of the input."""
        parsed = ParsedInput("") if self.parser is None else self.parser.finish()
        if self.patch is not None:
            parsed = self._finish_patch(self.patch, parsed, closed)
        arguments = "".join((*self.fragments, parsed.text))
        call = replace(self.call, arguments=arguments, status=closed.status)
        status = self.restorer.end_input(call, self.entry, parsed)
        rest = [Delta(closed.index, "arguments", parsed.text)] if parsed.text else []
        return [*rest, replace(closed, status=status)]

    def _finish_patch(self, patch: PatchParser, parsed: ParsedInput, closed: Closed) -> ParsedInput:
        """Return the rest of the input with the rest of the patch instead of its text."""
        before = patch.feed(parsed.text)
        is_complete = closed.status != "incomplete" and not parsed.is_truncated
        rest, is_changed = patch.finish(is_complete=is_complete)
        if is_changed:
            self.restorer.report_patch(self.call)
        return replace(parsed, text=before + rest)


class BufferedCall(Struct, eq=False):
    """A call that is held until it is complete."""

    # Takes the complete arguments and the end of the call.
    on_close: Callable[[str, Closed], list[Event]]
    fragments: list[str] = []

    def feed(self, delta: Delta) -> list[Event]:
        """Hold a delta."""
        self.fragments.append(delta.text)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Emit the call."""
        return self.on_close("".join(self.fragments), closed)


def _end_custom_call(raw_input: str, closed: Closed) -> list[Event]:
    """Emit the input of a function that the backend called as a custom tool."""
    arguments = input_as_arguments(raw_input, is_complete=closed.status != "incomplete")
    return [Delta(closed.index, "arguments", arguments), closed] if arguments else [closed]


def _end_wrapped_call(arguments: str, closed: Closed) -> list[Event]:
    """Emit the value of a function that takes another value than an object."""
    value = unwrap_value(arguments)
    return [Delta(closed.index, "arguments", value), closed] if value else [closed]


class QueuedBlock(Struct, eq=False):
    """A block that waits for the end of a buffered call."""

    index: BlockId
    events: list[Event]

    def feed(self, delta: Delta) -> list[Event]:
        """Hold a delta."""
        self.events.append(delta)
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Hold the end of the block."""
        self.events.append(closed)
        return []
