"""Holds a reply to the tools that the request allowed.

`allowed_tools` is a hard constraint in Open Responses, and on a backend that does not know it only
the declaration was narrowed. With `none`, a call that comes anyway is not for the client either.
"""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.conversation import (
    Allowed,
    Call,
    Error,
    Item,
    Message,
    Mode,
    Reply,
    Request,
    Text,
)
from adapters.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.items import call_path
from adapters.loss import Losses
from adapters.replies import NOTHING_SAID


def enforcement(request: Request, losses: Losses) -> "list[Enforce | CountCalls]":
    """Make the stages that the request calls for; each takes whole replies too."""
    stages: list[Enforce | CountCalls] = []
    match request.tool_choice:
        case Mode(mode="none") | Allowed(mode="none"):
            stages.append(Enforce(lambda _call: False, losses, must_remain=False))
        case Allowed(tools=tools):
            names = frozenset(tool.name for tool in tools)
            stages.append(Enforce(lambda call: call.name in names, losses, must_remain=True))
        case _:
            pass
    if request.parallel_tool_calls is False:
        stages.append(CountCalls(losses))
    return stages


class CountCalls:
    """Says so if a backend makes several calls where one was asked for (P018)."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._calls = 0

    def feed(self, event: Event) -> list[Event]:
        """Count the calls; all of them pass."""
        if isinstance(event, Opened) and isinstance(event.item, Call):
            self._count()
        return [event]

    def reply(self, reply: Reply) -> Reply:
        """Count the calls of a whole reply."""
        for choice in reply.choices:
            for item in choice.items:
                if isinstance(item, Call):
                    self._count()
        return reply

    def _count(self) -> None:
        self._calls += 1
        if self._calls > 1:
            why = "the backend makes several calls all the same"
            self._losses.changed("parallel_tool_calls", why)

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []


class Enforce:
    """Takes the calls that are not allowed out of a stream of events."""

    def __init__(
        self, allows: Callable[[Call], bool], losses: Losses, *, must_remain: bool
    ) -> None:
        self._allows = allows
        self._losses = losses
        # A reply of which nothing remains is a fault of the model.
        self._must_remain = must_remain
        # New numbers of the blocks that stay.
        self._numbers: dict[int, int] = {}
        self._removed: list[str] = []

    def feed(self, event: Event) -> list[Event]:
        """Pass an event on, under its new number, unless its block was taken out."""
        match event:
            case Opened(item=Call() as call) if not self._keeps(call):
                return []
            case Opened():
                self._numbers[event.index] = len(self._numbers)
                return [replace(event, index=self._numbers[event.index])]
            case Delta() | Closed():
                number = self._numbers.get(event.index)
                return [] if number is None else [replace(event, index=number)]
            case Finished() if self._removed and not self._numbers:
                return self._nothing_left(event)
            case _:
                return [event]

    def reply(self, reply: Reply) -> Reply:
        """Take the calls that are not allowed out of a whole reply."""
        choices = tuple(
            replace(choice, items=tuple(item for item in choice.items if self._keeps(item)))
            for choice in reply.choices
        )
        if not self._removed or any(choice.items for choice in choices):
            return replace(reply, choices=choices)
        if self._must_remain:
            return replace(reply, choices=(), error=self._error())
        self._losses.invented("content", NOTHING_SAID)
        empty = Message("assistant", (Text(""),), status="completed")
        return replace(reply, choices=tuple(replace(one, items=(empty,)) for one in choices))

    def _keeps(self, item: Item) -> bool:
        if not isinstance(item, Call) or self._allows(item):
            return True
        self._removed.append(item.name)
        why = "the request did not allow a call of this tool"
        self._losses.dropped(call_path(item), why, "capability")
        return False

    def _error(self) -> Error:
        names = ", ".join(self._removed)
        message = f"the model called only tools that were not allowed: {names}"
        return Error(message, code="model_error", status=502)

    def _nothing_left(self, event: Finished) -> list[Event]:
        """End an answer of which nothing is left."""
        if self._must_remain:
            return [Failed(self._error(), event.usage)]
        self._losses.invented("content", NOTHING_SAID)
        return [
            Opened(0, Message("assistant")),
            Delta(0, "text", ""),
            Closed(0),
            event,
        ]

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []
