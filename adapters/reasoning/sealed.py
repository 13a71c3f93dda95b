"""What a backend wants to see again with a turn, sealed so that a client can carry it.

The core has no cryptography: whoever serves hands in a `Seal`, bound to one backend. What a client
brings back is opened for the backend that it came from, and for no other (P081).
"""

from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.ids import short_call_id, stable_hash
from adapters.ir.types import ExtraField, Extras, Reasoning, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import Json, parse

# What a client asks for to carry reasoning itself.
INCLUDE = "reasoning.encrypted_content"

# Where a Chat client carries it: in a field of the call that some clients echo, under our name.
CARRIER = "extra_content"
_OWNER = "dragoman"


class Sealer(Protocol):
    """Seals what one backend said, and opens what was sealed for it."""

    @property
    def prefix(self) -> str:
        """Give what every sealed text begins with, whichever backend it is for."""
        ...

    def seal(self, payload: bytes) -> str:
        """Seal something."""
        ...

    def open(self, text: str) -> bytes | None:
        """Open something; None if it was not sealed here for this backend, or was changed."""
        ...


class SealedReasoning(Struct, frozen=True, omit_defaults=True):
    """What was thought before a call or a message, and what else comes back with calls."""

    thoughts: tuple[Reasoning, ...] = ()
    # By the ids of the calls.
    calls: dict[str, Extras] = {}
    # They stand before what was said, and not right before the call.
    before_text: bool = False

    def sealed(self, seal: Sealer) -> str:
        """Seal it."""
        return seal.seal(_ENCODER.encode(self))


class _Sealed(Struct, frozen=True):
    sealed: str


class _Carried(Struct, frozen=True):
    """What a Chat client carries, under our name."""

    dragoman: _Sealed


_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(SealedReasoning)
_CARRIED = msgspec.json.Decoder(_Carried)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def open_sealed(text: str, seal: Sealer) -> SealedReasoning | None:
    """Open it; None if that cannot be done."""
    payload = seal.open(text) if text.startswith(seal.prefix) else None
    try:
        return None if payload is None else _DECODER.decode(payload)
    except DECODE_ERRORS:
        # Of another version of ours, perhaps.
        return None


def call_fingerprint(call: ToolCall) -> str:
    """Name a call by all that it is: some backends give out the same ids again and again (P056)."""
    return stable_hash(short_call_id(call.call_id), call.name, _called_with(call))


def _called_with(call: ToolCall) -> str:
    """Give what a call is made with, as it was spelled; of fields, in one of their spellings.

    The calls of tools without a name are told in fields, which every client spells its own way, and
    some of which only say that there is nothing.
    """
    if call.kind in ("function", "custom"):
        return call.arguments
    try:
        said = parse(call.arguments.encode("utf-8", "replace"))
    except InvalidRequestError:
        return call.arguments
    if isinstance(said, dict):
        # There is only one type of action of a local shell.
        said = {name: value for name, value in said.items() if name != "type"}
    return _SORTED.encode(_something(said)).decode()


def _something(value: Json) -> Json:
    """Leave out fields in which nothing is said."""
    if isinstance(value, list):
        return [_something(one) for one in value]
    if not isinstance(value, dict):
        return value
    said = {name: _something(one) for name, one in value.items()}
    return {name: one for name, one in said.items() if one not in (None, {}, [])}


def extra_content_field(text: str) -> ExtraField:
    """Make the field in which a Chat client carries something sealed; nobody misses it."""
    value = Raw(_ENCODER.encode({_OWNER: {"sealed": text}}))
    return ExtraField("completions", CARRIER, value, None)


def pop_sealed_extra(call: ToolCall) -> tuple[str | None, Extras]:
    """Take out of a call what a Chat client carried; give it, and the other extras.

    The field is anybody's: what others put there stays, whatever it looks like.
    """
    for extra in call.extras:
        if extra.name == CARRIER and _OWNER.encode() in bytes(extra.value):
            return _take(extra, call.extras)
    return None, call.extras


def _take(extra: ExtraField, extras: Extras) -> tuple[str | None, Extras]:
    try:
        text = _CARRIED.decode(extra.value).dragoman.sealed
        fields = _OBJECT.decode(extra.value)
    except DECODE_ERRORS:
        return None, extras
    del fields[_OWNER]
    others = tuple(one for one in extras if one is not extra)
    if not fields:
        return text, others
    return text, (*others, msgspec.structs.replace(extra, value=Raw(_ENCODER.encode(fields))))
