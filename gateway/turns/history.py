"""Load the items before a request: a chain of responses, a conversation, referenced items."""

from collections.abc import Iterable, Sequence
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
from gateway.store import RUNNING, ChainLink, Item, Page, Response, Store, StoredTurn
from gateway.turns.items import IMAGE_CALL
from gateway.turns.state_fields import StateFields, read_reference

_COMPACTION: Final = "compaction"
_OUTPUT_SUFFIX: Final = "_output"
# An error message contains at most this many characters of an id.
_MAX_SHOWN: Final = 100


class Settings(Struct, frozen=True, omit_defaults=True):
    """What is stored of a response besides its body and its items."""

    # The model of later turns.
    model: str = ""
    # The losses of the exchange, also those found in the stream, in the form of the header.
    losses: str = ""


class _ItemHead(Struct):
    type: str = ""
    call_id: str | None = None


_HEAD: Final = msgspec.json.Decoder(_ItemHead)
_SETTINGS: Final = msgspec.json.Decoder(Settings | None)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


class ToolCallNotFoundError(OpenAIMessageError, code="tool_call_not_found"):
    """A tool output belongs to no call of the history."""

    def __init__(self, kind: str, call_id: str) -> None:
        shown = f"{kind.replace('_', ' ')} with call_id {call_id[:_MAX_SHOWN]}"
        super().__init__("input", f"No tool call found for {shown}.")


class History(Struct, frozen=True):
    """The items before a request."""

    items: tuple[Item, ...] = ()
    # The continued response, if it is stored: then its items are not stored again.
    parent: str | None = None
    model: str | None = None


async def load_history(store: Store, owner: str, state: StateFields) -> History:
    """Load the items before the input of a request."""
    if state.previous_response_id is not None:
        return await _load_chain(store, owner, state.previous_response_id)
    if state.conversation is not None:
        listing = await store.conversations.list_items(owner, state.conversation, Page())
        if listing is None:
            raise ConversationNotFoundError(state.conversation)
        # Keep the items before a summary, which may not replace the user messages among them.
        return History(listing.data)
    return History()


async def _load_chain(store: Store, owner: str, response_id: str) -> History:
    chain = await store.responses.load_chain(owner, response_id)
    if chain is None:
        raise PreviousResponseNotFoundError(response_id)
    last = chain[-1]
    if last.status in RUNNING:
        raise PreviousResponseUnfinishedError(response_id, last.status)
    settings = read_settings(last)
    items = await _chain_items(store, owner, chain)
    return History(items, parent=response_id, model=settings.model or None)


async def _chain_items(store: Store, owner: str, chain: Sequence[ChainLink]) -> tuple[Item, ...]:
    """Return the items of a chain, after those of the conversation that it began in."""
    items: list[Item] = []
    first = chain[0]
    if first.conversation is not None:
        before = await store.conversations.list_items_before(owner, first.conversation, first.id)
        append_output(items, before)
    for link in chain:
        items += link.input
        append_output(items, link.output)
    return tuple(items)


def append_output(items: list[Item], output: tuple[Item, ...]) -> None:
    """Append the output of a response to `items`; a summary in it replaces all items before it."""
    for index in range(len(output) - 1, -1, -1):
        body = output[index].body
        if _COMPACTION.encode() in bytes(body) and _head(body).type == _COMPACTION:
            items[:] = output[index:]
            return
    items += output


async def resolve_item_references(
    store: Store, owner: str, items: list[Raw], history: tuple[Item, ...], path: str = "input"
) -> list[Raw | Item]:
    """Replace references by the stored items that they refer to.

    A generated image that is not stored stays as it is, because the backend may know it.
    """
    references = ((index, read_reference(raw)) for index, raw in enumerate(items))
    wanted = {index: item_id for index, item_id in references if item_id is not None}
    if not wanted:
        return list(items)
    known = {item.id: item for item in history}
    known |= await store.responses.find_items(owner, set(wanted.values()) - known.keys())
    resolved: list[Raw | Item] = list(items)
    for index, item_id in wanted.items():
        if item_id in known:
            resolved[index] = known[item_id]
        elif _head(items[index]).type != IMAGE_CALL:
            raise ItemNotFoundError(f"{path}[{index}]", item_id)
    return resolved


def check_outputs_have_calls(history: Iterable[Item], new: Sequence[Item]) -> None:
    """Raise `ToolCallNotFoundError` for a new tool output without a call in a stored history.

    OpenAI refuses such a request with the same message. In a history that the client sends, a call
    may be missing because the client shortened it; then the output is translated to text.
    """
    outputs = [head for head in _call_heads(new) if head.type.endswith(_OUTPUT_SUFFIX)]
    if not outputs:
        return
    items = [*history, *new]
    if any(b'"compaction"' in bytes(item.body) for item in items):
        # The summary may have replaced the call.
        return
    calls = {head.call_id for head in _call_heads(items) if not head.type.endswith(_OUTPUT_SUFFIX)}
    for output in outputs:
        if output.call_id is not None and output.call_id not in calls:
            raise ToolCallNotFoundError(output.type, output.call_id)


def _call_heads(items: Iterable[Item]) -> list[_ItemHead]:
    """Return the heads of calls and their outputs."""
    return [_head(item.body) for item in items if b'"call_id"' in bytes(item.body)]


def _head(body: Raw) -> _ItemHead:
    try:
        return _HEAD.decode(body)
    except DECODE_ERRORS:
        # The reader of the item reports the error.
        return _ItemHead()


async def load_turn(store: Store, owner: str, response_id: str) -> StoredTurn:
    """Load a response; raise `ResponseNotFoundError` if this owner has none with this id."""
    turn = await store.responses.load(owner, response_id)
    if turn is None:
        raise ResponseNotFoundError(response_id)
    return turn


def read_settings(response: Response | ChainLink) -> Settings:
    """Return the settings of a stored response."""
    return _SETTINGS.decode(response.settings) or Settings()


def response_body(turn: StoredTurn) -> bytes:
    """Return the object of a response with its output items, which are stored separately."""
    if not turn.output:
        return bytes(turn.response.body)
    output = {"output": [item.body for item in turn.output]}
    return _ENCODER.encode(_OBJECT.decode(turn.response.body) | output)


async def load_full_input(store: Store, owner: str, response_id: str) -> tuple[Item, ...]:
    """Load all items that a response was created from, the oldest first."""
    turn = await load_turn(store, owner, response_id)
    response = turn.response
    before: tuple[Item, ...] = ()
    if response.parent is not None:
        chain = await store.responses.load_chain(owner, response.id) or ()
        before = await _chain_items(store, owner, chain[:-1]) if chain else ()
    elif response.conversation is not None:
        # If the conversation was deleted, the response still has its own input.
        before = await store.conversations.list_items_before(
            owner, response.conversation, response.id
        )
    return (*before, *turn.input)
