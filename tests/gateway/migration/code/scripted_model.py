"""What the scripted model does in a conversation: it calls functions, then it writes a text.

The state is not kept: a request has the whole conversation, and the number of its outputs since the
last message of the user is the number of calls that are done.
"""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tests.judges.reading import JsonObject


class Violation(Exception):  # noqa: N818 - a violation of the protocol by a program
    """What is wrong with a request."""


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a function."""

    name: str
    arguments: str
    # Whether the model makes this call only when it has the outputs of those before.
    waits: bool = False


class Turn(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model does after a message of the user."""

    # A part of that message.
    user: str = ""
    calls: tuple[Call, ...] = ()
    # `{0}` is the output of the first call of this turn, `{outputs}` are all of them.
    text: str = ""


class Asked(Struct, frozen=True):
    """What a request asks, whatever its dialect."""

    # The instructions of the system.
    system: tuple[str, ...]
    user: str
    # The outputs since that message.
    outputs: tuple[str, ...]
    functions: tuple[JsonObject, ...]
    # "auto", "none", "required" or the name of a function.
    choice: str
    # Whether several calls may be made at once.
    is_parallel: bool
    is_stream: bool


class IssuedCall(Struct, frozen=True):
    """A call with its id."""

    id: str
    name: str
    arguments: str


class Answer(Struct, frozen=True):
    """What the model does next: it makes calls, or writes a text."""

    id: str
    calls: tuple[IssuedCall, ...] = ()
    text: str = ""
    # Whether the call was forced by the request, which changes the finish reason.
    is_forced: bool = False


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """The behavior of the model towards one program."""

    turns: tuple[Turn, ...]
    # Whether streams split the names of functions too.
    split_names: bool = False
    # The status of the first reply, if it is an error.
    first_status: int = 200
    # Calls in the history that the program wrote itself, with ids of its own.
    examples: tuple[Call, ...] = ()


class Model:
    """The model in one run of a program."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._answers: list[Answer] = []
        self.issued: dict[str, IssuedCall] = {}
        self.answer_of_call: dict[str, Answer] = {}

    def answer(self, asked: Asked) -> Answer:
        """Return what the model does next; raises `Violation`."""
        turn = self._turn(asked)
        calls = [] if asked.choice == "none" or not asked.functions else _next_calls(turn, asked)
        if asked.choice not in ("auto", "none", "required") and (
            [call.name for call in calls] != [asked.choice]
        ):
            raise Violation(f"{asked.choice} is forced, but the script has {calls}")
        declared = {function["name"] for function in asked.functions}
        for call in calls:
            if call.name not in declared:
                raise Violation(f"{call.name} is not among the functions of the request")
        return self._issue(calls, "" if calls else _text(turn, asked), asked)

    def has_made(self, name: object, arguments: object) -> bool:
        """Whether a call is one of the model's, or an example."""
        return (name, arguments) in [(one.name, one.arguments) for one in self._made()]

    def has_called(self, name: object) -> bool:
        """Whether a function was called, or is called in an example."""
        return name in [one.name for one in self._made()]

    def _made(self) -> list[IssuedCall | Call]:
        return [*self.issued.values(), *self._script.examples]

    def find_call(self, call_id: object, name: object, arguments: object) -> IssuedCall:
        """Return the call that a program repeats; raises `Violation`."""
        issued = self.issued.get(str(call_id))
        if issued is None and Call(str(name), str(arguments)) in self._script.examples:
            issued = IssuedCall(str(call_id), str(name), str(arguments))
            self.issued[issued.id] = issued
            self.answer_of_call[issued.id] = Answer("", (issued,))
        if issued is None or (issued.name, issued.arguments) != (name, arguments):
            raise Violation(f"the model did not make the call {name}{arguments} with {call_id}")
        return issued

    def _turn(self, asked: Asked) -> Turn:
        for turn in self._script.turns:
            if turn.user in asked.user:
                return turn
        raise Violation(f"the script has no turn for {asked.user!r}")

    def _issue(self, calls: Sequence[Call], text: str, asked: Asked) -> Answer:
        number = len(self._answers)
        issued = tuple(
            IssuedCall(_id("call", number, index), call.name, call.arguments)
            for index, call in enumerate(calls)
        )
        is_forced = bool(calls) and asked.choice not in ("auto", "required")
        answer = Answer(_id("answer", number), issued, text, is_forced)
        self._answers.append(answer)
        for one in issued:
            self.issued[one.id] = one
            self.answer_of_call[one.id] = answer
        return answer


def _next_calls(turn: Turn, asked: Asked) -> list[Call]:
    calls: list[Call] = []
    for call in turn.calls[len(asked.outputs) :]:
        if calls and (call.waits or not asked.is_parallel or asked.choice != "auto"):
            break
        calls.append(call)
    return calls


def _text(turn: Turn, asked: Asked) -> str:
    try:
        return turn.text.format(*asked.outputs, outputs=", ".join(asked.outputs))
    except IndexError:
        raise Violation(f"the text {turn.text!r} needs more than {asked.outputs}") from None


def _id(kind: str, *numbers: int) -> str:
    """Return an id that a program cannot guess."""
    return hashlib.sha256(msgspec.json.encode((kind, numbers))).hexdigest()[:24]
