"""Which tools to call for a question, and for what."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from adapters.ids import IdSource
from adapters.ir.types import (
    CustomTool,
    FunctionTool,
    HostedTool,
    NamedToolChoice,
    Request,
    Tool,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
)
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select
from gateway.demo.arguments import arguments_for, read_slots
from gateway.demo.question import Question, Turn
from gateway.demo.words import example_for, split_name, word_set

# More calls at once show nothing more.
_MOST_CALLS = 8
# Words in names and descriptions that say nothing of what a tool is about.
_COMMON = word_set(
    "about and any are call can could current does fetch find for from function get give given has"
    " have how into its more now one return returns run set show tell that the this tool use used"
    " user want was what when where which will with would you your"
)
_SHORTEST_WORD = 3
# Words are the same if they begin the same: weather, weathers; translate, translation.
_STEM = 6

OwnTool = FunctionTool | CustomTool


class Planned(Struct, frozen=True):
    """A tool, and the part of the question that it is called for."""

    tool: OwnTool
    question: Question


def plan(request: Request, turn: Turn, losses: Losses) -> list[Planned]:
    """Choose the calls to make now; none, if there is nothing left to call.

    Raises `Refused` where the choice names a tool that is not there. A call that is demanded is
    made again, whatever was called before: who goes on demanding has not had enough.
    """
    selection = select(request, ToolSupport(_can_call, allowed_tools=False), losses)
    tools = [tool for tool, _ in selection.tools if not isinstance(tool, HostedTool)]
    if not tools or selection.choice == ToolChoiceMode("none"):
        return []
    every = _every_call(_chosen(tools, selection.choice, turn.question), turn.question)
    left = list(_not_made(every, turn))
    if not left and _is_demanded(selection.choice):
        left = every
    at_once = 1 if request.parallel_tool_calls is False else _MOST_CALLS
    return left[:at_once]


def make_call(planned: Planned, mint: IdSource) -> ToolCall:
    """Make a call."""
    tool, call_id = planned.tool, mint.id("call_")
    if isinstance(tool, CustomTool):
        raw = example_for(tool.name) or planned.question.text or "hello"
        return ToolCall(call_id, tool.name, raw, "custom")
    return ToolCall(call_id, tool.name, arguments_for(tool.parameters, planned.question))


def _can_call(tool: Tool) -> bool:
    return not isinstance(tool, HostedTool)


def _is_demanded(choice: ToolChoice | None) -> bool:
    return isinstance(choice, NamedToolChoice) or choice == ToolChoiceMode("required")


def _chosen(tools: list[OwnTool], choice: ToolChoice | None, question: Question) -> list[OwnTool]:
    """Choose the tools that the question is about, the first if it is about none."""
    if isinstance(choice, NamedToolChoice):
        return [tool for tool in tools if tool.name == choice.name][:1]
    words = _stems(question.text)
    named = [tool for tool in tools if words & _stems(tool.name)]
    described = [tool for tool in tools if words & _stems(tool.description or "")]
    return named or described[:1] or tools[:1]


def _stems(text: str) -> set[str]:
    words = (word.removesuffix("s") for word in split_name(text) if word not in _COMMON)
    return {word[:_STEM] for word in words if len(word) >= _SHORTEST_WORD}


def _every_call(tools: list[OwnTool], question: Question) -> list[Planned]:
    return [planned for tool in tools for planned in _calls_of(tool, question)][:_MOST_CALLS]


def _calls_of(tool: OwnTool, question: Question) -> Iterator[Planned]:
    """Give one call, or one for each thing that the user named if a call takes just one."""
    slots = read_slots(tool.parameters if isinstance(tool, FunctionTool) else None)
    subjects = tuple(one for one in question.subjects if one.lower() not in slots.listed)
    if not slots.one_subject or not subjects:
        yield Planned(tool, replace(question, subjects=subjects))
        return
    for subject in subjects:
        yield Planned(tool, replace(question, subjects=(subject,)))


def _not_made(every: list[Planned], turn: Turn) -> Iterator[Planned]:
    """Give the calls that were not made yet; a result without its call counts as one of them."""
    made = Counter(call.name for call in turn.calls)
    unknown = sum(result.call is None for result in turn.results)
    for planned in every:
        if made[planned.tool.name] > 0:
            made[planned.tool.name] -= 1
        elif unknown > 0:
            unknown -= 1
        else:
            yield planned
