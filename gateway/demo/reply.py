"""Makes the reply to a request: calls while there is something to call, then an answer in words."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from adapters.errors import InvalidRequestError
from adapters.ids import IdSource
from adapters.ir.types import Choice, Item, Message, Reply, Request, ResponseFormat, Text
from adapters.losses import Losses
from adapters.wire.json_object import parse
from gateway.demo.arguments import value_for
from gateway.demo.limits import limited, stopped, usage_of
from gateway.demo.planning import Planned, make_call, plan
from gateway.demo.question import Question, Result, Turn, read_turn, text_of_parts
from gateway.demo.words import kind_of

DEMO_MODEL = "demo"

_GREETING = (
    "I am the demo that is built into Dragoman. There is no model behind me, but I call the tools"
    " that you give me, and use what they answer."
)
# Of what was asked or answered, so much is repeated.
_REPEATED = 400
_MOST_CHOICES = 128


def demo_reply(request: Request, mint: IdSource, names: Mapping[str, str]) -> Reply:
    """Answer a request; `names` says how its dialect calls the fields.

    Raises `InvalidInput` or `Refused` where nothing can be answered.
    """
    losses = Losses("report", names)
    for extra in request.extras:
        # What is kept elsewhere: an earlier response, a conversation, a prompt.
        if extra.family == "responses" and extra.severity == "meaning":
            losses.dropped(extra.name, extra.drop_reason or "the demo cannot do it", "meaning")
    _check(request, names)
    turn = read_turn(request.items)
    planned = plan(request, turn, losses)
    choices = tuple(_choice(request, turn, planned, mint) for _ in range(request.choices or 1))
    return Reply(
        model=request.model or DEMO_MODEL, choices=choices, usage=usage_of(request, choices)
    )


def _check(request: Request, names: Mapping[str, str]) -> None:
    """Refuse what cannot be answered."""
    if not request.items and not request.instructions:
        raise InvalidRequestError(names.get("items", "items"), "there is nothing to answer")
    count, limit = request.choices, request.max_output_tokens
    if count is not None and not 1 <= count <= _MOST_CHOICES:
        raise InvalidRequestError(
            names.get("choices", "choices"), f"it is from 1 to {_MOST_CHOICES}"
        )
    if limit is not None and limit < 1:
        name = names.get("max_output_tokens", "max_output_tokens")
        raise InvalidRequestError(name, "it is at least 1")


def _choice(request: Request, turn: Turn, planned: list[Planned], mint: IdSource) -> Choice:
    items: tuple[Item, ...] = tuple(make_call(one, mint) for one in planned)
    if not items:
        text = stopped(_text(request.format, turn), request.stop)
        items = (Message("assistant", (Text(text),)),)
    return limited(items, request.max_output_tokens)


def _text(wanted: ResponseFormat | None, turn: Turn) -> str:
    """Answer in words, or in an object that holds them where that is the format."""
    words = "\n".join(map(_report, turn.results)) or _greeting(turn.question)
    if wanted is None or wanted.kind == "text":
        return words
    if wanted.kind == "json_object" or wanted.schema is None:
        return msgspec.json.encode({"answer": words}).decode()
    value = value_for(wanted.schema, replace(turn.question, text=words))
    return msgspec.json.encode(value).decode()


def _greeting(question: Question) -> str:
    return f"You said: “{_shortened(question.text)}” {_GREETING}" if question.text else _GREETING


def _report(result: Result) -> str:
    """Say what a tool answered, and for what it was asked."""
    output = result.output.output
    text = output if isinstance(output, str) else text_of_parts(output)
    said = f"{result.name} says: {_shortened(text) or 'nothing'}"
    subject = _subject(result)
    return f"For {subject}, {said}" if subject else said


def _subject(result: Result) -> str | None:
    """Give the name that the call was about, to tell it from other calls of its tool."""
    try:
        given = None if result.call is None else parse(result.call.arguments.encode())
    except InvalidRequestError:
        # A custom tool takes any text.
        return None
    values = given.items() if isinstance(given, dict) else ()
    subjects = (value for name, value in values if kind_of(name) == "subject")
    return next((value for value in subjects if isinstance(value, str)), None)


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _REPEATED else f"{words[:_REPEATED]}…"
