"""Asks a backend that knows no tools in words."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal

from msgspec import Raw
from msgspec.json import Encoder
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ir.normalize import is_assistant_item
from adapters.ir.types import (
    FunctionTool,
    Item,
    Message,
    NamedToolChoice,
    Part,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
)
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_schema import EMPTY_SCHEMA
from adapters.wire.tools import without_strict

# Tools in words, for a backend that knows none.
#
# `prompted` describes the tools in the system message and tells the model how to call them;
# `history`
# writes the calls and outputs so far as text. What the model answers is read by `textcalls`.


# Describes tools to a model, and how it is to call them.
#
# The tags are those of Hermes, which most open models have been trained on.


_ENCODER = Encoder()

_DECLARED = """\
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
_SEVERAL = "To make several calls at once, write several such blocks, one after the other."
_ONE = "Make at most one call in each of your answers."
_RESULTS = (
    "Write nothing after your calls. Their results follow in the next message, each between"
    " <tool_response> and </tool_response>, in the order of the calls."
)
_AUTO = "Call tools only where they help; otherwise answer in plain words."
_REQUIRED = "Your next answer must call at least one of these tools."
_NAMED = "Your next answer must call the tool {name}, and no other."


def tools_prompt(
    tools: tuple[FunctionTool, ...], choice: ToolChoice | None, *, several: bool = True
) -> str:
    """Say which tools there are, how they are called, and what is wanted of them now."""
    declared = _DECLARED.format(tools="\n".join(map(_declared, tools)))
    rules = (_SEVERAL if several else _ONE, _RESULTS, _wanted(choice))
    return declared + "\n" + "\n".join(rules)


def _declared(tool: FunctionTool) -> str:
    declaration: dict[str, object] = {"name": tool.name}
    if tool.description is not None:
        declaration["description"] = tool.description
    declaration["parameters"] = EMPTY_SCHEMA if tool.parameters is None else tool.parameters
    return _ENCODER.encode(declaration).decode()


def _wanted(choice: ToolChoice | None) -> str:
    match choice:
        case NamedToolChoice(name=name):
            return _NAMED.format(name=name)
        case ToolChoiceMode(mode="required"):
            return _REQUIRED
        case _:
            return _AUTO


# Writes the calls of a history, and what the tools answered, as text.
#
# The calls of a turn stand in what the assistant said, in the form that it is asked to use. Their
# outputs follow in one user message, in the order of the calls.


Placed = tuple[Item, str]

CALLS_AS_TEXT_REASON = "the backend knows no tools; calls and their outputs are written as text"


def calls_as_text(request: Request, losses: Losses) -> Request:
    """Give the request with no calls and outputs in it but in words."""
    if not any(isinstance(item, ToolCall | ToolOutput) for item in request.items):
        return request
    losses.changed("items", CALLS_AS_TEXT_REASON)
    placed = list(_History(request, losses).write())
    return replace(
        request,
        items=tuple(item for item, _ in placed),
        paths=tuple(path for _, path in placed),
    )


class _History:
    """One history, turn by turn."""

    def __init__(self, request: Request, losses: Losses) -> None:
        self._placed = request.items_with_paths()
        self._carrier = ExtrasWriter("completions", "a text", losses)
        self._outputs = {
            item.call_id: (item, path)
            for item, path in self._placed
            if isinstance(item, ToolOutput)
        }
        self._called = {item.call_id for item, _ in self._placed if isinstance(item, ToolCall)}

    def write(self) -> Iterator[Placed]:
        """Give the items; outputs stand behind the turn that made their calls."""
        for kind, group in groupby(self._placed, _kind):
            match kind:
                case "turn":
                    yield from self._write_turn(list(group))
                case "outputs":
                    yield from self._write_outputs(self._without_calls(group))
                case "others":
                    yield from group

    def _without_calls(self, placed: Iterable[Placed]) -> list[tuple[ToolOutput, str]]:
        """Give the outputs to calls that only the server knows."""
        return [
            (item, path)
            for item, path in placed
            if isinstance(item, ToolOutput) and item.call_id not in self._called
        ]

    def _write_turn(self, turn: list[Placed]) -> Iterator[Placed]:
        """Give a turn: its reasoning, all that it said and called as one message, the outputs."""
        calls = [(item, path) for item, path in turn if isinstance(item, ToolCall)]
        if not calls:
            yield from turn
            return
        said = [(item, path) for item, path in turn if isinstance(item, Message | ToolCall)]
        yield from (one for one in turn if not isinstance(one[0], Message | ToolCall))
        spoken = next((item for item, _ in said if isinstance(item, Message)), Message("assistant"))
        content: list[Part] = []
        for item, path in said:
            content += self._separated(content, self._say(item, path))
        # It is no longer the item that its server may know by its id.
        yield replace(spoken, content=merge_texts(content), item_id=None), said[0][1]
        outputs = [
            self._outputs[call.call_id] for call, _ in calls if call.call_id in self._outputs
        ]
        yield from self._write_outputs(outputs)

    def _separated(self, before: list[Part], content: tuple[Part, ...]) -> tuple[Part, ...]:
        return (Text("\n"), *content) if before and content else content

    def _say(self, item: Item, path: str) -> tuple[Part, ...]:
        if isinstance(item, Message):
            return item.content
        if not isinstance(item, ToolCall):
            return ()
        self._carrier.report_dropped(item.extras, path)
        return (Text(call_as_text(item)),)

    def _write_outputs(self, outputs: list[tuple[ToolOutput, str]]) -> Iterator[Placed]:
        content: list[Part] = []
        for output, path in outputs:
            self._carrier.report_dropped(output.extras, path)
            parts = (Text(output.output),) if isinstance(output.output, str) else output.output
            framed = (Text("<tool_response>\n"), *parts, Text("\n</tool_response>"))
            content += self._separated(content, framed)
        if outputs:
            yield Message("user", merge_texts(content)), outputs[0][1]


def _kind(placed: Placed) -> Literal["turn", "outputs", "others"]:
    item, _ = placed
    if is_assistant_item(item):
        return "turn"
    return "outputs" if isinstance(item, ToolOutput) else "others"


def call_as_text(call: ToolCall) -> str:
    """Write a call as a model is asked to write it; the arguments as they were spelled."""
    spelled = call.kind == "function" and is_complete_json(call.arguments)
    arguments = Raw(call.arguments.encode()) if spelled else call.arguments
    said = _ENCODER.encode({"name": call.name, "arguments": arguments})
    return f"<tool_call>\n{said.decode()}\n</tool_call>"


def merge_texts(parts: list[Part]) -> tuple[Part, ...]:
    """Make one text of those that stand side by side and are nothing but text."""
    content: list[Part] = []
    for part in parts:
        last = content[-1] if content else None
        if isinstance(last, Text) and isinstance(part, Text) and _is_plain(last, part):
            content[-1] = Text(last.text + part.text)
        else:
            content.append(part)
    return tuple(content)


def _is_plain(*texts: Text) -> bool:
    return all(text == Text(text.text) for text in texts)


_DESCRIBED = "the backend knows no tools; they are described to it in words"
_CHOICE = "the backend cannot be made to call a tool; it is asked to in words"
_PARALLEL = "the backend cannot be held to one call; it is asked for one in words"
_SEPARATOR = "\n\n"
_WORDS_ONLY = Capabilities(strict_tools=False)


def _can_describe(tool: Tool) -> bool:
    return isinstance(tool, FunctionTool)


# A choice of nothing is made by describing nothing.
_ABILITIES = ToolSupport(_can_describe, allowed_tools=False, choices=("auto", "required", "named"))


def describe_tools_in_prompt(request: Request, losses: Losses) -> Request:
    """Give the request with its tools, its choice among them and its calls in words."""
    selection = select(request, _ABILITIES, losses)
    written = calls_as_text(request, losses)
    plain = replace(written, tools=(), tool_paths=(), tool_choice=None, parallel_tool_calls=None)
    tools = tuple(
        _plain(tool, path, losses)
        for tool, path in selection.tools
        if isinstance(tool, FunctionTool)
    )
    if not tools:
        return plain
    losses.changed("tools", _DESCRIBED)
    _report_wishes(selection.choice, request, losses)
    several = request.parallel_tool_calls is not False
    return _instructed(plain, tools_prompt(tools, selection.choice, several=several))


def _plain(tool: FunctionTool, path: str, losses: Losses) -> FunctionTool:
    """Give a tool without what words cannot say."""
    without_strict(tool, path, _WORDS_ONLY, losses)
    ExtrasWriter("completions", "a description in words", losses).report_dropped(tool.extras, path)
    return tool


def _report_wishes(choice: ToolChoice | None, request: Request, losses: Losses) -> None:
    """Say of what was demanded that it can only be asked for."""
    if isinstance(choice, NamedToolChoice) or choice == ToolChoiceMode("required"):
        losses.changed("tool_choice", _CHOICE, "capability")
    if request.parallel_tool_calls is False:
        losses.changed("parallel_tool_calls", _PARALLEL, "capability")


def _instructed(request: Request, words: str) -> Request:
    """Put the words behind what the model is told first; that is where it looks for tools."""
    if request.instructions:
        return replace(request, instructions=request.instructions + _SEPARATOR + words)
    match request.items:
        case (Message(role="system" | "developer", content=content) as first, *others):
            told = replace(first, content=merge_texts([*content, Text(_SEPARATOR + words)]))
            items: tuple[Item, ...] = (told, *others)
            return replace(request, items=items)
        case _:
            return replace(request, instructions=words)
