"""Small questions about items, and small changes to them, that every dialect needs."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from adapters.ir.types import (
    Finish,
    FinishReason,
    Item,
    Message,
    Reasoning,
    Request,
    ToolCall,
)
from adapters.json_text import is_complete_json

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
