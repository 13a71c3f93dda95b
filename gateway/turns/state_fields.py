"""Reads of a Responses request what concerns the memory; the rest of it is skipped over."""

import msgspec
from msgspec import Raw, Struct

from adapters import InvalidRequestError
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import MISSING, JsonObject, is_present, read_body
from gateway.turns.references import has_bare_reference


class _Body(Struct):
    store: Raw = MISSING
    previous_response_id: Raw = MISSING
    conversation: Raw = MISSING
    background: Raw = MISSING
    input: Raw = MISSING


_BODY = msgspec.json.Decoder(_Body)
_FALSE = b"false"
_ID = b'"id"'
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
        may_refer=_ID in body,
    )


def _conversation(fields: JsonObject) -> str | None:
    given = fields.text_or_fields("conversation")
    if given is None or isinstance(given, str):
        return given
    name = given.string("id")
    if name is None:
        raise InvalidRequestError("conversation.id", "it is missing")
    return name
