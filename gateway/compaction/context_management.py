"""Summarize a conversation before it is answered, once it is as long as its client allows.

The summary replaces all but the current turn, which is sealed with it: later turns need only the
item, and clients and the store leave out what is before it.
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
from adapters.losses import Losses
from adapters.stages.summary_item import PrependItem
from adapters.wire.json_object import JsonObject
from gateway.compaction.summary import COMPACTION, Summary, unsealed
from gateway.compaction.summary_request import PreparedRequest
from gateway.compaction.window import (
    TRIGGER_ITEM,
    Window,
    WindowItem,
    head_of,
    persistent_instructions,
    summary_message,
)

FIELD: Final = "context_management"
# In tokens, where the client does not say. Most models take more.
_DEFAULT_THRESHOLD: Final = 100_000

_UNKNOWN: Final = "only compaction is supported"
_FAILED: Final = "the conversation could not be summarized; sent unchanged"
_NOTHING: Final = "there is nothing to summarize before the current turn"

# Fields that concern the reply and not the summary.
_REPLY_FIELDS: Final = ("background", "max_output_tokens", "store", "stream", "stream_options")
_FALSE: Final = Raw(b"false")


class ContextManagement(Struct, frozen=True):
    """What a client wants to be done with a long conversation."""

    # The request without the field.
    body: RequestBody
    # In tokens; None: nothing is to be done.
    threshold: int | None
    losses: tuple[Loss, ...]


class GeneratedSummary(Struct, frozen=True):
    """A summary as a backend made it."""

    item: Raw
    usage: Usage | None
    losses: tuple[Loss, ...] = ()


class SummaryPlan(Struct, frozen=True):
    """How a conversation is divided: what is summarized, and the turn that goes on."""

    # The request for the summary.
    request: RequestBody
    # The request that is answered after it.
    body: RequestBody
    head: tuple[WindowItem, ...]
    tail: tuple[WindowItem, ...]

    def apply(
        self, made: GeneratedSummary, sealer: Sealer, ids: IdSource
    ) -> PreparedRequest | None:
        """Return the request that goes on from a summary; None if that cannot be opened."""
        opened = unsealed(head_of(made.item).encrypted_content or "", sealer)
        if opened is None:
            return None
        after = tuple(item.raw for item in self.tail)
        summary = Summary(opened.text, persistent_instructions(self.head), after, whole=True)
        # What the backend reports about the summary concerns what was summarized.
        message = summary_message(summary, FIELD)
        before = tuple(item for item in self.head if item.instructs)
        window = Window((*before, message, *self.tail))
        item, usage = summary.sealed(sealer, ids), made.usage

        def prepend(_: Losses) -> PrependItem:
            return PrependItem(item, usage)

        body = replace(self.body, items=window.input_items(), raw=None)
        return PreparedRequest(body, prepend)


def read_context_management(body: RequestBody, policy: Policy) -> ContextManagement:
    """Read the field `context_management`; return the request without it."""
    threshold: int | None = None
    losses: list[Loss] = []
    for entry in JsonObject({FIELD: body.fields[FIELD]}).objects(FIELD):
        if entry.peek("type") != COMPACTION:
            losses.append(lost(f"{entry.path}.type", _UNKNOWN, policy))
        elif threshold is None:
            threshold = _read_threshold(entry)
    fields = {name: raw for name, raw in body.fields.items() if name != FIELD}
    return ContextManagement(replace(body, fields=fields, raw=None), threshold, tuple(losses))


def _read_threshold(entry: JsonObject) -> int:
    path = entry.at("compact_threshold")
    threshold = entry.integer("compact_threshold")
    if threshold is not None and threshold < 1:
        raise InvalidRequestError(path, "must be at least 1")
    return _DEFAULT_THRESHOLD if threshold is None else threshold


def lost(path: str, why: str, policy: Policy) -> Loss:
    """Return a loss of a capability; raise `UnsupportedRequestError` where losses are refused."""
    if policy == "refuse":
        raise UnsupportedRequestError(path, why)
    return Loss("dropped", path, why, "capability")


def summary_failed(policy: Policy) -> Loss:
    """Return the loss for a conversation that could not be summarized.

    It may fit all the same, and if it does not, the backend's own error says more than ours.
    """
    return lost(FIELD, _FAILED, policy)


def plan_summary(body: RequestBody, window: Window, policy: Policy) -> SummaryPlan | Loss:
    """Divide a conversation that is too long; return a loss if nothing can be summarized."""
    place = _start_of_current_turn(window.items)
    head, tail = window.items[:place], window.items[place:]
    if all(item.instructs for item in head):
        return lost(FIELD, _NOTHING, policy)
    fields = {name: raw for name, raw in body.fields.items() if name not in _REPLY_FIELDS}
    items = (*Window(head).input_items(), InputItem(TRIGGER_ITEM, "input"))
    request = RequestBody(fields | {"store": _FALSE}, items)
    return SummaryPlan(request, body, head, tail)


def _start_of_current_turn(items: Sequence[WindowItem]) -> int:
    """Return where the current turn begins.

    That is what came after the assistant's last message; and that message too if it made calls,
    because their outputs are useless without them.
    """
    place = len(items)
    while place and not _is_assistant_item(items[place - 1]):
        place -= 1
    has_outputs = any((item.head.type or "").endswith("_output") for item in items[place:])
    while has_outputs and place and _is_assistant_item(items[place - 1]):
        place -= 1
    return place


def _is_assistant_item(item: WindowItem) -> bool:
    kind = item.head.type or ""
    return item.head.role == "assistant" or kind == "reasoning" or kind.endswith("_call")
