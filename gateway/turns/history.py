"""Finds what a request stands on: earlier turns, a conversation, single items."""

import msgspec
from msgspec import Raw, Struct

from adapters.json_text import DECODE_ERRORS
from gateway.store import RUNNING, ChainLink, Item, Page, Store
from gateway.turns.errors import (
    ConversationNotFoundError,
    ItemNotFoundError,
    PreviousResponseNotFoundError,
    PreviousResponseUnfinishedError,
)
from gateway.turns.references import read_reference
from gateway.turns.state_fields import StateFields
from gateway.turns.turn import UnstoredResponses


class Settings(Struct, frozen=True, omit_defaults=True):
    """What later turns need to know of a response besides its items."""

    model: str = ""


class _Kind(Struct):
    type: str = ""


_KIND = msgspec.json.Decoder(_Kind)
_SETTINGS = msgspec.json.Decoder(Settings | None)
_COMPACTION = b'"compaction"'


class History(Struct, frozen=True):
    """What was found."""

    items: tuple[Item, ...] = ()
    # The response that is continued, if it is in the store: items are linked to it, not copied.
    parent: str | None = None
    model: str | None = None


async def load_history(
    store: Store, owner: str, asking: StateFields, nearby: UnstoredResponses | None
) -> History:
    """Find what came before the input of a request."""
    if asking.previous is not None:
        near = nearby.find(asking.previous) if nearby else None
        if near is not None:
            return History(near)
        return await _find_chain(store, owner, asking.previous)
    if asking.conversation is not None:
        listing = await store.conversations.items(owner, asking.conversation, Page())
        if listing is None:
            raise ConversationNotFoundError(asking.conversation)
        # What a summary among these stands for, it says itself: users' words may belong beside it.
        return History(listing.data)
    return History()


async def _find_chain(store: Store, owner: str, name: str) -> History:
    steps = await store.responses.chain(owner, name)
    if steps is None:
        raise PreviousResponseNotFoundError(name)
    if steps[-1].status in RUNNING:
        raise PreviousResponseUnfinishedError(name, steps[-1].status)
    settings = _SETTINGS.decode(steps[-1].settings) or Settings()
    items = await whole_chain(store, owner, steps)
    return History(tuple(items), parent=name, model=settings.model or None)


async def whole_chain(store: Store, owner: str, steps: tuple[ChainLink, ...]) -> list[Item]:
    """Put the items of a chain in a row, behind what was said in the conversation it began in."""
    first = steps[0]
    if first.conversation is None:
        return chain_items(steps)
    said = await store.conversations.before(owner, first.conversation, first.id)
    return chain_items(steps, said[_last_summary(said) :])


def chain_items(steps: tuple[ChainLink, ...], before: tuple[Item, ...] = ()) -> list[Item]:
    """Put the items of a chain in a row; an answer may have summed up all that was before it."""
    items: list[Item] = [*before]
    for step in steps:
        items += step.input
        place = _last_summary(step.output)
        if place is not None:
            items.clear()
        items += step.output[place:]
    return items


def _last_summary(items: tuple[Item, ...]) -> int | None:
    """Find the last item that sums up all that was before it."""
    for place in range(len(items) - 1, -1, -1):
        body = items[place].body
        if _COMPACTION in bytes(body) and _kind(body).type == "compaction":
            return place
    return None


def _kind(raw: Raw) -> _Kind:
    try:
        return _KIND.decode(raw)
    except DECODE_ERRORS:
        return _Kind()


async def resolve_item_references(
    store: Store, owner: str, given: list[Raw], past: tuple[Item, ...], path: str = "input"
) -> list[Raw | Item]:
    """Put the items in place of those that only refer to them."""
    read = ((place, read_reference(raw)) for place, raw in enumerate(given))
    wanted = {place: name for place, name in read if name is not None}
    if not wanted:
        return list(given)
    found = {item.id: item for item in past}
    found |= await store.responses.items(owner, set(wanted.values()) - found.keys())
    resolved: list[Raw | Item] = list(given)
    for place, name in wanted.items():
        if name not in found:
            raise ItemNotFoundError(f"{path}[{place}]", name)
        resolved[place] = found[name]
    return resolved
