"""Opens what clients bring back sealed, and puts it where its backend wants to see it.

A Responses client brings seals on reasoning items; a Chat client on calls, or not at all: then what
was kept elsewhere under the ids of its calls does as well. What cannot be opened, because it was
sealed elsewhere or for another backend, is left out and reported, with what was shown of it; no
request fails for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from msgspec.structs import replace

from adapters.ids import short_call_id
from adapters.ir.normalize import is_assistant_item, unzip
from adapters.ir.types import (
    Extras,
    Item,
    Message,
    OpaqueItem,
    Reasoning,
    Request,
    ToolCall,
)
from adapters.losses import Losses
from adapters.reasoning.sealed import (
    SealedReasoning,
    Sealer,
    call_fingerprint,
    open_sealed,
    pop_sealed_extra,
)

Placed = tuple[Item, str]

_FOREIGN = "its encrypted_content was sealed by another server, which alone can open it"
_NOT_OURS = "it cannot be opened: it was sealed elsewhere, for another backend, or was changed"


class ReasoningRestorer:
    """Opens what one request brings."""

    def __init__(self, seal: Sealer, losses: Losses, *, native: bool) -> None:
        self._seal = seal
        self._losses = losses
        # The backend seals reasoning itself; what is not ours is taken for its own.
        self._native = native
        # What comes back with the calls of a turn, by their ids.
        self._extras: dict[str, Extras] = {}

    def open(self, request: Request, found: Mapping[str, str]) -> Request:
        """Give a request with all that can be opened, or was kept elsewhere and found again."""
        if not found and not any(map(_brings, request.items)):
            return request
        spliced: list[Placed] = []
        for _, turn in groupby(request.items_with_paths(), _is_of_turn):
            self._open_turn(turn, found, spliced)
        items, paths = unzip(spliced)
        return replace(request, items=items, paths=paths)

    def _open_turn(
        self, turn: Iterable[Placed], found: Mapping[str, str], spliced: list[Placed]
    ) -> None:
        """Open what one turn brings: the ids of its calls may come again in the next (P056)."""
        self._extras = {}
        # All of it first: what a backend said of a call at its end follows the call.
        opened = [one for item, path in turn for one in self._opened(item, path)]
        for item, path in opened:
            if isinstance(item, ToolCall):
                self._splice(item, path, found, spliced)
            else:
                spliced.append((item, path))
        self._attach_leftovers(spliced)

    def _attach_leftovers(self, spliced: list[Placed]) -> None:
        """Put what is left of a turn on its call, where a client put the output between them."""
        for place in reversed(range(len(spliced) if self._extras else 0)):
            item, path = spliced[place]
            if isinstance(item, Message):
                return
            if isinstance(item, ToolCall) and not item.extras:
                extras = self._extras.pop(short_call_id(item.call_id), ())
                spliced[place] = (replace(item, extras=extras), path)

    # On reasoning items

    def _opened(self, item: Item, path: str) -> Iterator[Placed]:
        if not isinstance(item, Reasoning) or item.encrypted is None:
            yield item, path
            return
        ours = item.encrypted.startswith(self._seal.prefix)
        if self._native and not ours:
            yield item, path
            return
        kept = open_sealed(item.encrypted, self._seal)
        if kept is not None:
            self._extras |= kept.calls
            for thought in kept.thoughts:
                yield thought, path
            return
        # What was shown of it is no more this backend's than what is sealed.
        self._losses.dropped(path, _NOT_OURS if ours else _FOREIGN)

    # On calls

    def _splice(
        self, call: ToolCall, path: str, found: Mapping[str, str], before: list[Placed]
    ) -> None:
        text, extras = pop_sealed_extra(call)
        kept = self._found(text, call, path, found)
        if kept is not None:
            self._extras = kept.calls | self._extras
            if kept.thoughts:
                _put_thoughts(kept, path, before)
        extras += self._extras.pop(short_call_id(call.call_id), ())
        before.append((call if extras == call.extras else replace(call, extras=extras), path))

    def _found(
        self, text: str | None, call: ToolCall, path: str, found: Mapping[str, str]
    ) -> SealedReasoning | None:
        kept = None if text is None else open_sealed(text, self._seal)
        if kept is not None:
            return kept
        name = call.call_id if self._native else call_fingerprint(call)
        if name in found and short_call_id(call.call_id) not in self._extras:
            kept = open_sealed(found[name], self._seal)
        if kept is None and text is not None:
            self._losses.dropped(f"{path}.extra_content", _NOT_OURS)
        return kept


def _is_of_turn(placed: Placed) -> bool:
    """Tell whether an item leaves a turn of the model open."""
    item, _ = placed
    return isinstance(item, OpaqueItem) or is_assistant_item(item)


def _brings(item: Item) -> bool:
    """Tell whether an item may bring something back."""
    match item:
        case ToolCall():
            return bool(item.extras)
        case Reasoning():
            return item.encrypted is not None
        case _:
            return False


def _put_thoughts(kept: SealedReasoning, path: str, before: list[Placed]) -> None:
    """Put thoughts where they stood in their turn, in the place of what the client was told."""
    start = len(before)
    while start and is_assistant_item(before[start - 1][0]):
        start -= 1
    turn = [one for one in before[start:] if not _is_plain(one[0])]
    del before[start:]
    place = len(turn)
    if kept.before_text and turn and isinstance(turn[-1][0], Message):
        place -= 1
    turn[place:place] = [(thought, path) for thought in kept.thoughts]
    before += turn


def _is_plain(item: Item) -> bool:
    """Tell whether an item is a thought as a client was shown it."""
    return isinstance(item, Reasoning) and item.encrypted is None
