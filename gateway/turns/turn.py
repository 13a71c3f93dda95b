"""What a request asks of the memory, and what was found there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError, RequestBody
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import NULL, JsonObject, is_present
from gateway.http.create_request import ParsedRequest
from gateway.store import Item


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its reply in a stored chain, before there is a reply."""

    owner: str
    # The request for the backend: history before the input, no reference to it.
    request: ParsedRequest
    store: bool
    background: bool
    stream: bool
    response_id: str
    created: int
    # The response that the client continues, and that response if it is in the store.
    previous: str | None
    parent: str | None
    conversation: str | None
    # The new items in their stored form, and those before them.
    input: tuple[Item, ...]
    history: tuple[Item, ...]
    # Fields of the response object that the gateway decides.
    overrides: dict[str, object]

    @property
    def model(self) -> str:
        """The model that the client names, or that of the response that it continues."""
        return self.request.model

    @property
    def stored_input(self) -> tuple[Item, ...]:
        """The items stored with this turn: the history too if there is nothing to link to."""
        linked = self.parent is not None or self.conversation is not None
        return self.input if linked else (*self.history, *self.input)


class UnstoredResponses(Protocol):
    """What a connection remembers of answers that are not stored."""

    def find(self, response_id: str) -> tuple[Item, ...] | None:
        """Give the whole history up to a response, that one included."""
        ...

    def remember(self, turn: Turn, response: Mapping[str, object]) -> None:
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


_FALSE: Final = b"false"
# An item of this type stands for another, which only the store knows.
_COMPACTION: Final = b'"compaction"'


def is_stateless(body: RequestBody) -> bool:
    """Whether a request neither is to be stored nor refers to anything stored."""
    fields = body.fields
    given = fields.get("input", NULL)
    background = fields.get("background", NULL)
    return (
        bytes(fields.get("store", NULL)) == _FALSE
        and not is_present(fields.get("previous_response_id", NULL))
        and not is_present(fields.get("conversation", NULL))
        and (not is_present(background) or bytes(background) == _FALSE)
        and b'"item_reference"' not in bytes(given)
        and _COMPACTION not in bytes(given)
        and not has_bare_reference(given)
    )


class StateFields(Struct, frozen=True):
    """The fields of a request that concern the store."""

    input: str | list[Raw]
    store: bool
    background: bool
    stream: bool
    previous: str | None
    conversation: str | None
    # Whether an item may stand for another: such an item has an id.
    may_refer: bool


# A backend gets none of these: the gateway fulfils them.
_STATE_FIELDS: Final = frozenset(
    ("background", "conversation", "input", "previous_response_id", "store")
)


def read_state_fields(body: RequestBody) -> StateFields:
    """Read the fields that concern the store; raise `InvalidRequestError` if they are invalid."""
    fields = body.reader()
    given = fields.text_or_raws("input")
    store, background = fields.boolean("store"), bool(fields.boolean("background"))
    previous, conversation = fields.string("previous_response_id"), _conversation(fields)
    if previous is not None and conversation is not None:
        why = "it cannot be given together with `conversation`"
        raise InvalidRequestError("previous_response_id", why)
    if background and store is False:
        raise InvalidRequestError("background", "what runs in the background has to be stored")
    return StateFields(
        input=[] if given is None else given,
        store=store is not False,
        background=background,
        stream=bool(fields.boolean("stream")),
        previous=previous,
        conversation=conversation,
        may_refer=_SIGN in bytes(body.fields.get("input", NULL)),
    )


def without_state_fields(body: RequestBody, state: StateFields) -> dict[str, Raw]:
    """Return the fields of a request that a backend gets."""
    fields = {name: raw for name, raw in body.fields.items() if name not in _STATE_FIELDS}
    return fields if state.store else fields | {"store": Raw(_FALSE)}


def _conversation(fields: JsonObject) -> str | None:
    given = fields.text_or_fields("conversation")
    if given is None or isinstance(given, str):
        return given
    name = given.string("id")
    if name is None:
        raise InvalidRequestError("conversation.id", "it is missing")
    return name
