"""The stage that removes tool calls which the request did not allow.

`allowed_tools` is a hard constraint in Open Responses, but a backend without it only receives fewer
tools and may still call others. Calls that the model makes despite `none` are removed too. Many
backends make several calls although `parallel_tool_calls` is false: only the first one is kept.
"""

from collections.abc import Callable

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.normalize import EMPTY_REPLY_REASON, call_path, wants_one_choice
from adapters.ir.types import (
    AllowedToolsChoice,
    Error,
    Item,
    Message,
    NamedToolChoice,
    Reply,
    Request,
    ToolCall,
    ToolChoiceMode,
)
from adapters.losses import Losses
from adapters.stages.stage import DiscardBlock, Stage
from adapters.tool_emulation.registry import ToolIdentity, ToolRegistry
from adapters.wire.json_object import read_fields

# Takes a call and the index of its choice; returns the reason to remove it, or None to keep it.
RemovalRule = Callable[[ToolCall, int], str | None]

_NOT_ALLOWED = "the request does not allow calls of this tool"
_NOT_FIRST = "the request allows only one call per reply"


def call_filters(request: Request, registry: ToolRegistry, losses: Losses) -> list[Stage]:
    """Return the filters that the request requires."""
    stages: list[Stage] = []
    match request.tool_choice:
        case ToolChoiceMode(mode="none") | AllowedToolsChoice(mode="none"):
            stages.append(DisallowedCallFilter(lambda _call, _choice: _NOT_ALLOWED, losses))
        case AllowedToolsChoice() as allowed:
            rule = _listed_tools_rule(allowed, registry)
            stages.append(DisallowedCallFilter(rule, losses, fail_if_empty=True))
        case NamedToolChoice() as named:
            stages.append(ForcedToolCheck(_identity(named, registry), losses))
        case _:
            pass
    if request.parallel_tool_calls is False:
        rule = _first_call_rule(merges_choices=wants_one_choice(request))
        stages.append(DisallowedCallFilter(rule, losses))
    return stages


def _listed_tools_rule(allowed: AllowedToolsChoice, registry: ToolRegistry) -> RemovalRule:
    """Return a rule that keeps the calls of the listed tools, kinds of tools and namespaces."""
    names = {_identity(named, registry) for named in allowed.tools}
    others = [read_fields(raw) for raw in allowed.others]
    listed = {(fields.string("type") or "", fields.string("name")) for fields in others}

    def allows(call: ToolCall) -> bool:
        if (call.namespace, call.name) in names:
            return True
        kinds = ("computer", "computer_use_preview") if call.kind == "computer" else (call.kind,)
        in_listed_namespace = call.namespace is not None and ("namespace", call.namespace) in listed
        return in_listed_namespace or any((kind, None) in listed for kind in kinds)

    return lambda call, _choice: None if allows(call) else _NOT_ALLOWED


def _identity(named: NamedToolChoice, registry: ToolRegistry) -> ToolIdentity:
    """Return the identity of a tool in the choice, which may have its qualified name."""
    entry = registry.by_choice(named)
    return (named.namespace, named.name) if entry is None else (entry.namespace, entry.name)


def _first_call_rule(*, merges_choices: bool) -> RemovalRule:
    """Return a rule that keeps the first call of each choice of the client's reply."""
    choices_with_calls: set[int] = set()

    def rule(_call: ToolCall, choice: int) -> str | None:
        number = 0 if merges_choices else choice
        if number in choices_with_calls:
            return _NOT_FIRST
        choices_with_calls.add(number)
        return None

    return rule


class DisallowedCallFilter(Stage):
    """A stage that removes the calls that a rule rejects."""

    def __init__(self, rule: RemovalRule, losses: Losses, *, fail_if_empty: bool = False) -> None:
        super().__init__()
        self._rule = rule
        self._losses = losses
        # Whether a reply with no remaining items becomes an error.
        self._fail_if_empty = fail_if_empty
        self._kept_any = False
        self._removed_names: list[str] = []

    def _open(self, event: Opened) -> list[Event]:
        call = event.item
        reason = self._rule(call, event.choice) if isinstance(call, ToolCall) else None
        if reason is None or not isinstance(call, ToolCall):
            self._kept_any = True
            return [event]
        self._removed_names.append(call.name)
        self._losses.dropped(call_path(call), reason, "capability")
        self._processors[event.index] = DiscardBlock()
        return []

    def _finish(self, event: Finished) -> list[Event]:
        if self._kept_any or not self._removed_names:
            return [event]
        if self._fail_if_empty:
            names = ", ".join(self._removed_names)
            message = f"the model called only tools that are not allowed: {names}"
            return [Failed(Error(message, code="model_error", status=502), event.usage)]
        self._losses.invented("content", EMPTY_REPLY_REASON)
        events: list[Event] = []
        for choice in range(len(event.finishes) or 1):
            block = f"empty.{choice}"
            opened = Opened(block, Message("assistant"), choice)
            events += opened, Delta(block, "text", ""), Closed(block)
        return [*events, event]


class ForcedToolCheck(Stage):
    """A stage that reports calls of other tools than the one that the request forces.

    Such a call is kept: the client would otherwise receive an empty reply.
    """

    def __init__(self, forced: ToolIdentity, losses: Losses) -> None:
        super().__init__()
        self._forced = forced
        self._losses = losses

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has a call of another tool."""
        return any(self._is_other(item) for choice in reply.choices for item in choice.items)

    def _is_other(self, item: Item) -> bool:
        return isinstance(item, ToolCall) and (item.namespace, item.name) != self._forced

    def _open(self, event: Opened) -> list[Event]:
        call = event.item
        if isinstance(call, ToolCall) and self._is_other(call):
            reason = f"the request forces {self._forced[1]}; the backend called {call.name}"
            self._losses.changed(call_path(call), reason, "capability")
        return [event]
