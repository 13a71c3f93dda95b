"""Summarize a conversation that is longer than its client allows, before its next reply.

The summary replaces all items but those of the current turn, which are sealed with it. Later turns
need only the summary item, so clients and the store drop the items before it.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import (
    IdSource,
    InputItem,
    InvalidRequestError,
    Loss,
    Policy,
    RequestBody,
    Sealer,
    UnsupportedRequestError,
)
from adapters.ir.types import Usage
from adapters.stages.summary_item import ItemPrepender
from adapters.wire.json_object import JsonObject
from gateway.compaction.summary import COMPACTION, Summary, open_summary
from gateway.compaction.summary_request import PreparedRequest
from gateway.compaction.window import (
    TRIGGER_ITEM,
    Window,
    WindowItem,
    head_of,
    instructing_items,
    summary_message,
)

FIELD: Final = "context_management"
# In tokens, if the client sends none. Most models accept more.
_DEFAULT_THRESHOLD: Final = 100_000
# Fields that apply to the reply and not to the summary.
_REPLY_FIELDS: Final = ("background", "max_output_tokens", "store", "stream", "stream_options")


class ContextManagement(Struct, frozen=True):
    """A request, and the length at which its conversation is to be summarized."""

    # The request without the field `context_management`.
    body: RequestBody
    # In tokens; None if the conversation is not to be summarized.
    threshold: int | None
    losses: tuple[Loss, ...]


class GeneratedSummary(Struct, frozen=True):
    """A summary written by a backend, with its usage."""

    item: Raw
    usage: Usage | None
    losses: tuple[Loss, ...] = ()


class SummaryPlan(Struct, frozen=True):
    """A conversation divided into a head to summarize and a tail, the current turn."""

    # The request for the summary.
    request: RequestBody
    # The client's request, which is served after that.
    body: RequestBody
    head: tuple[WindowItem, ...]
    tail: tuple[WindowItem, ...]

    def apply(
        self, made: GeneratedSummary, sealer: Sealer, ids: IdSource
    ) -> PreparedRequest | None:
        """Return the request with the summary instead of the head; None if it cannot be opened."""
        opened = open_summary(head_of(made.item).encrypted_content or "", sealer)
        if opened is None:
            return None
        after = tuple(item.raw for item in self.tail)
        before = instructing_items(self.head)
        instructions = tuple(item.raw for item in before)
        summary = Summary(opened.text, instructions, after, whole=True)
        # The client did not send the message, so losses in it have the path of the field.
        message = summary_message(summary, FIELD)
        window = Window((*before, message, *self.tail))
        item, usage = summary.to_item(sealer, ids), made.usage
        body = replace(self.body, items=window.input_items(), raw=None)
        return PreparedRequest(body, lambda _: ItemPrepender(item, usage))


def read_context_management(body: RequestBody, policy: Policy) -> ContextManagement:
    """Read the field `context_management`; return the request without it."""
    threshold: int | None = None
    losses: list[Loss] = []
    for entry in JsonObject({FIELD: body.fields[FIELD]}).objects(FIELD):
        if entry.peek("type") != COMPACTION:
            losses.append(lost(f"{entry.path}.type", "only compaction is supported", policy))
        elif threshold is None:
            threshold = _read_threshold(entry)
    fields = {name: raw for name, raw in body.fields.items() if name != FIELD}
    return ContextManagement(replace(body, fields=fields, raw=None), threshold, tuple(losses))


def _read_threshold(entry: JsonObject) -> int:
    threshold = entry.integer("compact_threshold")
    if threshold is not None and threshold < 1:
        raise InvalidRequestError(entry.at("compact_threshold"), "must be at least 1")
    return _DEFAULT_THRESHOLD if threshold is None else threshold


def lost(path: str, why: str, policy: Policy) -> Loss:
    """Return the loss of a field; raise `UnsupportedRequestError` if the policy refuses losses."""
    if policy == "refuse":
        raise UnsupportedRequestError(path, why)
    return Loss("dropped", path, why, "capability")


def summary_failed(policy: Policy) -> Loss:
    """Return the loss for a conversation that could not be summarized.

    The conversation is sent unchanged: perhaps it fits, and if not, the error of the backend is
    more precise than one of ours.
    """
    return lost(FIELD, "the conversation could not be summarized; sent unchanged", policy)


def plan_summary(body: RequestBody, window: Window, policy: Policy) -> SummaryPlan | Loss:
    """Divide a conversation that is too long; return a loss if nothing can be summarized."""
    start = _start_of_current_turn(window.items)
    head, tail = window.items[:start], window.items[start:]
    if all(item.instructs for item in head):
        return lost(FIELD, "there is nothing to summarize before the current turn", policy)
    fields = {name: raw for name, raw in body.fields.items() if name not in _REPLY_FIELDS}
    items = (*Window(head).input_items(), InputItem(TRIGGER_ITEM, "input"))
    request = RequestBody(fields | {"store": Raw(b"false")}, items)
    return SummaryPlan(request, body, head, tail)


def _start_of_current_turn(items: Sequence[WindowItem]) -> int:
    """Return the index of the first item after the last item of the assistant.

    If tool outputs follow, include the last items of the assistant: outputs need their calls.
    """
    start = len(items)
    while start and not _is_assistant_item(items[start - 1]):
        start -= 1
    has_outputs = any((item.head.type or "").endswith("_output") for item in items[start:])
    while has_outputs and start and _is_assistant_item(items[start - 1]):
        start -= 1
    return start


def _is_assistant_item(item: WindowItem) -> bool:
    kind = item.head.type or ""
    return item.head.role == "assistant" or kind == "reasoning" or kind.endswith("_call")
