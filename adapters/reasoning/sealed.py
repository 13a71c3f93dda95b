"""What a backend expects back with a turn, sealed so that a client can carry it.

The core has no cryptography: the gateway provides a `Sealer` that is bound to one backend. What a
client sends back is opened only for the backend that it came from: another one would reject it.
"""

from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.ids import short_call_id, stable_hash
from adapters.ir.types import ExtraField, Extras, Family, Reasoning, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import Json, parse

# What a client puts in `include` to carry reasoning itself.
INCLUDE_ENCRYPTED_REASONING = "reasoning.encrypted_content"

# Where a Chat client carries it: in a field of the call that some clients send back, in an object
# under our name.
EXTRA_CONTENT = "extra_content"
_OWNER = "dragoman"


class Sealer(Protocol):
    """Seals what one backend sent, and opens what was sealed for it."""

    @property
    def prefix(self) -> str:
        """The beginning of every sealed text, whichever backend it is for."""
        ...

    def seal(self, payload: bytes) -> str:
        """Return a payload as a sealed text."""
        ...

    def open(self, text: str) -> bytes | None:
        """Return the payload; None if it was not sealed here for this backend, or was changed."""
        ...


class ReasoningPayload(Struct, frozen=True, omit_defaults=True, rename={"reasoning": "thoughts"}):
    """The reasoning before a call or a message, and what else goes back with calls.

    Clients hold this in sealed form: the encoding must stay readable.
    """

    reasoning: tuple[Reasoning, ...] = ()
    # By short call id.
    calls: dict[str, Extras] = {}
    # Whether the reasoning stands before the text of the turn, and not right before the call.
    before_text: bool = False

    def seal(self, sealer: Sealer) -> str:
        """Return it as a sealed text."""
        return sealer.seal(_ENCODER.encode(self))


class _SealedText(Struct, frozen=True):
    sealed: str


class _Carrier(Struct, frozen=True):
    """The field of a call in which a Chat client carries sealed reasoning."""

    dragoman: _SealedText


_ENCODER = msgspec.json.Encoder()
_SORTED_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(ReasoningPayload)
_CARRIER_DECODER = msgspec.json.Decoder(_Carrier)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def open_sealed(text: str, sealer: Sealer) -> ReasoningPayload | None:
    """Return what was sealed; None if it cannot be opened."""
    payload = sealer.open(text) if text.startswith(sealer.prefix) else None
    try:
        return None if payload is None else _DECODER.decode(payload)
    except DECODE_ERRORS:
        # Another version may have sealed it.
        return None


def call_fingerprint(call: ToolCall) -> str:
    """Return a key made of the id, name and arguments of a call.

    The id alone will not do: some backends use the same ids in every turn, see
    https://github.com/vllm-project/vllm/issues/50295.
    """
    return stable_hash(short_call_id(call.call_id), call.name, _normalized_arguments(call))


def _normalized_arguments(call: ToolCall) -> str:
    """Return the arguments of a call: as they are, or in one spelling.

    The calls of built-in tools are objects that every client spells in its own way, some of them
    with empty fields.
    """
    if call.kind in ("function", "custom"):
        return call.arguments
    try:
        arguments = parse(call.arguments.encode("utf-8", "replace"))
    except InvalidRequestError:
        return call.arguments
    if isinstance(arguments, dict):
        # The action of a local shell has only one type.
        arguments = {name: value for name, value in arguments.items() if name != "type"}
    return _SORTED_ENCODER.encode(_without_empty(arguments)).decode()


def _without_empty(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_empty(element) for element in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _without_empty(inner) for name, inner in value.items()}
    return {name: inner for name, inner in fields.items() if inner not in (None, {}, [])}


def extra_content_field(text: str, family: Family) -> ExtraField:
    """Return the field in which a Chat client carries a sealed text; it is never a loss."""
    value = Raw(_ENCODER.encode({_OWNER: {"sealed": text}}))
    return ExtraField(family, EXTRA_CONTENT, value, None)


def split_sealed_extra(call: ToolCall) -> tuple[str | None, Extras]:
    """Return the sealed text that a call carries, and its other extras.

    Others use the same field: what they put there stays, whatever it looks like.
    """
    for extra in call.extras:
        if extra.name == EXTRA_CONTENT and _OWNER.encode() in bytes(extra.value):
            return _pop(extra, call.extras)
    return None, call.extras


def _pop(extra: ExtraField, extras: Extras) -> tuple[str | None, Extras]:
    try:
        text = _CARRIER_DECODER.decode(extra.value).dragoman.sealed
        fields = _OBJECT.decode(extra.value)
    except DECODE_ERRORS:
        return None, extras
    del fields[_OWNER]
    others = tuple(other for other in extras if other is not extra)
    if not fields:
        return text, others
    return text, (*others, msgspec.structs.replace(extra, value=Raw(_ENCODER.encode(fields))))
