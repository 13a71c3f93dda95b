"""Small questions about items, and small changes to them, that every dialect needs."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from adapters.ir.types import (
    Choice,
    Finish,
    FinishReason,
    Item,
    Message,
    Reasoning,
    Reply,
    Request,
    ToolCall,
)
from adapters.json_text import is_complete_json
from adapters.losses import Losses

T = TypeVar("T")

# Arguments that a model left out, as a client or a server can parse them (P140).
NO_ARGUMENTS = "{}"
NO_ARGUMENTS_WHY = "empty arguments become {}, which can be parsed"


def lacks_arguments(call: ToolCall) -> bool:
    """Tell whether a call that is whole has nothing that could be parsed."""
    return call.kind == "function" and call.status != "incomplete" and not call.arguments.strip()


def with_empty_arguments(call: ToolCall) -> ToolCall:
    """Give such a call arguments that can be parsed."""
    return replace(call, arguments=call.arguments + NO_ARGUMENTS)


def is_assistant_item(item: Item) -> bool:
    """Tell whether an item is part of an assistant's turn."""
    if isinstance(item, Message):
        return item.role == "assistant"
    return isinstance(item, ToolCall | Reasoning)


def call_path(call: ToolCall) -> str:
    """Name a call of an answer in a loss: by its name, and by its id to tell it from others."""
    return f"call {call.name} ({call.call_id})"


def effective_finish(finish: Finish, *, has_calls: bool) -> FinishReason:
    """Decide the finish: calls beat `stop` (P107), a cut-off answer beats calls (P108)."""
    if finish.reason in ("length", "filter"):
        return finish.reason
    return "calls" if has_calls else "stop"


def has_calls(items: tuple[Item, ...]) -> bool:
    """Tell whether any of the items is a call."""
    return any(isinstance(item, ToolCall) for item in items)


def mark_incomplete(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Mark what is incomplete of an answer that was cut off: its last item, and half calls."""
    last = len(items) - 1
    return tuple(
        replace(item, status="incomplete")
        if isinstance(item, Message | ToolCall | Reasoning)
        and (number == last or (isinstance(item, ToolCall) and has_truncated_arguments(item)))
        else item
        for number, item in enumerate(items)
    )


def has_truncated_arguments(call: ToolCall) -> bool:
    """Tell whether the arguments of a call break off."""
    return call.kind == "function" and not is_complete_json(call.arguments)


def without_content(item: Item) -> Item:
    """Give an item with nothing in it yet."""
    match item:
        case Message():
            return replace(item, content=(), status=None)
        case ToolCall():
            return replace(item, arguments="", status=None)
        case Reasoning():
            return replace(item, summary=(), content=(), encrypted=None, status=None)
        case _:
            return item


def unzip(placed: Sequence[tuple[T, str]]) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """Give things, and where each of them stands."""
    if not placed:
        return (), ()
    things, places = zip(*placed, strict=True)
    return things, places


def without_paths(request: Request) -> Request:
    """Forget where the items came from, so that what is asked can be compared."""
    return replace(request, paths=(), tool_paths=())


# What every dialect does with the choices of a reply.


# Of several endings the gravest speaks for all.
_GRAVITY: dict[FinishReason, int] = {"stop": 0, "calls": 1, "filter": 2, "length": 3}

_KNOWN_PREFIXES = ("chatcmpl-", "resp_")
_NAME_LIMIT = 55


def one_choice_asked(request: Request) -> bool:
    """Tell whether the client asked for one answer."""
    return (request.choices or 1) == 1


def reply_model(model: str, request: Request, losses: Losses) -> str:
    """Give the model that answered: the one that was asked, if the backend does not say."""
    named = model or request.model
    if not named:
        losses.invented("model", "the backend did not say in time which model it is")
    return named or "unknown"


def merge_choices(reply: Reply) -> Reply:
    """Make one choice of several: servers split text and calls of one answer (P111)."""
    if len(reply.choices) <= 1:
        return reply
    items: tuple[Item, ...] = ()
    for choice in reply.choices:
        items += choice.items
    finishes = tuple(choice.finish for choice in reply.choices if choice.finish is not None)
    return replace(reply, choices=(Choice(items, worst_finish(finishes)),))


def worst_finish(finishes: tuple[Finish, ...]) -> Finish | None:
    """Give the ending that speaks for all."""
    return max(finishes, key=lambda finish: _GRAVITY[finish.reason], default=None)


def with_id_prefix(reply_id: str, prefix: str) -> str | None:
    """Give a reply's id under another dialect's prefix, so that it can be found on both sides.

    None where the id is not one that every server would take.
    """
    name = reply_id
    for known in _KNOWN_PREFIXES:
        name = name.removeprefix(known)
    plain = name.replace("-", "").replace("_", "")
    legal = 0 < len(name) <= _NAME_LIMIT and plain.isascii() and plain.isalnum()
    return prefix + name if legal else None


NOTHING_SAID = "nothing is said that could be told; an empty text stands for it"
USAGE_ZEROS = "the backend did not say what it cost; zeros stand for it"
NAMELESS = "a call without a name, which nobody could run"


class UniqueCallIds:
    """Gives each call of an answer an id of its own: clients stop at two calls with one id."""

    def __init__(self, losses: Losses) -> None:
        self.losses = losses
        self._used: set[str] = set()

    def unique(self, call_id: str, name: str) -> str:
        """Give the id, or one like it if it is taken."""
        found, number = call_id, 1
        while found in self._used:
            number += 1
            found = f"{call_id}_{number}"
        if found != call_id:
            self.losses.changed(
                f"call {name} ({found})", "another call has its id; it is made unique"
            )
        self._used.add(found)
        return found


def normalize_calls(items: tuple[Item, ...], losses: Losses) -> tuple[Item, ...]:
    """Give the items, each call with an id of its own and with arguments that can be parsed."""
    ids = UniqueCallIds(losses)
    settled: list[Item] = []
    for item in items:
        if not isinstance(item, ToolCall):
            settled.append(item)
        elif item.name:
            settled.append(_settled(item, ids, losses))
        else:
            losses.dropped("call", NAMELESS)
    return tuple(settled)


def _settled(call: ToolCall, ids: UniqueCallIds, losses: Losses) -> ToolCall:
    if lacks_arguments(call):
        losses.changed(call_path(call), NO_ARGUMENTS_WHY)
        call = with_empty_arguments(call)
    return replace(call, call_id=ids.unique(call.call_id, call.name))


# The calls of a history that wait for their outputs.


class _Wait:
    __slots__ = ("call", "run", "spoken")

    def __init__(self, call: ToolCall, spoken: str, run: int) -> None:
        self.call = call
        self.spoken = spoken
        self.run = run


class UnansweredCalls:
    """Calls in runs: a run is what was called before anybody answered.

    An output without an id answers the oldest call of its name in the latest run that has one. So
    two calls of one function are answered in their order, and a call that was never answered long
    ago does not take the answer of a later one.
    """

    def __init__(self) -> None:
        self._waits: list[_Wait] = []
        self._run = 0
        self._answering = False

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, call: ToolCall, spoken: str | None = None) -> None:
        """Let a call wait, under the id that the history uses for it."""
        if self._answering:
            self._answering = False
            self._run += 1
        self._waits.append(_Wait(call, call.call_id if spoken is None else spoken, self._run))

    def start_new_run(self) -> None:
        """Learn that somebody else spoke: the calls so far are a run of their own."""
        self._answering = True

    def has(self, call: ToolCall) -> bool:
        """Tell whether this very call still waits."""
        return any(wait.call is call for wait in self._waits)

    def take_by_id(self, spoken: str) -> ToolCall | None:
        """Take the call with an id; of the two ids some servers give only one."""
        exact = [wait for wait in self._waits if wait.spoken == spoken]
        return self._take(exact or [wait for wait in self._waits if wait.call.item_id == spoken])

    def take_by_name(self, name: str | None) -> ToolCall | None:
        """Take the call that an output without an id answers; None stands for any name."""
        return self._take([wait for wait in self._waits if name in (None, wait.call.name)])

    def _take(self, found: list[_Wait]) -> ToolCall | None:
        """Take the oldest of the latest run."""
        for wait in found:
            if wait.run == found[-1].run:
                self._waits.remove(wait)
                self._answering = True
                return wait.call
        return None
