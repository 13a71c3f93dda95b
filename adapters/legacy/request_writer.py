"""Writer of requests for backends that have only `functions` and `function_call`."""

import msgspec

from adapters.capabilities import Capabilities
from adapters.chat.message_writer import AssistantItems, Media, MessageWriter, message_of
from adapters.chat.parts import TEXT_SEPARATOR
from adapters.chat.request_writer import write_function, write_settings
from adapters.chat.wire import NAMES as CHAT_NAMES
from adapters.chat.wire import Wire, extras_writer
from adapters.ir.normalize import STRING_BREAKPOINT_REASON
from adapters.ir.types import (
    Extras,
    FunctionTool,
    NamedToolChoice,
    Refusal,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoiceMode,
    ToolOutput,
)
from adapters.losses import Losses
from adapters.tool_selection import Selection, ToolSupport, select_tools
from adapters.wire.extra_fields import drop_unsupported_fields
from adapters.wire.tools import report_unused_settings, without_strict

# The name of the dialect in messages to clients, and a reason for losses.
LABEL = "the legacy API"
ONE_CALL_REASON = f"{LABEL} supports only one call per reply"

NAMES = CHAT_NAMES | {
    "max_output_tokens": "max_tokens",
    "tool_choice": "function_call",
    "tool_choice.name": "function_call.name",
    "tools": "functions",
}

# The fields of Chat that were added together with tools, or later.
_NEWER_FIELDS = (
    "audio",
    "logprobs",
    "metadata",
    "modalities",
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "safety_identifier",
    "seed",
    "service_tier",
    "store",
    "stream_options",
    "top_logprobs",
    "verbosity",
)
_NEWER_MESSAGE_FIELDS = ("audio", "images")
_NEWER_REASON = f"{LABEL} may not support this field"
_ENCODER = msgspec.json.Encoder()
# Legacy functions have no `strict`.
_WITHOUT_STRICT = Capabilities(strict_tools=False)


def write_request(request: Request, capabilities: Capabilities, losses: Losses) -> bytes:
    """Write a request."""
    wire: Wire = {"model": request.model} if request.model is not None else {}
    wire["messages"] = LegacyMessageWriter(request, capabilities, losses).write()
    _write_functions(request, capabilities, losses, wire)
    write_settings(request, LABEL, capabilities, losses, wire)
    if request.max_output_tokens is not None:
        wire["max_tokens"] = request.max_output_tokens
    extras_writer(losses, LABEL, capabilities.extra_fields).carry(request.extras, wire)
    if capabilities.newer_fields is False:
        newer = tuple(name for name in _NEWER_FIELDS if name not in capabilities.extra_fields)
        drop_unsupported_fields(wire, newer, NAMES, losses, _NEWER_REASON)
    drop_unsupported_fields(wire, capabilities.unsupported_fields, NAMES, losses)
    return _ENCODER.encode(wire)


def supports_tool(tool: Tool, _capabilities: Capabilities) -> bool:
    """Whether a tool is a function: a legacy backend accepts no others."""
    return isinstance(tool, FunctionTool)


def _write_functions(
    request: Request, capabilities: Capabilities, losses: Losses, wire: Wire
) -> None:
    support = ToolSupport(
        lambda tool: supports_tool(tool, capabilities),
        allowed_tools=False,
        choices=capabilities.tool_choices,
        requires_choice=capabilities.explicit_tool_choice,
    )
    selection = select_tools(request, support, losses)
    if not selection.tools:
        report_unused_settings(request, losses)
        return
    extras = extras_writer(losses, LABEL)
    functions: list[Wire] = []
    for tool, path in selection.tools:
        function = without_strict(tool, path, _WITHOUT_STRICT, losses)
        if isinstance(function, FunctionTool):
            functions.append(write_function(function, path, extras, losses))
    wire["functions"] = functions
    if selection.choice is not None:
        wire["function_call"] = _write_choice(selection, losses)
    if request.parallel_tool_calls:
        losses.dropped("parallel_tool_calls", ONE_CALL_REASON)


def _write_choice(selection: Selection, losses: Losses) -> str | Wire:
    """Write the choice; a call can be required only by the name of a single function."""
    match selection.choice:
        case NamedToolChoice(name=name):
            return {"name": name}
        case ToolChoiceMode(mode="required"):
            (first, _), *others = selection.tools
            if not others and isinstance(first, FunctionTool):
                return {"name": first.name}
            reason = "required is not supported; sent as auto"
            losses.changed("tool_choice", reason, "capability")
            return "auto"
        case ToolChoiceMode(mode=mode):
            return mode
        case _:
            return "auto"


class LegacyMessageWriter(MessageWriter):
    """Writes each call as a message, followed by its output."""

    label = LABEL

    def _accepted_extras(self, extras: Extras, path: str) -> Extras:
        accepted = super()._accepted_extras(extras, path)
        if self._capabilities.newer_fields is not False:
            return accepted
        newer = [extra for extra in accepted if extra.name in _NEWER_MESSAGE_FIELDS]
        for extra in newer:
            self._losses.dropped(f"{path}.{extra.name}", _NEWER_REASON, "capability")
        return tuple(extra for extra in accepted if extra not in newer)

    def _texts(self, turn: AssistantItems) -> tuple[str, str]:
        text, refusal = turn.texts()
        if not refusal or self._capabilities.newer_fields is not False:
            return text, refusal
        for message, path in turn.messages:
            if any(isinstance(part, Refusal) for part in message.content):
                self._losses.changed(path, f"{LABEL} may not support refusals; sent as text")
        return TEXT_SEPARATOR.join(filter(None, (text, refusal))), ""

    def _write_calls(self, turn: AssistantItems, wire: Wire) -> None:
        """Write the first call; `_write_outputs` writes the others."""
        wire["function_call"] = self._write_call(*turn.calls[0])

    def _write_call(self, call: ToolCall, path: str) -> Wire:
        wire: Wire = {"name": call.name, "arguments": call.arguments}
        self._extras.carry(call.extras, wire, path)
        return wire

    def _merges(self, turn: AssistantItems) -> bool:
        return not turn.calls

    def _write_outputs(self, turn: AssistantItems, messages: list[Wire], media: Media) -> None:
        last_message = None
        for number, (call, path) in enumerate(turn.calls):
            message_path = message_of(path)
            if number and (message_path is None or message_path == last_message):
                self._losses.changed(path, "parallel calls are sent one after another")
            last_message = message_path
            if number:
                function_call = self._write_call(call, path)
                content = self._empty_content()
                messages.append({"role": "assistant", **content, "function_call": function_call})
            if (output := self._take_output(call)) is not None:
                messages.append(self._write_output(call, *output, media))

    def _write_output(self, call: ToolCall, output: ToolOutput, path: str, media: Media) -> Wire:
        content = self._output_content(call, output, path, media)
        if not isinstance(content, str):
            # A function message contains a string; only a tool message may contain text parts.
            texts = [part for part in output.output if isinstance(part, Text)]
            content = "".join(text.text for text in texts)
            if len(texts) > 1:
                self._losses.changed(path, "only a string is supported; text parts are joined")
            for text in texts:
                self._extras.report_dropped(text.extras, path)
                if text.cache_breakpoint is not None:
                    self._losses.dropped(path, STRING_BREAKPOINT_REASON)
        wire: Wire = {"role": "function", "name": call.name, "content": content}
        self._extras.carry(output.extras, wire, path)
        return wire

    def _accepts_output_media(self) -> bool:
        return False

    def _output_label(self, call: ToolCall) -> str:
        return f"Output of {call.name}:"
