"""Has a conversation summed up before it is answered, once it is as long as its client said.

The summary stands for all but the turn that is going on, which is sealed with it: so the item is
all that later turns need, and clients and the store leave out what is before it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters import IdSource, InvalidRequestError, Loss, Policy, Sealer, UnsupportedRequestError
from adapters.ir.types import OpaqueItem, Usage
from adapters.wire.json_object import JsonObject, read_body
from gateway.compaction.summary import COMPACTION, Summary, unsealed
from gateway.compaction.window import (
    TRIGGER_ITEM,
    ItemHead,
    Window,
    WindowItem,
    kind_of,
    persistent_instructions,
)

_FIELD: Final = "context_management"
_SIGN: Final = b'"context_management"'
# Where the client does not say. Most models take more; those that take less say so themselves.
_THRESHOLD: Final = 100_000

_UNKNOWN: Final = "only the type compaction is known here"
_FAILED: Final = "the conversation could not be summed up; it goes on as it is"
_NOTHING: Final = "all of it belongs to the turn that is going on: there is nothing to sum up"

# These concern the answer and not the summary.
_OF_ANSWERS: Final = ("background", "max_output_tokens", "store", "stream", "stream_options")


class ContextManagement(Struct, frozen=True):
    """What a client wants to be done with a long conversation."""

    # In tokens; None: nothing.
    threshold: int | None
    losses: tuple[Loss, ...]


class GeneratedSummary(Struct, frozen=True):
    """A summary as a backend made it: the item, what it cost, and what could not be told it."""

    item: Raw
    usage: Usage | None
    losses: tuple[Loss, ...] = ()


class CompactedRequest(Struct, frozen=True):
    """A request that goes on from a summary."""

    body: bytes
    window: Window
    item: OpaqueItem
    usage: Usage | None = None
    losses: tuple[Loss, ...] = ()


# Has a request answered whose last item asks for a summary; None: it failed.
Ask = Callable[[bytes], Awaitable[GeneratedSummary | None]]


def concerns_management(body: bytes) -> bool:
    """Tell whether a request may ask for this."""
    return _SIGN in body


def read_wish(body: bytes, policy: Policy) -> tuple[ContextManagement, bytes]:
    """Read what is wished for; give the request without it."""
    fields = read_body(body)
    threshold: int | None = None
    losses: list[Loss] = []
    for entry in fields.objects(_FIELD):
        if entry.peek("type") != COMPACTION:
            losses.append(_lost(f"{entry.path}.type", _UNKNOWN, policy))
        elif threshold is None:
            threshold = _read_threshold(entry)
    return ContextManagement(threshold, tuple(losses)), fields.encode_with()


def _read_threshold(entry: JsonObject) -> int:
    path = entry.at("compact_threshold")
    threshold = entry.integer("compact_threshold")
    if threshold is not None and threshold < 1:
        raise InvalidRequestError(path, "expected a positive number of tokens")
    return _THRESHOLD if threshold is None else threshold


def _lost(path: str, why: str, policy: Policy) -> Loss:
    """Say that something will not happen; where that is to be refused, it is."""
    if policy == "refuse":
        raise UnsupportedRequestError(path, why)
    return Loss("dropped", path, why, "capability")


class Compactor:
    """Sums up one conversation, which is long enough."""

    def __init__(self, seal: Sealer, mint: IdSource, policy: Policy) -> None:
        self._seal = seal
        self._mint = mint
        self._policy: Policy = policy

    async def manage(self, body: bytes, window: Window, ask: Ask) -> CompactedRequest | Loss:
        """Have it summed up; if that fails, the conversation goes on without.

        It may fit all the same, and if it does not, the backend says so in its own words: nothing
        is won by failing in its place. Where losses are refused, this one is.
        """
        place = _current_turn(window.items)
        head, tail = window.items[:place], window.items[place:]
        if all(item.instructs for item in head):
            return _lost(_FIELD, _NOTHING, self._policy)
        made = await ask(_asking(body, head))
        summary = None if made is None else self._opened(made.item)
        if made is None or summary is None:
            return _lost(_FIELD, _FAILED, self._policy)
        managed = self._go_on(body, summary, head, tail)
        told = Window(head).client_path
        losses = tuple(replace(loss, path=told(loss.path)) for loss in made.losses)
        return replace(managed, usage=made.usage, losses=losses)

    def _opened(self, item: Raw) -> Summary | None:
        return unsealed(kind_of(item).encrypted_content or "", self._seal)

    def _go_on(
        self, body: bytes, summary: Summary, head: Sequence[WindowItem], tail: Sequence[WindowItem]
    ) -> CompactedRequest:
        before = tuple(item for item in head if item.instructs)
        after = tuple(item.raw for item in tail)
        whole = Summary(summary.text, persistent_instructions(head), after, whole=True)
        # What the backend says of the summary, it says of what was summed up.
        told = WindowItem(whole.message(), _FIELD, ItemHead("message", "user"), told=True)
        window = Window((*before, told, *tail))
        item = whole.sealed(self._seal, self._mint)
        return CompactedRequest(read_body(body).encode_with(input=window.raws), window, item)


def _asking(body: bytes, head: Sequence[WindowItem]) -> bytes:
    """Ask for a summary of the first items."""
    fields = read_body(body)
    for name in _OF_ANSWERS:
        fields.raw(name)
    return fields.encode_with(input=[*(item.raw for item in head), TRIGGER_ITEM], store=False)


def _current_turn(items: Sequence[WindowItem]) -> int:
    """Find where the turn begins that is going on.

    That is what came after the assistant's last words; and those, too, if they were calls, for
    their outputs are nothing without them.
    """
    place = len(items)
    while place and not _is_of_assistant(items[place - 1]):
        place -= 1
    answered = any((item.kind.type or "").endswith("_output") for item in items[place:])
    while answered and place and _is_of_assistant(items[place - 1]):
        place -= 1
    return place


def _is_of_assistant(item: WindowItem) -> bool:
    kind = item.kind.type or ""
    return item.kind.role == "assistant" or kind == "reasoning" or kind.endswith("_call")
