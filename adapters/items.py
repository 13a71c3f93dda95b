"""Small questions about items, and small changes to them, that every dialect needs."""

from msgspec.structs import replace

from adapters.conversation import (
    Call,
    Finish,
    FinishReason,
    Item,
    Message,
    Reasoning,
    Request,
)

# Arguments that a model left out, as a client or a server can parse them (P140).
NO_ARGUMENTS = "{}"
NO_ARGUMENTS_WHY = "empty arguments become {}, which can be parsed"


def lacks_arguments(call: Call) -> bool:
    """Tell whether a call that is whole has nothing that could be parsed."""
    return call.kind == "function" and call.status != "incomplete" and not call.arguments.strip()


def with_arguments(call: Call) -> Call:
    """Give such a call arguments that can be parsed."""
    return replace(call, arguments=call.arguments + NO_ARGUMENTS)


def settled(finish: Finish, *, has_calls: bool) -> FinishReason:
    """Decide the finish: calls beat `stop` (P107), a cut-off answer beats calls (P108)."""
    if finish.reason in ("length", "filter"):
        return finish.reason
    return "calls" if has_calls else "stop"


def has_calls(items: tuple[Item, ...]) -> bool:
    """Tell whether any of the items is a call."""
    return any(isinstance(item, Call) for item in items)


def cut_off(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Mark the last item of an answer that was cut off; only the last may be incomplete."""
    if not items or not isinstance(items[-1], Message | Call | Reasoning):
        return items
    return (*items[:-1], replace(items[-1], status="incomplete"))


def bare(item: Item) -> Item:
    """Give an item with nothing in it yet."""
    match item:
        case Message():
            return replace(item, content=(), status=None)
        case Call():
            return replace(item, arguments="", status=None)
        case Reasoning():
            return replace(item, summary=(), content=(), encrypted=None, status=None)
        case _:
            return item


def without_paths(request: Request) -> Request:
    """Forget where the items came from, so that what is asked can be compared."""
    return replace(request, paths=())
