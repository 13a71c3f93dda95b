"""Finds what a request stands on: earlier turns, a conversation, single items."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from adapters.json_text import DECODE_ERRORS
from gateway.errors import (
    ConversationNotFoundError,
    ItemNotFoundError,
    OpenAIMessageError,
    PreviousResponseNotFoundError,
    PreviousResponseUnfinishedError,
    ResponseNotFoundError,
)
from gateway.store import RUNNING, ChainLink, Item, Page, Store, StoredTurn
from gateway.turns.turn import StateFields, UnstoredResponses, read_reference


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
        listing = await store.conversations.list_items(owner, asking.conversation, Page())
        if listing is None:
            raise ConversationNotFoundError(asking.conversation)
        # What a summary among these stands for, it says itself: users' words may belong beside it.
        return History(listing.data)
    return History()


async def _find_chain(store: Store, owner: str, name: str) -> History:
    steps = await store.responses.load_chain(owner, name)
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
    said = await store.conversations.list_items_before(owner, first.conversation, first.id)
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
    found |= await store.responses.find_items(owner, set(wanted.values()) - found.keys())
    resolved: list[Raw | Item] = list(given)
    for place, name in wanted.items():
        if name not in found:
            raise ItemNotFoundError(f"{path}[{place}]", name)
        resolved[place] = found[name]
    return resolved


# Checks that what a continued turn answers was asked.
#
# A client that sends the whole history may have cut off the call that an output belongs to; then
# the
# core tells the output as text (rule 10 of its pairing). With `previous_response_id` we hold the
# history ourselves: an output whose call is not in it is a mistake, and OpenAI refuses it with the
# same sentence. Nothing is known of what was summed up.


_CALL_ID: Final = b'"call_id"'
_OUTPUT: Final = "_output"
_SUMMARY: Final = b'"compaction"'
# So much of a name is repeated to whoever said it.
_SHOWN: Final = 100


class CallNotFound(OpenAIMessageError):
    """An output answers a call that nobody made."""

    status = 400
    code = "tool_call_not_found"

    def __init__(self, kind: str, call_id: str) -> None:
        words = kind.replace("_", " ")
        why = f"No tool call found for {words} with call_id {call_id[:_SHOWN]}."
        super().__init__("input", why)


class _Paired(Struct):
    type: str = ""
    call_id: str | None = None


_PAIRED: Final = msgspec.json.Decoder(_Paired)


def check_outputs_have_calls(history: Iterable[Item], given: Iterable[Item]) -> None:
    """Raise `CallNotFound` for an output among the new items that belongs to no call."""
    given = list(given)
    outputs = [one for one in _paired(given) if one.type.endswith(_OUTPUT)]
    if not outputs:
        return
    before = [*history, *given]
    if any(_SUMMARY in bytes(item.body) for item in before):
        return
    made = {one.call_id for one in _paired(before) if not one.type.endswith(_OUTPUT)}
    for output in outputs:
        if output.call_id is not None and output.call_id not in made:
            raise CallNotFound(output.type, output.call_id)


def _paired(items: Iterable[Item]) -> list[_Paired]:
    """Read the items that name a call."""
    return [_read(item.body) for item in items if _CALL_ID in bytes(item.body)]


def _read(body: Raw) -> _Paired:
    try:
        return _PAIRED.decode(body)
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return _Paired()


# Reads a stored response as clients are shown it, and what its input was.


_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


async def find_turn(store: Store, owner: str, response_id: str) -> StoredTurn:
    """Find a response; raise `ResponseNotFound` if this owner has none of that name."""
    turn = await store.responses.load(owner, response_id)
    if turn is None:
        raise ResponseNotFoundError(response_id)
    return turn


def response_body(turn: StoredTurn) -> bytes:
    """Write the object of a response; its items, which are kept apart, are put back."""
    if not turn.output:
        return bytes(turn.response.body)
    output = {"output": [item.body for item in turn.output]}
    return _ENCODER.encode(_OBJECT.decode(turn.response.body) | output)


async def input_of(store: Store, owner: str, response_id: str) -> tuple[Item, ...]:
    """Give all that a response was made from, the oldest first: what it continues comes with it."""
    turn = await find_turn(store, owner, response_id)
    return (*await _before(store, owner, turn), *turn.input)


async def _before(store: Store, owner: str, turn: StoredTurn) -> tuple[Item, ...]:
    response = turn.response
    if response.parent is not None:
        steps = await store.responses.load_chain(owner, response.id) or ()
        return tuple(await whole_chain(store, owner, steps[:-1])) if steps else ()
    if response.conversation is not None:
        # Where it was deleted since, what the response itself brought is still there.
        return await store.conversations.list_items_before(
            owner, response.conversation, response.id
        )
    return ()
