"""Holds a reply to the tools that the request allowed.

`allowed_tools` is a hard constraint in Open Responses, and on a backend that does not know it only
the declaration was narrowed. With `none`, a call that comes anyway is not for the client either.
"""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.conversation import Allowed, Call, Error, Mode, Request
from adapters.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.loss import Losses
from adapters.stage import Stage


def enforcement(request: Request, losses: Losses) -> list[Stage[Event, Event]]:
    """Make the stages that the request calls for."""
    stages: list[Stage[Event, Event]] = []
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
            self._calls += 1
            if self._calls > 1:
                why = "the backend makes several calls all the same"
                self._losses.changed("parallel_tool_calls", why)
        return [event]

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
            case Opened(item=Call() as call) if not self._allows(call):
                self._removed.append(call.name)
                self._losses.dropped(
                    f"call {call.name}", "the request did not allow a call of this tool"
                )
                return []
            case Opened():
                self._numbers[event.index] = len(self._numbers)
                return [replace(event, index=self._numbers[event.index])]
            case Delta() | Closed():
                number = self._numbers.get(event.index)
                return [] if number is None else [replace(event, index=number)]
            case Finished() if self._removed and not self._numbers and self._must_remain:
                names = ", ".join(self._removed)
                message = f"the model called only tools that were not allowed: {names}"
                return [Failed(Error(message, code="model_error"), event.usage)]
            case _:
                return [event]

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []
