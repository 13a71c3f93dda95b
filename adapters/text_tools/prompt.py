"""Tools, calls and outputs as text, for a backend that has no tools.

The tools are described in the system message, in the format of Hermes, which most open models were
trained on. Calls in the history become assistant text in the same format, and their outputs follow
in one user message, in the order of the calls.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Literal, TypeGuard

from msgspec import Raw
from msgspec.json import Encoder
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ir.normalize import is_assistant_item, split_paths
from adapters.ir.types import (
    FunctionTool,
    Item,
    Message,
    NamedToolChoice,
    Part,
    Request,
    Text,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
)
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select_tools
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_schema import EMPTY_SCHEMA
from adapters.wire.tools import without_strict, write_tool_head

ItemWithPath = tuple[Item, str]

_ENCODER = Encoder()

CALLS_AS_TEXT_REASON = "tools are not supported; calls and outputs are sent as text"

_NO_STRICT = Capabilities(strict_tools=False)
# `none` is not among the choices: no tools are described for it.
_TOOL_SUPPORT = ToolSupport(
    lambda tool: isinstance(tool, FunctionTool),
    allowed_tools=False,
    choices=("auto", "required", "named"),
)


def describe_tools_in_prompt(request: Request, losses: Losses) -> Request:
    """Return the request with its tools, its tool choice and its calls as text."""
    selection = select_tools(request, _TOOL_SUPPORT, losses)
    text_request = replace(
        calls_as_text(request, losses),
        tools=(),
        tool_paths=(),
        tool_choice=None,
        parallel_tool_calls=None,
    )
    tools: list[FunctionTool] = []
    for tool, path in selection.tools:
        if isinstance(tool, FunctionTool):
            # The description of a tool has neither `strict` nor its extra fields.
            without_strict(tool, path, _NO_STRICT, losses)
            ExtrasWriter("", "a tool in the prompt", losses).report_dropped(tool.extras, path)
            tools.append(tool)
    if not tools:
        return text_request
    reason = "not supported; described in the prompt"
    losses.changed("tools", f"tools are {reason}")
    choice, parallel = selection.choice, request.parallel_tool_calls is not False
    if isinstance(choice, NamedToolChoice) or choice == ToolChoiceMode("required"):
        losses.changed("tool_choice", f"tool_choice is {reason}", "capability")
    if not parallel:
        losses.changed("parallel_tool_calls", f"parallel_tool_calls is {reason}", "capability")
    return add_instructions(text_request, _tools_prompt(tools, choice, parallel=parallel))


_SEPARATOR = "\n\n"


def add_instructions(request: Request, text: str) -> Request:
    """Append a text to the instructions or the first system message."""
    if request.instructions:
        return replace(request, instructions=request.instructions + _SEPARATOR + text)
    match request.items:
        case (Message(role="system" | "developer", content=content) as first, *others):
            system = replace(first, content=_merge_texts([*content, Text(_SEPARATOR + text)]))
            items: tuple[Item, ...] = (system, *others)
            return replace(request, items=items)
        case _:
            return replace(request, instructions=text)


# The prompt

_TOOLS = """\
# Tools

You can call tools. Each line between <tools> and </tools> declares one of them, with the JSON \
Schema of its arguments:
<tools>
{tools}
</tools>

To call a tool, write one JSON object with its name and its arguments between <tool_call> and \
</tool_call>, in just this form:
<tool_call>
{{"name": "name_of_the_tool", "arguments": {{"name_of_an_argument": "value"}}}}
</tool_call>
"""
_SEVERAL_CALLS = "To make several calls at once, write several such blocks, one after the other."
_ONE_CALL = "Make at most one call in each of your answers."
_RESULTS = (
    "Write nothing after your calls. Their results follow in the next message, each between"
    " <tool_response> and </tool_response>, in the order of the calls."
)


def _tools_prompt(tools: list[FunctionTool], choice: ToolChoice | None, *, parallel: bool) -> str:
    """Return the description of the tools, of the format of calls, and of the tool choice."""
    declarations = _TOOLS.format(tools="\n".join(map(_declaration, tools)))
    rules = (_SEVERAL_CALLS if parallel else _ONE_CALL, _RESULTS, _choice_rule(choice))
    return declarations + "\n" + "\n".join(rules)


def _declaration(tool: FunctionTool) -> str:
    declaration = write_tool_head(tool)
    declaration["parameters"] = EMPTY_SCHEMA if tool.parameters is None else tool.parameters
    return _ENCODER.encode(declaration).decode()


def _choice_rule(choice: ToolChoice | None) -> str:
    match choice:
        case NamedToolChoice(name=name):
            return f"Your next answer must call the tool {name}, and no other."
        case ToolChoiceMode(mode="required"):
            return "Your next answer must call at least one of these tools."
        case _:
            return "Call tools only where they help; otherwise answer in plain words."


# History


def calls_as_text(request: Request, losses: Losses) -> Request:
    """Return the request with its calls and their outputs as text."""
    if not any(isinstance(item, ToolCall | ToolOutput) for item in request.items):
        return request
    losses.changed("items", CALLS_AS_TEXT_REASON)
    items, paths = split_paths([*_HistoryWriter(request, losses).write()])
    return replace(request, items=items, paths=paths)


class _HistoryWriter:
    """Converts the calls and outputs of a history to text, turn by turn."""

    def __init__(self, request: Request, losses: Losses) -> None:
        self._items = request.items_with_paths()
        self._extras_writer = ExtrasWriter("", "a call in text", losses)
        self._outputs = {
            item.call_id: (item, path) for item, path in self._items if isinstance(item, ToolOutput)
        }
        self._call_ids = {item.call_id for item, _ in self._items if isinstance(item, ToolCall)}

    def write(self) -> Iterator[ItemWithPath]:
        """Yield the items; outputs follow the turn with their calls."""
        for kind, group in groupby(self._items, _group_kind):
            match kind:
                case "turn":
                    yield from self._write_turn(list(group))
                case "outputs":
                    # The calls of these outputs are not in the history, but on the backend.
                    yield from self._write_outputs(
                        [
                            (item, path)
                            for item, path in group
                            if isinstance(item, ToolOutput) and item.call_id not in self._call_ids
                        ]
                    )
                case "other":
                    yield from group

    def _write_turn(self, turn: list[ItemWithPath]) -> Iterator[ItemWithPath]:
        """Yield the reasoning of a turn, one message with its texts and calls, and the outputs."""
        calls = [item for item, _ in turn if isinstance(item, ToolCall)]
        if not calls:
            yield from turn
            return
        written = [(item, path) for item, path in turn if isinstance(item, Message | ToolCall)]
        yield from (pair for pair in turn if not isinstance(pair[0], Message | ToolCall))
        message = next((item for item, _ in turn if isinstance(item, Message)), None)
        content: list[Part] = []
        for item, path in written:
            if isinstance(item, Message):
                content += _separated(content, item.content)
            else:
                self._extras_writer.report_dropped(item.extras, path)
                content += _separated(content, (Text(call_as_text(item)),))
        # Remove the item id: the backend may know it with other content.
        first = message or Message("assistant")
        yield replace(first, content=_merge_texts(content), item_id=None), written[0][1]
        yield from self._write_outputs(
            [self._outputs[call.call_id] for call in calls if call.call_id in self._outputs]
        )

    def _write_outputs(self, outputs: list[tuple[ToolOutput, str]]) -> Iterator[ItemWithPath]:
        content: list[Part] = []
        for output, path in outputs:
            self._extras_writer.report_dropped(output.extras, path)
            parts = (Text(output.output),) if isinstance(output.output, str) else output.output
            tagged = (Text("<tool_response>\n"), *parts, Text("\n</tool_response>"))
            content += _separated(content, tagged)
        if outputs:
            yield Message("user", _merge_texts(content)), outputs[0][1]


def _group_kind(item_with_path: ItemWithPath) -> Literal["turn", "outputs", "other"]:
    item, _ = item_with_path
    if is_assistant_item(item):
        return "turn"
    return "outputs" if isinstance(item, ToolOutput) else "other"


def call_as_text(call: ToolCall) -> str:
    """Return a call in the format of the prompt, with its arguments unchanged."""
    is_json = call.kind == "function" and is_complete_json(call.arguments)
    arguments = Raw(call.arguments.encode()) if is_json else call.arguments
    encoded = _ENCODER.encode({"name": call.name, "arguments": arguments})
    return f"<tool_call>\n{encoded.decode()}\n</tool_call>"


def _separated(before: list[Part], content: tuple[Part, ...]) -> tuple[Part, ...]:
    return (Text("\n"), *content) if before and content else content


def _merge_texts(parts: list[Part]) -> tuple[Part, ...]:
    """Merge adjacent texts without other fields."""
    content: list[Part] = []
    for part in parts:
        last = content[-1] if content else None
        if _is_plain(last) and _is_plain(part):
            content[-1] = Text(last.text + part.text)
        else:
            content.append(part)
    return tuple(content)


def _is_plain(part: Part | None) -> TypeGuard[Text]:
    return isinstance(part, Text) and part == Text(part.text)
