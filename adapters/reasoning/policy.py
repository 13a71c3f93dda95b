"""How reasoning travels in one exchange: who carries it, and where it goes in and out.

| client    | backend   | the reasoning of the backend                                           |
|-----------|-----------|------------------------------------------------------------------------|
| Responses | Chat      | is sealed into the reasoning items if the client asks for that; if     |
|           |           | not, the gateway stores what cannot be shown                           |
| Chat      | Responses | is sealed onto the call that it leads to; the gateway stores it, too   |
| any       | the same  | passes as it is; what was sealed for another backend is removed        |

Without a sealer nothing of this happens.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.dialect import Dialect
from adapters.ids import short_call_id
from adapters.ir.normalize import is_assistant_item, split_paths
from adapters.ir.types import (
    ExtraField,
    Extras,
    Family,
    Item,
    Message,
    OpaqueItem,
    Reasoning,
    Request,
    ToolCall,
)
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses, Severity
from adapters.reasoning.capture import (
    CallReasoningAttacher,
    CallReasoningRecorder,
    ReasoningCapture,
    ReasoningItemSealer,
)
from adapters.reasoning.sealed import (
    EXTRA_CONTENT,
    INCLUDE_ENCRYPTED_REASONING,
    ReasoningPayload,
    Sealer,
    call_fingerprint,
    open_sealed,
    split_sealed_extra,
)

_STRINGS = msgspec.json.Decoder(list[str])
_INCLUDE_FIELD = "include"


class ReasoningPolicy:
    """What happens to the reasoning of one exchange."""

    def __init__(
        self,
        sealer: Sealer | None,
        client: Dialect,
        backend: Dialect,
        capabilities: Capabilities,
    ) -> None:
        self._sealer = sealer
        self._client = client
        self._backend = backend
        self._accepts_unencrypted = capabilities.reasoning_items != "encrypted"
        crosses = sealer is not None and client.reasoning != backend.reasoning
        # Whether the client can carry sealed reasoning in its items, if it asks for that.
        self._has_carrier = crosses and client.reasoning == "items"
        # Whether reasoning goes with calls; without call ids it could not be found again.
        self._attaches = crosses and backend.reasoning == "items" and client.has_call_ids
        # Whether the gateway may have stored reasoning for the client.
        self.may_have_stored = crosses and client.has_call_ids

    # The request

    def storage_keys(self, request: Request) -> tuple[str, ...]:
        """Return the keys of the calls for which the gateway may have stored reasoning."""
        if self._carries(request):
            return ()
        by_id = self._backend.reasoning == "items"
        return tuple(
            item.call_id if by_id else call_fingerprint(item)
            for item in request.items
            if isinstance(item, ToolCall)
        )

    def restore(
        self, request: Request, stored: Mapping[str, str], losses: Losses
    ) -> tuple[Request, bool]:
        """Return a request with the reasoning that its client carried or the gateway stored.

        The flag says whether the backend is asked for encrypted reasoning although the client did
        not ask for it.
        """
        if self._sealer is None:
            return request, False
        if stored or any(map(_may_carry, request.items)):
            native = self._backend.reasoning == "items"
            restorer = ReasoningRestorer(self._sealer, losses, native=native)
            request = restorer.restore(request, stored)
        if self._carries(request):
            # The gateway does what the client asks for; the backend need not.
            return _change_include(
                request, self._client.family, remove=INCLUDE_ENCRYPTED_REASONING
            ), False
        # This holds even if the backend stores its reply, because the next request of a Chat
        # client does not name it.
        if not self._attaches or self._accepts_unencrypted:
            return request, False
        return _change_include(request, self._backend.family, add=INCLUDE_ENCRYPTED_REASONING), True

    def strip(self, body: bytes) -> bytes:
        """Return the body of a request that passes unchanged, without what was sealed here."""
        return body if self._sealer is None else strip_sealed(body, self._sealer.prefix)

    # The reply

    def capture_stage(self, request: Request) -> ReasoningCapture | None:
        """Return the stage that captures the reasoning of the reply, if any does."""
        if self._sealer is None:
            return None
        if self._attaches:
            return CallReasoningAttacher(
                self._sealer, self._client.family, accepts_unencrypted=self._accepts_unencrypted
            )
        if not self._has_carrier:
            return None
        carries = self._carries(request)
        return ReasoningItemSealer(self._sealer) if carries else CallReasoningRecorder(self._sealer)

    def _carries(self, request: Request) -> bool:
        """Whether the client asks to carry reasoning itself."""
        return self._has_carrier and INCLUDE_ENCRYPTED_REASONING in _included(
            request, self._client.family
        )


def _may_carry(item: Item) -> bool:
    """Whether an item may carry sealed reasoning."""
    match item:
        case ToolCall():
            return bool(item.extras)
        case Reasoning():
            return item.encrypted is not None
        case _:
            return False


def _included(request: Request, family: Family) -> list[str]:
    raw = request.find_extra(family, _INCLUDE_FIELD)
    return [] if raw is None else _STRINGS.decode(raw)


def _change_include(
    request: Request, family: Family, *, add: str | None = None, remove: str | None = None
) -> Request:
    """Return a request that asks for one thing more or less in `include`."""
    included = _included(request, family)
    values = [value for value in included if value != remove]
    if add is not None:
        values.append(add)
    others = tuple(extra for extra in request.extras if extra.name != _INCLUDE_FIELD)
    if not values:
        return replace(request, extras=others)
    # A client that did not ask for anything need not know that the backend has no place for it.
    severity: Severity | None = "hint" if included else None
    include = ExtraField(family, _INCLUDE_FIELD, Raw(msgspec.json.encode(values)), severity)
    return replace(request, extras=(include, *others))


# Requests that pass unchanged, but for what was sealed for another backend

NOT_FOR_THIS = "reasoning that was sealed for another backend is removed"

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()

# The field in which a Responses client carries sealed reasoning.
_ENCRYPTED = "encrypted_content"


def strip_sealed(body: bytes, prefix: str) -> bytes:
    """Return a body without sealed values, which begin with the prefix, where clients carry them.

    The very same object is returned if there are none.
    """
    if prefix.encode() not in body:
        return body
    stripper = _Stripper(prefix.encode())
    try:
        stripped = stripper.strip(body)
    except DECODE_ERRORS:
        # The backend will say what is wrong with the body.
        return body
    return stripped if stripped and stripper.found else body


class _Stripper:
    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._quoted = b'"' + prefix
        # Whether there was a sealed value: a text may contain the prefix, too.
        self.found = False

    def strip(self, raw: bytes) -> bytes | None:
        """Return a value without sealed values; None if the value itself must go."""
        if self._prefix not in raw:
            return raw
        start = raw.lstrip()[:1]
        if start == b"{":
            return self._strip_object(raw)
        return self._strip_list(raw) if start == b"[" else raw

    def _strip_list(self, raw: bytes) -> bytes:
        stripped = (self.strip(bytes(element)) for element in _LIST.decode(raw))
        return _ENCODER.encode([Raw(element) for element in stripped if element is not None])

    def _strip_object(self, raw: bytes) -> bytes | None:
        remaining: dict[str, Raw] = {}
        for name, inner in _OBJECT.decode(raw).items():
            value = bytes(inner)
            if name == _ENCRYPTED and value.startswith(self._quoted):
                # The gateway made the item, and so its id.
                self.found = True
                return None
            is_carrier = name == EXTRA_CONTENT and self._prefix in value
            stripped = self._strip_carrier(value) if is_carrier else self.strip(value)
            if stripped is not None:
                remaining[name] = Raw(stripped)
        return _ENCODER.encode(remaining)

    def _strip_carrier(self, raw: bytes) -> bytes | None:
        """Return the field without sealed values; others may use it too."""
        self.found = True
        remaining = {
            name: value
            for name, value in _OBJECT.decode(raw).items()
            if self._prefix not in bytes(value)
        }
        return _ENCODER.encode(remaining) if remaining else None


# Restoring what comes back with a request

# An item with its path in the client's body.
PlacedItem = tuple[Item, str]

_FOREIGN = "encrypted_content was created by another server and cannot be decrypted"
_NOT_OURS = "cannot be decrypted: sealed by another gateway, for another backend, or modified"


class ReasoningRestorer:
    """Restores the sealed reasoning of one request."""

    def __init__(self, sealer: Sealer, losses: Losses, *, native: bool) -> None:
        self._sealer = sealer
        self._losses = losses
        # Whether the backend encrypts reasoning itself: what was not sealed here is its own.
        self._native = native
        # What goes back with the calls of the current turn, by short call id.
        self._extras: dict[str, Extras] = {}

    def restore(self, request: Request, stored: Mapping[str, str]) -> Request:
        """Return the request with everything that can be opened or was stored by the gateway."""
        restored: list[PlacedItem] = []
        for _, turn in groupby(request.items_with_paths(), _is_of_turn):
            self._restore_turn(turn, stored, restored)
        items, paths = split_paths(restored)
        return replace(request, items=items, paths=paths)

    def _restore_turn(
        self, turn: Iterable[PlacedItem], stored: Mapping[str, str], restored: list[PlacedItem]
    ) -> None:
        """Restore one turn of the model; the next turn may use the same call ids again."""
        self._extras = {}
        # Open everything first: what came late in a stream stands after its call.
        opened = [one for item, path in turn for one in self._open_item(item, path)]
        for item, path in opened:
            if isinstance(item, ToolCall):
                self._restore_call(item, path, stored, restored)
            else:
                restored.append((item, path))
        self._attach_leftovers(restored)

    def _attach_leftovers(self, restored: list[PlacedItem]) -> None:
        """Put what is left on the call before it: a client may put the output between the two."""
        for place in reversed(range(len(restored) if self._extras else 0)):
            item, path = restored[place]
            if isinstance(item, Message):
                return
            if isinstance(item, ToolCall) and not item.extras:
                extras = self._extras.pop(short_call_id(item.call_id), ())
                restored[place] = (replace(item, extras=extras), path)

    # On reasoning items

    def _open_item(self, item: Item, path: str) -> Iterator[PlacedItem]:
        if not isinstance(item, Reasoning) or item.encrypted is None:
            yield item, path
            return
        sealed_here = item.encrypted.startswith(self._sealer.prefix)
        if self._native and not sealed_here:
            yield item, path
            return
        opened = open_sealed(item.encrypted, self._sealer)
        if opened is not None:
            self._extras |= opened.calls
            for reasoning in opened.reasoning:
                yield reasoning, path
            return
        # The visible reasoning is not from this backend either.
        self._losses.dropped(path, _NOT_OURS if sealed_here else _FOREIGN)

    # On calls

    def _restore_call(
        self, call: ToolCall, path: str, stored: Mapping[str, str], restored: list[PlacedItem]
    ) -> None:
        text, extras = split_sealed_extra(call)
        opened = self._open_call(text, call, path, stored)
        if opened is not None:
            self._extras = opened.calls | self._extras
            if opened.reasoning:
                _insert_reasoning(opened, path, restored)
        extras += self._extras.pop(short_call_id(call.call_id), ())
        restored.append((call if extras == call.extras else replace(call, extras=extras), path))

    def _open_call(
        self, text: str | None, call: ToolCall, path: str, stored: Mapping[str, str]
    ) -> ReasoningPayload | None:
        """Return what the call carries, or else what was stored for it."""
        opened = None if text is None else open_sealed(text, self._sealer)
        if opened is not None:
            return opened
        key = call.call_id if self._native else call_fingerprint(call)
        if key in stored and short_call_id(call.call_id) not in self._extras:
            opened = open_sealed(stored[key], self._sealer)
        if opened is None and text is not None:
            self._losses.dropped(f"{path}.extra_content", _NOT_OURS)
        return opened


def _is_of_turn(placed: PlacedItem) -> bool:
    """Whether an item can stand within a turn of the model."""
    item, _ = placed
    return isinstance(item, OpaqueItem) or is_assistant_item(item)


def _insert_reasoning(opened: ReasoningPayload, path: str, restored: list[PlacedItem]) -> None:
    """Replace the reasoning that the client was shown with the original, in its original place."""
    start = len(restored)
    while start and is_assistant_item(restored[start - 1][0]):
        start -= 1
    turn = [placed for placed in restored[start:] if not _is_visible_reasoning(placed[0])]
    del restored[start:]
    place = len(turn)
    if opened.before_text and turn and isinstance(turn[-1][0], Message):
        place -= 1
    turn[place:place] = [(reasoning, path) for reasoning in opened.reasoning]
    restored += turn


def _is_visible_reasoning(item: Item) -> bool:
    return isinstance(item, Reasoning) and item.encrypted is None
