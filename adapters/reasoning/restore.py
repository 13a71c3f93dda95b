"""Puts sealed reasoning that comes back with a request where its backend expects it.

A Responses client sends it in reasoning items; a Chat client on calls, or not at all: then the
gateway has stored it under the keys of the calls. What cannot be opened, because it was sealed
elsewhere or for another backend, is dropped and reported, together with the visible reasoning. No
request fails because of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from msgspec.structs import replace

from adapters.ids import short_call_id
from adapters.ir.normalize import is_assistant_item, unzip
from adapters.ir.types import Extras, Item, Message, OpaqueItem, Reasoning, Request, ToolCall
from adapters.losses import Losses
from adapters.reasoning.sealed import (
    SealedReasoning,
    Sealer,
    call_fingerprint,
    open_sealed,
    pop_sealed_extra,
)

# An item with its path in the client's body.
PlacedItem = tuple[Item, str]

_FOREIGN = "encrypted_content was created by another server and cannot be decrypted"
_NOT_OURS = "cannot be decrypted: sealed by another gateway, for another backend, or modified"


class ReasoningRestorer:
    """Restores the sealed reasoning of one request."""

    def __init__(self, sealer: Sealer, losses: Losses, *, native: bool) -> None:
        self._sealer = sealer
        self._losses = losses
        # Whether the backend encrypts reasoning itself: what was not sealed here is its own.
        self._native = native
        # What goes back with the calls of the current turn, by short call id.
        self._extras: dict[str, Extras] = {}

    def restore(self, request: Request, stored: Mapping[str, str]) -> Request:
        """Return the request with everything that can be opened or was stored by the gateway."""
        restored: list[PlacedItem] = []
        for _, turn in groupby(request.items_with_paths(), _is_of_turn):
            self._restore_turn(turn, stored, restored)
        items, paths = unzip(restored)
        return replace(request, items=items, paths=paths)

    def _restore_turn(
        self, turn: Iterable[PlacedItem], stored: Mapping[str, str], restored: list[PlacedItem]
    ) -> None:
        """Restore one turn of the model; the next turn may use the same call ids again."""
        self._extras = {}
        # Open everything first: what came late in a stream stands after its call.
        opened = [one for item, path in turn for one in self._open_item(item, path)]
        for item, path in opened:
            if isinstance(item, ToolCall):
                self._restore_call(item, path, stored, restored)
            else:
                restored.append((item, path))
        self._attach_leftovers(restored)

    def _attach_leftovers(self, restored: list[PlacedItem]) -> None:
        """Put what is left on the call before it: a client may put the output between the two."""
        for place in reversed(range(len(restored) if self._extras else 0)):
            item, path = restored[place]
            if isinstance(item, Message):
                return
            if isinstance(item, ToolCall) and not item.extras:
                extras = self._extras.pop(short_call_id(item.call_id), ())
                restored[place] = (replace(item, extras=extras), path)

    # On reasoning items

    def _open_item(self, item: Item, path: str) -> Iterator[PlacedItem]:
        if not isinstance(item, Reasoning) or item.encrypted is None:
            yield item, path
            return
        sealed_here = item.encrypted.startswith(self._sealer.prefix)
        if self._native and not sealed_here:
            yield item, path
            return
        opened = open_sealed(item.encrypted, self._sealer)
        if opened is not None:
            self._extras |= opened.calls
            for reasoning in opened.reasoning:
                yield reasoning, path
            return
        # The visible reasoning is not from this backend either.
        self._losses.dropped(path, _NOT_OURS if sealed_here else _FOREIGN)

    # On calls

    def _restore_call(
        self, call: ToolCall, path: str, stored: Mapping[str, str], restored: list[PlacedItem]
    ) -> None:
        text, extras = pop_sealed_extra(call)
        opened = self._open_call(text, call, path, stored)
        if opened is not None:
            self._extras = opened.calls | self._extras
            if opened.reasoning:
                _insert_reasoning(opened, path, restored)
        extras += self._extras.pop(short_call_id(call.call_id), ())
        restored.append((call if extras == call.extras else replace(call, extras=extras), path))

    def _open_call(
        self, text: str | None, call: ToolCall, path: str, stored: Mapping[str, str]
    ) -> SealedReasoning | None:
        """Return what the call carries, or else what was stored for it."""
        opened = None if text is None else open_sealed(text, self._sealer)
        if opened is not None:
            return opened
        key = call.call_id if self._native else call_fingerprint(call)
        if key in stored and short_call_id(call.call_id) not in self._extras:
            opened = open_sealed(stored[key], self._sealer)
        if opened is None and text is not None:
            self._losses.dropped(f"{path}.extra_content", _NOT_OURS)
        return opened


def _is_of_turn(placed: PlacedItem) -> bool:
    """Whether an item can stand within a turn of the model."""
    item, _ = placed
    return isinstance(item, OpaqueItem) or is_assistant_item(item)


def _insert_reasoning(opened: SealedReasoning, path: str, restored: list[PlacedItem]) -> None:
    """Replace the reasoning that the client was shown with the original, in its original place."""
    start = len(restored)
    while start and is_assistant_item(restored[start - 1][0]):
        start -= 1
    turn = [placed for placed in restored[start:] if not _is_visible_reasoning(placed[0])]
    del restored[start:]
    place = len(turn)
    if opened.before_text and turn and isinstance(turn[-1][0], Message):
        place -= 1
    turn[place:place] = [(reasoning, path) for reasoning in opened.reasoning]
    restored += turn


def _is_visible_reasoning(item: Item) -> bool:
    return isinstance(item, Reasoning) and item.encrypted is None
