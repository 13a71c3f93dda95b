"""The demo's reply to a request: tool calls while there is something to call, then a text."""

from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from adapters import IdSource, InvalidRequestError
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
from gateway.demo.chat import (
    TEXT_FIELDS,
    Allowed,
    AllowedTools,
    Custom,
    Function,
    JsonObject,
    Message,
    Request,
    Tool,
)

DEMO_MODEL = "demo"

_GREETING = (
    "I am the demo that is built into Dragoman. There is no model behind me, but I call the tools"
    " that you give me, and use what they answer."
)
_MAX_QUOTED = 400
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

_OBJECT = msgspec.json.Decoder(dict[str, object])


class Call(Struct, frozen=True):
    """A call to make, with its arguments or its input as text."""

    kind: Literal["function", "custom"]
    name: str
    text: str

    def write(self, call_id: str) -> JsonObject:
        """Write the call."""
        body = {"name": self.name, TEXT_FIELDS[self.kind]: self.text}
        return {"id": call_id, "type": self.kind, self.kind: body}


class Turn(Struct, frozen=True):
    """The last question, and the calls and outputs after it."""

    question: Question
    calls: list[Tool]
    # Each output with its call, or None if the history no longer has the call.
    results: list[tuple[Tool | None, Message]]


def write_reply(request: Request, ids: IdSource) -> JsonObject:
    """Return the whole reply to a request; raise `InvalidRequestError` if there can be none."""
    turn = read_turn(request.messages)
    calls = plan_calls(request, turn)
    texts = [call.text for call in calls] or [_reply_text(request, turn)]
    kept = _limit(texts, request.max_completion_tokens or request.max_tokens)
    calls = [replace(call, text=text) for call, text in zip(calls, kept, strict=False)]
    reason = "length" if kept != texts else "tool_calls" if calls else "stop"
    choices: list[JsonObject] = []
    for index in range(request.n or 1):
        message: JsonObject = {"role": "assistant", "content": kept[0], "refusal": None}
        if calls:
            written = [call.write(ids.id("call_")) for call in calls]
            message |= {"content": None, "tool_calls": written}
        end = {"logprobs": None, "finish_reason": reason}
        choices.append({"index": index, "message": message, **end})
    return {
        "id": ids.id("chatcmpl-"),
        "object": "chat.completion",
        "created": ids.now(),
        "model": request.model or DEMO_MODEL,
        "choices": choices,
        "usage": _usage(request, sum(map(_tokens, kept)) * len(choices)),
    }


def _limit(texts: list[str], limit: int | None) -> list[str]:
    """Return the texts up to a limit of tokens."""
    kept: list[str] = []
    left = sum(map(_tokens, texts)) if limit is None else limit
    for text in texts:
        if left > 0 or not kept:
            kept.append(text[: left * _CHARACTERS_PER_TOKEN])
            left -= _tokens(text)
    return kept


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def _usage(request: Request, written: int) -> JsonObject:
    """Estimate the usage."""
    texts = [message.text for message in request.messages]
    calls = [call for message in request.messages for call in message.tool_calls or ()]
    texts += [call.body.arguments or call.body.input for call in calls]
    schemas = [tool.body.parameters for tool in request.tools or ()]
    texts += [msgspec.json.encode(schema).decode() for schema in schemas if schema]
    read = sum(map(_tokens, texts))
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


# The history


def read_turn(messages: list[Message]) -> Turn:
    """Read the user's last message, and the calls and outputs after it."""
    text, since = "", messages
    for number, message in enumerate(messages):
        if message.role == "user":
            text, since = message.text, messages[number + 1 :]
    calls = [call for message in since for call in message.tool_calls or ()]
    by_id = {call.id: call for call in calls}
    outputs = (message for message in since if message.role == "tool")
    results = [(by_id.get(output.tool_call_id or ""), output) for output in outputs]
    return Turn(read_question(text), calls, results)


# Tool calls


def plan_calls(request: Request, turn: Turn) -> list[Call]:
    """Return the calls to make now; none if all calls for the question were made.

    A required call is made again, whatever was called before.
    """
    tools, required = _callable_tools(request)
    chosen = _choose_tools(tools, turn.question)
    every = [call for tool in chosen for call in _calls_of(tool, turn.question)][:_MAX_CALLS]
    made = [call.body.name for call in turn.calls]
    remaining: list[Call] = []
    for call in every:
        if call.name in made:
            made.remove(call.name)
        else:
            remaining.append(call)
    # The output of a call that is missing in the history counts as any call.
    remaining = remaining[sum(call is None for call, _ in turn.results) :]
    if not remaining and required:
        remaining = every
    return remaining[:1] if request.parallel_tool_calls is False else remaining


def _callable_tools(request: Request) -> tuple[list[Tool], bool]:
    """Return the tools that may be called, and whether one must be."""
    tools = request.tools or []
    match request.tool_choice:
        case AllowedTools(allowed_tools=allowed):
            pass
        case Function() | Custom() as tool:
            allowed = Allowed("required", [tool])
        case mode:
            allowed = Allowed(mode or "auto", tools)
    names = {tool.body.name for tool in allowed.tools}
    missing = names - {tool.body.name for tool in tools}
    if missing or (allowed.mode == "required" and not tools):
        which = ", ".join(sorted(missing)) or "none"
        raise InvalidRequestError("tool_choice", f"needs a declared tool, but names {which}")
    callable_tools = [tool for tool in tools if tool.body.name in names]
    return [] if allowed.mode == "none" else callable_tools, allowed.mode == "required"


def _choose_tools(tools: list[Tool], question: Question) -> list[Tool]:
    """Return the tools whose name or description the question mentions, otherwise the first."""
    stems = _stems(question.text)
    named = [tool for tool in tools if stems & _stems(tool.body.name)]
    described = [tool for tool in tools if stems & _stems(tool.body.description or "")]
    return named or described[:1] or tools[:1]


def _stems(text: str) -> set[str]:
    words = (word.removesuffix("s") for word in split_words(text) if word not in _STOP_WORDS)
    return {word[:_STEM_LENGTH] for word in words if len(word) >= _MIN_WORD_LENGTH}


def _calls_of(tool: Tool, question: Question) -> list[Call]:
    name, schema = tool.body.name, tool.body.parameters or {}
    if isinstance(tool, Custom):
        return [Call("custom", name, example_text(name) or question.text or "hello")]
    parts = questions_per_call(schema, question)
    return [Call("function", name, arguments_for(schema, part)) for part in parts]


# Texts


def _reply_text(request: Request, turn: Turn) -> str:
    """Return the results, or a greeting, in the requested format, up to a stop sequence."""
    question = _quote(turn.question.text)
    greeting = f"You said: “{question}” {_GREETING}" if question else _GREETING
    text = "\n".join(_report(*result) for result in turn.results) or greeting
    wanted = request.response_format
    if wanted is not None and wanted.type != "text":
        schema = wanted.json_schema.schema if wanted.json_schema else None
        value: object = {"answer": text}
        if schema is not None:
            value = value_for(schema, replace(turn.question, text=text))
        text = msgspec.json.encode(value).decode()
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    return min((text.partition(end)[0] for end in stop if end), key=len, default=text)


def _report(call: Tool | None, output: Message) -> str:
    """Report the output of a call, and the name that the call was about."""
    tool = "The tool" if call is None else call.body.name
    report = f"{tool} says: {_quote(output.text) or 'nothing'}"
    name = None if call is None else _name_in_arguments(call.body.arguments)
    return f"For {name}, {report}" if name else report


def _name_in_arguments(arguments: str) -> str | None:
    try:
        parsed = _OBJECT.decode(arguments)
    except (ValueError, RecursionError):
        return None
    names = (value for name, value in parsed.items() if parameter_kind(name) == "name")
    return next((name for name in names if isinstance(name, str)), None)


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_QUOTED else f"{line[:_MAX_QUOTED]}…"
