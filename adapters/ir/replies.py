"""What every dialect does with the choices of a reply."""

from msgspec.structs import replace

from adapters.ir.items import (
    NO_ARGUMENTS_WHY,
    call_path,
    lacks_arguments,
    with_empty_arguments,
)
from adapters.ir.types import Choice, Finish, FinishReason, Item, Reply, Request, ToolCall
from adapters.losses import Losses

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
