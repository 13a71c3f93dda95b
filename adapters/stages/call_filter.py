"""Holds a reply to the tools that the request allowed, and to one call where it asked for one.

`allowed_tools` is a hard constraint in Open Responses, and on a backend that does not know it only
the declaration was narrowed. With `none`, a call that comes anyway is not for the client either.
Many backends make several calls though `parallel_tool_calls` was false (P018): the first counts.
"""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.normalize import EMPTY_REPLY_REASON, call_path
from adapters.ir.types import (
    AllowedToolsChoice,
    Error,
    Item,
    Message,
    NamedToolChoice,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolChoiceMode,
)
from adapters.losses import Losses
from adapters.tool_emulation.names import Identity
from adapters.tool_emulation.registry import ToolRegistry
from adapters.wire.json_object import read_fields

# Says why a call, in the choice of that number, is not for the client; None if it is.
Rule = Callable[[ToolCall, int], str | None]

_NOT_ALLOWED = "the request did not allow a call of this tool"
_NOT_FIRST = "the request asked for one call at a time; only the first is kept"


def call_filters(
    request: Request, table: ToolRegistry, losses: Losses
) -> "list[DisallowedCallFilter]":
    """Make the stages that the request calls for; each takes whole replies too."""
    stages: list[DisallowedCallFilter] = []
    match request.tool_choice:
        case ToolChoiceMode(mode="none") | AllowedToolsChoice(mode="none"):
            stages.append(
                DisallowedCallFilter(lambda _call, _choice: _NOT_ALLOWED, losses, must_remain=False)
            )
        case AllowedToolsChoice() as allowed:
            stages.append(DisallowedCallFilter(_allows(allowed, table), losses, must_remain=True))
        case _:
            pass
    if request.parallel_tool_calls is False:
        stages.append(DisallowedCallFilter(_only_first(), losses, must_remain=False))
    return stages


def _allows(allowed: AllowedToolsChoice, table: ToolRegistry) -> Rule:
    """Hold calls to a list: by the tools that it names, their kinds, or their namespaces."""
    names = {_identity(named, table) for named in allowed.tools}
    others = [read_fields(raw) for raw in allowed.others]
    listed = {(fields.string("type") or "", fields.string("name")) for fields in others}

    def allows(call: ToolCall) -> bool:
        if (call.namespace, call.name) in names:
            return True
        kinds = ("computer", "computer_use_preview") if call.kind == "computer" else (call.kind,)
        within = call.namespace is not None and ("namespace", call.namespace) in listed
        return within or any((kind, None) in listed for kind in kinds)

    return lambda call, _choice: None if allows(call) else _NOT_ALLOWED


def _identity(named: NamedToolChoice, table: ToolRegistry) -> Identity:
    """Give the tool that a client names, as the backend was told of it too."""
    entry = table.by_choice(named)
    return (named.namespace, named.name) if entry is None else (entry.namespace, entry.name)


def _only_first() -> Rule:
    """Hold each choice to one call."""
    called: set[int] = set()

    def judge(_call: ToolCall, choice: int) -> str | None:
        if choice in called:
            return _NOT_FIRST
        called.add(choice)
        return None

    return judge


class DisallowedCallFilter:
    """Takes the calls that a rule forbids out of a reply, whole or streamed."""

    def __init__(self, rule: Rule, losses: Losses, *, must_remain: bool) -> None:
        self._rule = rule
        self._losses = losses
        # A reply of which nothing remains is a fault of the model.
        self._must_remain = must_remain
        # New numbers of the blocks that stay.
        self._numbers: dict[int, int] = {}
        self._removed: list[str] = []

    def feed(self, event: Event) -> list[Event]:
        """Pass an event on, under its new number, unless its block was taken out."""
        match event:
            case Opened(item=ToolCall() as call) if not self._keeps(call, event.choice):
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
        """Take the calls that the rule forbids out of a whole reply."""
        choices = tuple(
            replace(choice, items=tuple(item for item in choice.items if self._keeps(item, number)))
            for number, choice in enumerate(reply.choices)
        )
        if not self._removed or any(choice.items for choice in choices):
            return replace(reply, choices=choices)
        if self._must_remain:
            return replace(reply, choices=(), error=self._error())
        self._losses.invented("content", EMPTY_REPLY_REASON)
        empty = Message("assistant", (Text(""),), status="completed")
        return replace(reply, choices=tuple(replace(one, items=(empty,)) for one in choices))

    def _keeps(self, item: Item, choice: int) -> bool:
        why = self._rule(item, choice) if isinstance(item, ToolCall) else None
        if not isinstance(item, ToolCall) or why is None:
            return True
        self._removed.append(item.name)
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
        self._losses.invented("content", EMPTY_REPLY_REASON)
        return [
            Opened(0, Message("assistant")),
            Delta(0, "text", ""),
            Closed(0),
            event,
        ]

    @property
    def passes_deltas(self) -> bool:
        """Tell whether deltas pass as they are: nothing was taken out, no block renumbered."""
        return not self._removed

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []
