"""The demo's reply to a request: tool calls while there is something to call, then a text."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ids import IdSource
from adapters.ir.normalize import PendingCalls
from adapters.ir.types import (
    Choice,
    CustomTool,
    Finish,
    FunctionTool,
    HostedTool,
    Item,
    Message,
    NamedToolChoice,
    Part,
    Reply,
    Request,
    ResponseFormat,
    Text,
    ToolCall,
    ToolChoice,
    ToolChoiceMode,
    ToolOutput,
    Usage,
)
from adapters.losses import Losses
from adapters.tool_selection import ToolSupport, select
from adapters.wire.json_object import parse
from gateway.demo.arguments import (
    Question,
    arguments_for,
    example_text,
    parameter_kind,
    questions_per_call,
    read_question,
    split_words,
    value_for,
    word_set,
)

DEMO_MODEL = "demo"

_GREETING = (
    "I am the demo that is built into Dragoman. There is no model behind me, but I call the tools"
    " that you give me, and use what they answer."
)
_MAX_QUOTED_CHARACTERS = 400
_MAX_CHOICES = 128
_MAX_CALLS = 8
_CHARACTERS_PER_TOKEN = 4

# Words in names and descriptions that do not say what a tool is about.
_STOP_WORDS = word_set(
    "about and any are call can current does fetch find for from function get give has have how"
    " into return run set show tell that the this tool use user what when where which will with"
    " you your"
)
_MIN_WORD_LENGTH = 3
# Words with the same first letters count as the same: translate, translation.
_STEM_LENGTH = 6

CallableTool = FunctionTool | CustomTool


class ToolResult(Struct, frozen=True):
    """The output of a tool; `call` is None if the history no longer has it."""

    call: ToolCall | None
    output: ToolOutput


class Turn(Struct, frozen=True):
    """The last question, with the calls made for it and their results."""

    question: Question
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class PlannedCall(Struct, frozen=True):
    """A tool to call, and the part of the question that it is called for."""

    tool: CallableTool
    question: Question


def demo_reply(request: Request, ids: IdSource, names: Mapping[str, str]) -> Reply:
    """Return the reply to a request; `names` maps IR fields to those of the client's dialect.

    Raises `InvalidRequestError` or `UnsupportedRequestError` if there can be none.
    """
    losses = Losses("report", names)
    for extra in request.extras:
        # State that is stored elsewhere: an earlier response, a conversation, a prompt.
        if extra.family == "responses" and extra.severity == "meaning":
            losses.dropped(extra.name, extra.drop_reason or "not supported by the demo", "meaning")
    _check(request, names)
    turn = read_turn(request.items)
    planned = plan_calls(request, turn, losses)
    choices = tuple(_choice(request, turn, planned, ids) for _ in range(request.choices or 1))
    model = request.model or DEMO_MODEL
    return Reply(model=model, choices=choices, usage=_usage(request, choices))


def _check(request: Request, names: Mapping[str, str]) -> None:
    if not request.items and not request.instructions:
        raise InvalidRequestError(names.get("items", "items"), "must not be empty")
    count, limit = request.choices, request.max_output_tokens
    if count is not None and not 1 <= count <= _MAX_CHOICES:
        raise InvalidRequestError(
            names.get("choices", "choices"), f"must be from 1 to {_MAX_CHOICES}"
        )
    if limit is not None and limit < 1:
        name = names.get("max_output_tokens", "max_output_tokens")
        raise InvalidRequestError(name, "must be at least 1")


def _choice(request: Request, turn: Turn, planned: list[PlannedCall], ids: IdSource) -> Choice:
    items: tuple[Item, ...] = tuple(make_call(one, ids) for one in planned)
    if not items:
        text = _cut_at_stop(_reply_text(request.format, turn), request.stop)
        items = (Message("assistant", (Text(text),)),)
    return _limit(items, request.max_output_tokens)


# The history


def read_turn(items: tuple[Item, ...]) -> Turn:
    """Read the user's last message, and the calls and outputs after it."""
    text = ""
    since = items
    for number, item in enumerate(items):
        if isinstance(item, Message) and item.role == "user":
            text, since = _text_of(item), items[number + 1 :]
    calls = tuple(item for item in since if isinstance(item, ToolCall))
    return Turn(read_question(text), calls, tuple(_results(since)))


def _results(items: tuple[Item, ...]) -> Iterator[ToolResult]:
    """Yield each output with its call."""
    pending = PendingCalls()
    for item in items:
        if isinstance(item, ToolCall):
            pending.add(item)
        elif isinstance(item, ToolOutput):
            if item.call_id is None:
                call = pending.take_by_name(item.name)
            else:
                call = pending.take_by_id(item.call_id)
            yield ToolResult(call, item)


# Tool calls


def plan_calls(request: Request, turn: Turn, losses: Losses) -> list[PlannedCall]:
    """Choose the calls to make now; none if all calls for the question were made.

    A required call is made again, whatever was called before. Raises `UnsupportedRequestError`
    if the tool choice names a missing tool.
    """
    support = ToolSupport(lambda tool: not isinstance(tool, HostedTool), allowed_tools=False)
    selection = select(request, support, losses)
    tools = [tool for tool, _ in selection.tools if not isinstance(tool, HostedTool)]
    choice = selection.choice
    if not tools or choice == ToolChoiceMode("none"):
        return []
    chosen = _choose_tools(tools, choice, turn.question)
    every = [call for tool in chosen for call in _calls_of(tool, turn.question)][:_MAX_CALLS]
    remaining = list(_without_made(every, turn))
    required = isinstance(choice, NamedToolChoice) or choice == ToolChoiceMode("required")
    if not remaining and required:
        remaining = every
    return remaining[:1] if request.parallel_tool_calls is False else remaining


def make_call(planned: PlannedCall, ids: IdSource) -> ToolCall:
    """Return a call with its arguments."""
    tool, question, call_id = planned.tool, planned.question, ids.id("call_")
    if isinstance(tool, CustomTool):
        text = example_text(tool.name) or question.text or "hello"
        return ToolCall(call_id, tool.name, text, "custom")
    return ToolCall(call_id, tool.name, arguments_for(tool.parameters, question))


def _choose_tools(
    tools: list[CallableTool], choice: ToolChoice | None, question: Question
) -> list[CallableTool]:
    """Return the tools whose name or description the question mentions, otherwise the first."""
    if isinstance(choice, NamedToolChoice):
        return [tool for tool in tools if tool.name == choice.name][:1]
    stems = _stems(question.text)
    named = [tool for tool in tools if stems & _stems(tool.name)]
    described = [tool for tool in tools if stems & _stems(tool.description or "")]
    return named or described[:1] or tools[:1]


def _stems(text: str) -> set[str]:
    words = (word.removesuffix("s") for word in split_words(text) if word not in _STOP_WORDS)
    return {word[:_STEM_LENGTH] for word in words if len(word) >= _MIN_WORD_LENGTH}


def _calls_of(tool: CallableTool, question: Question) -> list[PlannedCall]:
    schema = tool.parameters if isinstance(tool, FunctionTool) else None
    return [PlannedCall(tool, part) for part in questions_per_call(schema, question)]


def _without_made(planned: list[PlannedCall], turn: Turn) -> Iterator[PlannedCall]:
    """Yield the calls that were not made yet; an output without its call counts as any call."""
    made = Counter(call.name for call in turn.calls)
    unknown = sum(result.call is None for result in turn.results)
    for call in planned:
        if made[call.tool.name] > 0:
            made[call.tool.name] -= 1
        elif unknown > 0:
            unknown -= 1
        else:
            yield call


# Texts


def _reply_text(wanted: ResponseFormat | None, turn: Turn) -> str:
    """Return the results, or a greeting, in the requested format."""
    text = "\n".join(map(_report, turn.results)) or _greeting(turn.question)
    if wanted is None or wanted.kind == "text":
        return text
    if wanted.kind == "json_object" or wanted.schema is None:
        return msgspec.json.encode({"answer": text}).decode()
    value = value_for(wanted.schema, replace(turn.question, text=text))
    return msgspec.json.encode(value).decode()


def _greeting(question: Question) -> str:
    return f"You said: “{_quote(question.text)}” {_GREETING}" if question.text else _GREETING


def _report(result: ToolResult) -> str:
    """Report the output of a call, and the name that the call was about."""
    tool = (result.output.name if result.call is None else result.call.name) or "The tool"
    report = f"{tool} says: {_quote(_text_of(result.output)) or 'nothing'}"
    name = None if result.call is None else _name_in_arguments(result.call.arguments)
    return f"For {name}, {report}" if name else report


def _name_in_arguments(arguments: str) -> str | None:
    try:
        parsed = parse(arguments.encode())
    except InvalidRequestError:
        # The input of a custom tool may be any text.
        return None
    values = parsed.items() if isinstance(parsed, dict) else ()
    names = (value for name, value in values if parameter_kind(name) == "name")
    return next((name for name in names if isinstance(name, str)), None)


def _quote(text: str) -> str:
    line = " ".join(text.split())
    limit = _MAX_QUOTED_CHARACTERS
    return line if len(line) <= limit else f"{line[:limit]}…"


def _text_of(item: Item) -> str:
    match item:
        case Message():
            return _join_texts(item.content)
        case ToolCall():
            return item.arguments
        case ToolOutput():
            return item.output if isinstance(item.output, str) else _join_texts(item.output)
        case _:
            return ""


def _join_texts(parts: tuple[Part, ...]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


# Limits and usage


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def _usage(request: Request, choices: Iterable[Choice]) -> Usage:
    """Estimate the usage of a reply."""
    tools = (tool for tool in request.tools if isinstance(tool, FunctionTool))
    declared = sum(len(tool.parameters or b"") // _CHARACTERS_PER_TOKEN for tool in tools)
    read = _tokens(request.instructions or "") + declared + _item_tokens(request.items)
    written = _item_tokens(chain.from_iterable(choice.items for choice in choices))
    return Usage(read, written, read + written)


def _item_tokens(items: Iterable[Item]) -> int:
    return sum(_tokens(_text_of(item)) for item in items)


def _limit(items: tuple[Item, ...], limit: int | None) -> Choice:
    """Return a choice that ends at the token limit."""
    remaining = _item_tokens(items) if limit is None else limit
    complete: list[Item] = []
    for item in items:
        needed = _tokens(_text_of(item))
        if needed > remaining:
            cut = [_cut(item, remaining * _CHARACTERS_PER_TOKEN)]
            cut = cut if remaining or not complete else []
            return Choice((*complete, *cut), Finish("length", "length"))
        complete.append(item)
        remaining -= needed
    called = any(isinstance(item, ToolCall) for item in items)
    finish = Finish("calls", "tool_calls") if called else Finish("stop", "stop")
    return Choice(items, finish)


def _cut(item: Item, length: int) -> Item:
    if isinstance(item, ToolCall):
        return replace(item, arguments=item.arguments[:length], status="incomplete")
    content = (Text(_text_of(item)[:length]),)
    return Message("assistant", content, status="incomplete")


def _cut_at_stop(text: str, stop_sequences: Iterable[str]) -> str:
    """Return a text up to the first stop sequence."""
    places = (text.find(stop) for stop in stop_sequences if stop)
    return text[: min((place for place in places if place >= 0), default=len(text))]
