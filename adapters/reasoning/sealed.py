"""Sealing of reasoning and call fields that a backend expects back in the next request.

Clients carry the sealed texts. The core has no cryptography: the gateway provides a `Sealer` that
is bound to one backend and opens only its texts, because other backends would reject the content.
"""

from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from adapters.errors import InvalidRequestError
from adapters.ids import short_call_id, stable_hash
from adapters.ir.types import ExtraField, Extras, Family, Reasoning, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.wire.json_object import Json, parse

# The field of a Chat call, returned by some clients, in which this key holds the sealed text.
EXTRA_CONTENT = "extra_content"
_EXTRA_CONTENT_KEY = "dragoman"


class Sealer(Protocol):
    """Seals data of one backend, and opens texts that were sealed for that backend."""

    @property
    def prefix(self) -> str:
        """The beginning of every sealed text; the same for all backends."""
        ...

    def seal(self, payload: bytes) -> str:
        """Return a payload as a sealed text."""
        ...

    def open(self, text: str) -> bytes | None:
        """Return the payload; None if it was not sealed here for this backend, or was changed."""
        ...


class ReasoningPayload(Struct, frozen=True, omit_defaults=True, rename={"reasoning": "thoughts"}):
    """The reasoning before a call or a message, and the extra fields of calls.

    Clients keep sealed values, so later versions must be able to decode this encoding.
    """

    reasoning: tuple[Reasoning, ...] = ()
    # The extra fields of calls by short call id; "" for a client that returns no ids.
    calls: dict[str, Extras] = {}
    # Whether the reasoning is before the text of the turn, not between the text and the call.
    before_text: bool = False

    def extras_of(self, call: ToolCall) -> Extras:
        """Return the extra fields of a call."""
        return self.calls.get(short_call_id(call.call_id), self.calls.get("", ()))

    def seal(self, sealer: Sealer) -> str:
        """Return the payload as a sealed text."""
        return sealer.seal(_ENCODER.encode(self))


class _SealedText(Struct, frozen=True):
    sealed: str


class _ExtraContent(Struct, frozen=True):
    dragoman: _SealedText


_ENCODER = msgspec.json.Encoder()
_SORTED_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(ReasoningPayload)
_EXTRA_CONTENT_DECODER = msgspec.json.Decoder(_ExtraContent)
_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])


def open_sealed(text: str, sealer: Sealer) -> ReasoningPayload | None:
    """Return the payload of a sealed text; None if it cannot be opened."""
    payload = sealer.open(text) if text.startswith(sealer.prefix) else None
    try:
        return None if payload is None else _DECODER.decode(payload)
    except DECODE_ERRORS:
        # The text may have been sealed by another version.
        return None


def call_fingerprint(call: ToolCall, call_id: str) -> str:
    """Return a key made of the id, name and arguments of a call.

    The id alone is not unique: some backends use the same ids in every turn, see
    https://github.com/vllm-project/vllm/issues/50295.
    """
    return stable_hash(call_id, call.name, _normalized_arguments(call))


def _normalized_arguments(call: ToolCall) -> str:
    """Return the arguments of a call: unchanged for functions and custom tools, else normalized.

    Clients serialize the calls of built-in tools differently, for example with empty fields.
    """
    if call.kind in ("function", "custom"):
        return call.arguments
    try:
        arguments = parse(call.arguments.encode("utf-8", "replace"))
    except InvalidRequestError:
        return call.arguments
    if isinstance(arguments, dict):
        # Ignore `type`: it is constant in the action of a local shell.
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
    """Return the field of a call with a sealed text; it is never reported as a loss."""
    value = Raw(_ENCODER.encode({_EXTRA_CONTENT_KEY: {"sealed": text}}))
    return ExtraField(family, EXTRA_CONTENT, value, None)


def split_sealed_extra(call: ToolCall) -> tuple[str | None, Extras]:
    """Return the sealed text of a call, and its other extra fields.

    Other software also uses `extra_content`; its content is kept unchanged.
    """
    fields_with_key = (
        extra
        for extra in call.extras
        if extra.name == EXTRA_CONTENT and _EXTRA_CONTENT_KEY.encode() in bytes(extra.value)
    )
    extra = next(fields_with_key, None)
    if extra is None:
        return None, call.extras
    try:
        text = _EXTRA_CONTENT_DECODER.decode(extra.value).dragoman.sealed
        fields = _OBJECT_DECODER.decode(extra.value)
    except DECODE_ERRORS:
        return None, call.extras
    del fields[_EXTRA_CONTENT_KEY]
    others = tuple(other for other in call.extras if other is not extra)
    if not fields:
        return text, others
    return text, (*others, msgspec.structs.replace(extra, value=Raw(_ENCODER.encode(fields))))
