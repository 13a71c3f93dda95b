"""Writes a request for a backend that knows only `functions` and `function_call`."""

from collections.abc import Iterator

import msgspec

from adapters.capabilities import Capabilities
from adapters.chat.message_writer import AssistantTurn, Media, MessageWriter
from adapters.chat.request_writer import write_function, write_settings
from adapters.ir.types import (
    FunctionTool,
    NamedToolChoice,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
)
from adapters.legacy.wire import NAMES
from adapters.losses import Losses
from adapters.tool_selection import Selection, ToolSupport, select
from adapters.wire.extra_fields import ExtrasWriter, drop_refused
from adapters.wire.tools import without_strict

Wire = dict[str, object]
_ENCODER = msgspec.json.Encoder()
_LABEL = "the legacy form"
# Its functions have no `strict`.
_NO_STRICT = Capabilities(strict_tools=False)


def write_request(request: Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Write a request."""
    messages = LegacyMessageWriter(request, capabilities, losses).write(request.instructions)
    wire: Wire = {"model": request.model} if request.model is not None else {}
    wire["messages"] = messages
    _write_functions(request, capabilities, losses, wire)
    write_settings(request, _LABEL, capabilities, losses, wire)
    if request.max_output_tokens is not None:
        wire["max_tokens"] = request.max_output_tokens
    ExtrasWriter("completions", _LABEL, losses, capabilities.extra_fields).carry(
        request.extras, wire
    )
    drop_refused(wire, capabilities.unsupported_fields, NAMES, losses)
    return _ENCODER.encode(wire)


def supports_tool(tool: Tool, _capabilities: Capabilities) -> bool:
    """Tell whether a legacy backend can be told of a tool: it knows only functions."""
    return isinstance(tool, FunctionTool)


def _write_functions(
    request: Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    abilities = ToolSupport(
        lambda tool: supports_tool(tool, capabilities),
        allowed_tools=False,
        choices=capabilities.tool_choices,
        requires_choice=capabilities.explicit_tool_choice,
    )
    selection = select(request, abilities, losses)
    if not selection.tools:
        return
    carrier = ExtrasWriter("completions", _LABEL, losses)
    functions: list[Wire] = []
    for tool, path in selection.tools:
        told = without_strict(tool, path, _NO_STRICT, losses)
        if isinstance(told, FunctionTool):
            functions.append(write_function(told, path, carrier, losses))
    wire["functions"] = functions
    if selection.choice is not None:
        wire["function_call"] = _write_choice(selection.choice, selection, losses)
    if request.parallel_tool_calls:
        losses.dropped("parallel_tool_calls", "a legacy backend makes one call at a time")


def _write_choice(choice: ToolChoice, selection: Selection, losses: Losses) -> str | Wire:
    """Write the choice; "some function" can only be said where there is just one."""
    match choice:
        case NamedToolChoice():
            return {"name": choice.name}
        case ToolChoiceMode(mode="required"):
            (first, _), *others = selection.tools
            if not others and isinstance(first, FunctionTool):
                return {"name": first.name}
            losses.changed(
                "tool_choice",
                "the legacy form cannot demand some call; it becomes auto",
                "capability",
            )
            return "auto"
        case ToolChoiceMode():
            return choice.mode
        case _:
            return "auto"


class LegacyMessageWriter(MessageWriter):
    """Writes one call to a message, each followed by its answer."""

    label = _LABEL

    def _write_calls(self, turn: AssistantTurn, wire: Wire) -> None:
        """Write the first call with the text; the others follow in messages of their own."""
        wire["function_call"] = self._write_function_call(*turn.calls[0])

    def _write_function_call(self, call: ToolCall, path: str) -> Wire:
        wire: Wire = {"name": call.name, "arguments": call.arguments}
        self._carrier.carry(call.extras, wire, path)
        return wire

    def _write_answers(self, turn: AssistantTurn, media: Media) -> Iterator[Wire]:
        for number, (call, path) in enumerate(turn.calls):
            if number:
                self._losses.changed(path, "parallel calls become one after the other")
                function_call = self._write_function_call(call, path)
                yield {"role": "assistant", **self._nothing(), "function_call": function_call}
            placed = self._output_of(call)
            if placed is not None:
                yield self._write_output(call, *placed, media)

    def _write_output(self, call: ToolCall, output: ToolOutput, path: str, media: Media) -> Wire:
        content = self._output_content(call, output, path, media)
        if not isinstance(content, str):
            # A function message holds a string, where a tool message may hold text parts.
            content = "".join(part.text for part in output.output if isinstance(part, Text))
            self._report_breakpoints(output, path)
        wire: Wire = {"role": "function", "name": call.name, "content": content}
        self._carrier.carry(output.extras, wire, path)
        return wire

    def _holds_media(self) -> bool:
        return False

    def _report_breakpoints(self, output: ToolOutput, path: str) -> None:
        for part in output.output:
            if isinstance(part, Text) and part.cache_breakpoint is not None:
                self._losses.dropped(path, "what a function answered is one string")

    def _label_output(self, call: ToolCall) -> str:
        return f"Output of {call.name}:"
