"""What a request asks of the memory, and what was found there."""

import re
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, JsonObject, is_present, read_body
from gateway.store import Item

_PLACE: Final = re.compile(r"input\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, before it is answered."""

    owner: str
    model: str
    # For the backend: the history stands before the input, and nothing refers to it any more.
    body: bytes
    store: bool
    background: bool
    stream: bool
    response_id: str
    created: int
    # What the client says that it continues, and that response if it is in the store.
    previous: str | None
    parent: str | None
    conversation: str | None
    # The new items, as they are kept, and those that stand before them.
    input: tuple[Item, ...]
    history: tuple[Item, ...]
    # What the response says of itself, whatever the backend says.
    stamp: dict[str, object]

    @property
    def kept_input(self) -> tuple[Item, ...]:
        """Give the items that are kept with this turn: with nothing to link to, the history too."""
        linked = self.parent is not None or self.conversation is not None
        return self.input if linked else (*self.history, *self.input)

    def client_path(self, path: str) -> str:
        """Name a place of the body as the client knows it, who did not write the history."""
        return _PLACE.sub(self._placed, path) if self.history else path

    def _placed(self, found: re.Match[str]) -> str:
        place = int(found[1]) - len(self.history)
        return f"input[{place}]" if place >= 0 else f"history[{int(found[1])}]"


class UnstoredResponses(Protocol):
    """What a connection remembers of answers that are not stored."""

    def find(self, response_id: str) -> tuple[Item, ...] | None:
        """Give the whole history up to a response, that one included."""
        ...

    def remember(self, plan: Turn, response: Raw) -> None:
        """Remember an answer."""
        ...


# Items of a request that only refer to others, which the memory knows.


REFERENCE: Final = "item_reference"
_ID: Final = "id"
_TYPE: Final = "type"
# Those that are longer say something themselves, and need not be looked into.
_LONGEST: Final = 1024
_SIGN: Final = b'"id"'
# How an object ends that is just an id. Clients that carry a whole conversation send hundreds of
# items, and mostly none of those: to look into each would cost more than to read the request.
_BARE: Final = re.compile(rb'"id"\s*:\s*"[^"]*"\s*(?:,\s*"type"\s*:\s*null\s*)?\}')


class _Reference(Struct):
    id: str
    type: str | None = None


_READ: Final = msgspec.json.Decoder(_Reference)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: Final = msgspec.json.Decoder(list[Raw])


def read_reference(raw: Raw) -> str | None:
    """Give the id that an item refers to; None if it says anything itself.

    The SDK leaves the type out, and the specification lets it be null: then it is just an id.
    """
    spelled = bytes(raw)
    if _SIGN not in spelled or len(spelled) > _LONGEST:
        return None
    try:
        seen = _READ.decode(raw)
        said = {name for name, value in _OBJECT.decode(raw).items() if is_present(value)}
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return None
    refers = seen.type == REFERENCE if _TYPE in said else said == {_ID}
    return seen.id if refers else None


def has_bare_reference(given: Raw) -> bool:
    """Tell whether an item of an input is just an id."""
    if _BARE.search(bytes(given)) is None:
        return False
    try:
        items = _ITEMS.decode(given)
    except DECODE_ERRORS:
        return False
    return any(read_reference(item) is not None for item in items)


# Reads of a Responses request what concerns the memory; the rest of it is skipped over.


class _Body(Struct):
    store: Raw = MISSING
    previous_response_id: Raw = MISSING
    conversation: Raw = MISSING
    background: Raw = MISSING
    input: Raw = MISSING


_BODY = msgspec.json.Decoder(_Body)
_FALSE = b"false"
_STATE_FIELDS_ID = b'"id"'
# Items of these kinds stand for others, which only the memory knows.
_REFERENCE = b'"item_reference"'
_COMPACTION = b'"compaction"'


def is_stateless(body: bytes) -> bool:
    """Tell whether a request neither wants to be kept nor stands on anything that was."""
    try:
        seen = _BODY.decode(body)
    except DECODE_ERRORS:
        # Whoever reads it next says what is wrong.
        return False
    return (
        bytes(seen.store) == _FALSE
        and not is_present(seen.previous_response_id)
        and not is_present(seen.conversation)
        and (not is_present(seen.background) or bytes(seen.background) == _FALSE)
        and _REFERENCE not in body
        and _COMPACTION not in body
        and not has_bare_reference(seen.input)
    )


class StateFields(Struct, frozen=True):
    """What a request asks of the memory."""

    # What else it says, as it was spelled.
    rest: JsonObject
    input: str | list[Raw]
    store: bool
    background: bool
    stream: bool
    previous: str | None
    conversation: str | None
    model: str | None
    # Whether a backend may see it as it is.
    plain: bool
    # Whether an item may stand for another: such a one has an id, if nothing else.
    may_refer: bool

    def spelled(self, given: str | list[Raw], model: str | None) -> bytes:
        """Give the request again with another input, and with nothing that asks for memory."""
        changes: dict[str, object] = {"input": given}
        if model is not None:
            changes["model"] = model
        if self.stream:
            changes["stream"] = True
        if not self.store:
            changes["store"] = False
        return self.rest.encode_with(**changes)


def read_asking(body: bytes) -> StateFields:
    """Read it; raise `InvalidInput` where something is not what it should be."""
    fields = read_body(body)
    given = fields.text_or_raws("input")
    store, background = fields.boolean("store"), bool(fields.boolean("background"))
    previous, conversation = fields.string("previous_response_id"), _conversation(fields)
    if previous is not None and conversation is not None:
        why = "it cannot be given together with `conversation`"
        raise InvalidRequestError("previous_response_id", why)
    if background and store is False:
        raise InvalidRequestError("background", "what runs in the background has to be stored")
    return StateFields(
        rest=fields,
        input=[] if given is None else given,
        store=store is not False,
        background=background,
        stream=bool(fields.boolean("stream")),
        previous=previous,
        conversation=conversation,
        model=fields.string("model"),
        plain=not (previous or conversation or background or store),
        may_refer=_STATE_FIELDS_ID in body,
    )


def _conversation(fields: JsonObject) -> str | None:
    given = fields.text_or_fields("conversation")
    if given is None or isinstance(given, str):
        return given
    name = given.string("id")
    if name is None:
        raise InvalidRequestError("conversation.id", "it is missing")
    return name
