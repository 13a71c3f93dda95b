"""Asks a backend that knows no tools in words."""

from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.ir.types import (
    FunctionTool,
    Item,
    Message,
    NamedToolChoice,
    Request,
    Text,
    Tool,
    ToolChoice,
    ToolChoiceMode,
)
from adapters.losses import Losses
from adapters.text_tools.prompt_description import described
from adapters.text_tools.prompt_history import calls_as_text, joined
from adapters.tool_selection import ToolSupport, select
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.tools import without_strict

_DESCRIBED = "the backend knows no tools; they are described to it in words"
_CHOICE = "the backend cannot be made to call a tool; it is asked to in words"
_PARALLEL = "the backend cannot be held to one call; it is asked for one in words"
_SEPARATOR = "\n\n"
_WORDS_ONLY = Capabilities(strict=False)


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
    return _instructed(plain, described(tools, selection.choice, several=several))


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
            told = replace(first, content=joined([*content, Text(_SEPARATOR + words)]))
            items: tuple[Item, ...] = (told, *others)
            return replace(request, items=items)
        case _:
            return replace(request, instructions=words)
