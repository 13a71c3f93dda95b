"""How reasoning travels in one exchange: who carries it, and where it goes in and out.

| client    | backend   | what its backend thought                                               |
|-----------|-----------|------------------------------------------------------------------------|
| Responses | Chat      | is sealed into the reasoning items, if the client asks for that; else  |
|           |           | what cannot be shown is kept by whoever serves                         |
| Chat      | Responses | goes sealed with the call that it led to; whoever serves keeps it, too |
| any       | the same  | passes as it is; only what we sealed for another backend is taken out  |

Without a seal nothing of this happens.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.dialect import Dialect
from adapters.ir.types import ExtraField, Request, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses, Severity
from adapters.reasoning.capture import (
    AttachReasoningToCalls,
    RecordReasoningForCalls,
    SealReasoning,
)
from adapters.reasoning.restore import ReasoningRestorer
from adapters.reasoning.sealed import CARRIER, INCLUDE, Sealer, call_fingerprint

# Takes what we sealed out of a request that otherwise passes as it is.
#
# A client may go on with another backend in the middle of a conversation. What was sealed for the
# first is nothing to the second, which may refuse what it does not know (P081). All else keeps its
# spelling.


_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()
NOT_FOR_THIS = "what was sealed for another backend is left out"

# Where a Responses client carries it.
_ENCRYPTED = "encrypted_content"


def strip_sealed(body: bytes, prefix: str) -> bytes:
    """Give a body without what begins with the prefix, in the places where clients carry it."""
    stripping = _Stripping(prefix.encode())
    try:
        stripped = stripping.strip(body)
    except DECODE_ERRORS:
        # Its own server will say what is wrong with it.
        return body
    return stripped if stripped and stripping.found else body


class _Stripping:
    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._spelled = b'"' + prefix
        # Whether there was any: a text may tell of seals, too.
        self.found = False

    def strip(self, raw: bytes) -> bytes | None:
        """Give a value without seals; None if it is nothing without."""
        if self._prefix not in raw:
            return raw
        start = raw.lstrip()[:1]
        if start == b"{":
            return self._strip_object(raw)
        return self._strip_list(raw) if start == b"[" else raw

    def _strip_list(self, raw: bytes) -> bytes:
        stripped = (self.strip(bytes(one)) for one in _LIST.decode(raw))
        return _ENCODER.encode([Raw(one) for one in stripped if one is not None])

    def _strip_object(self, raw: bytes) -> bytes | None:
        kept: dict[str, Raw] = {}
        for name, inner in _OBJECT.decode(raw).items():
            value = bytes(inner)
            if name == _ENCRYPTED and value.startswith(self._spelled):
                # The item is ours, and so is its id.
                self.found = True
                return None
            carried = name == CARRIER and self._prefix in value
            stripped = self._strip_carried(value) if carried else self.strip(value)
            if stripped is not None:
                kept[name] = Raw(stripped)
        return _ENCODER.encode(kept)

    def _strip_carried(self, raw: bytes) -> bytes | None:
        """Leave what others put into the field."""
        self.found = True
        kept = {
            name: value
            for name, value in _OBJECT.decode(raw).items()
            if self._prefix not in bytes(value)
        }
        return _ENCODER.encode(kept) if kept else None


_WORDS = msgspec.json.Decoder(list[str])


class ReasoningPolicy:
    """What becomes of the reasoning of one exchange."""

    def __init__(
        self, seal: Sealer | None, client: Dialect, backend: Dialect, capabilities: Capabilities
    ) -> None:
        self._seal = seal
        self._native = backend.family == "responses"
        crosses = seal is not None and client.family != backend.family
        # The client carries it, if it wants to.
        self._seals = crosses and client.family == "responses"
        # The client does not know of it. One without ids could not be given it back.
        self._remembers = crosses and self._native and client.has_call_ids
        self._crosses = crosses and client.has_call_ids
        self._plain = capabilities.reasoning_items != "encrypted"
        # Whether the backend was asked to seal what it thinks, though the client did not ask.
        self.asked = False
        # What is to be kept of the answer for the next request, by the names of its calls.
        self.kept: dict[str, str] = {}

    # The request

    @property
    def remembers(self) -> bool:
        """Tell whether something may have been kept elsewhere for the client."""
        return self._crosses

    def storage_keys(self, request: Request) -> tuple[str, ...]:
        """Give the names of the calls under which it may have been kept."""
        if self._seals and wants_encrypted_reasoning(request):
            return ()
        calls = (item for item in request.items if isinstance(item, ToolCall))
        return tuple(call.call_id if self._native else call_fingerprint(call) for call in calls)

    def restore(self, request: Request, found: Mapping[str, str], losses: Losses) -> Request:
        """Give a request with what its client carried, or what was kept for it."""
        if self._seal is None:
            return request
        request = ReasoningRestorer(self._seal, losses, native=self._native).open(request, found)
        if self._seals and wants_encrypted_reasoning(request):
            return _without_include(request)
        # Even where the backend stores its answer: a Chat client's next request does not name it.
        self.asked = self._remembers and not self._plain
        return _with_include(request) if self.asked else request

    def strip(self, body: bytes) -> bytes:
        """Give a body that passes as it is, but for what we sealed."""
        seal = self._seal
        if seal is None or seal.prefix.encode() not in body:
            return body
        return strip_sealed(body, seal.prefix)

    # The answer

    def stages(
        self, asked: Request
    ) -> "list[SealReasoning | AttachReasoningToCalls | RecordReasoningForCalls]":
        """Give what stands before the writer; each takes whole replies too."""
        if self._seal is None:
            return []
        if self._remembers:
            return [AttachReasoningToCalls(self._seal, self.kept, plain=self._plain)]
        if not self._seals:
            return []
        asks = wants_encrypted_reasoning(asked)
        return [
            SealReasoning(self._seal) if asks else RecordReasoningForCalls(self._seal, self.kept)
        ]


def wants_encrypted_reasoning(request: Request) -> bool:
    """Tell whether a client wants to carry reasoning itself."""
    return INCLUDE in _included(request)


def _included(request: Request) -> list[str]:
    raw = request.find_extra("responses", "include")
    return [] if raw is None else _WORDS.decode(raw)


def _without_include(request: Request) -> Request:
    """Leave out the wish that is fulfilled here."""
    return _including(request, [word for word in _included(request) if word != INCLUDE])


def _with_include(request: Request) -> Request:
    return _including(request, [*_included(request), INCLUDE])


def _including(request: Request, words: list[str]) -> Request:
    others = tuple(extra for extra in request.extras if extra.name != "include")
    if not words:
        return replace(request, extras=others)
    # That a backend has no place for it is nothing to a client that never asked.
    severity: Severity | None = "hint" if _included(request) else None
    include = ExtraField("responses", "include", Raw(msgspec.json.encode(words)), severity)
    return replace(request, extras=(include, *others))
