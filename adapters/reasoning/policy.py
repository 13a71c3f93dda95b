"""The reasoning of one exchange: capturing it from the reply and restoring it in the next request.

| client    | backend   | the reasoning of the backend                                           |
|-----------|-----------|------------------------------------------------------------------------|
| Responses | Chat      | is sealed in the reasoning items if the client requests that;          |
|           |           | otherwise the gateway stores it with the next call                     |
| Chat      | Responses | is sealed in the next call and also stored by the gateway              |
| Chat      | Chat      | is unchanged, and stored for clients that do not send it back          |
| legacy    | any       | is stored with the next call                                           |
| any       | the same  | is unchanged; reasoning that was sealed for another backend is removed |

Without a sealer, reasoning is neither sealed nor stored.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.dialect import DEFAULT_REPLY_OPTIONS, Dialect, ReplyOptions
from adapters.errors import DragomanError
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
from adapters.reasoning.call_keys import CallKeys, KeysByCall
from adapters.reasoning.capture import (
    CallReasoningAttacher,
    CallReasoningRecorder,
    ItemReasoningRecorder,
    ReasoningCapture,
    ReasoningItemSealer,
)
from adapters.reasoning.passed import PassedCall, put_back
from adapters.reasoning.sealed import (
    EXTRA_CONTENT,
    ReasoningPayload,
    Sealer,
    open_sealed,
    split_sealed_extra,
)
from adapters.wire.json_object import RequestBody

_STRINGS_DECODER = msgspec.json.Decoder(list[str])
_INCLUDE_FIELD = "include"
# The value of `include` with which a client requests encrypted reasoning.
_ENCRYPTED = "reasoning.encrypted_content"
# The fields with which a client requests a summary, of which the second is the older one, and their
# values for none.
_SUMMARY_FIELDS = ("reasoning.summary", "reasoning.generate_summary")
_NO_SUMMARY = (b"null", b'"none"', b'""')


class ReasoningPolicy:
    """Decides how the reasoning of one exchange is captured and restored."""

    def __init__(
        self,
        sealer: Sealer | None,
        client: Dialect,
        backend: Dialect,
        capabilities: Capabilities,
        reply_options: ReplyOptions = DEFAULT_REPLY_OPTIONS,
    ) -> None:
        self._sealer = sealer
        self._client = client
        self._backend = backend
        self._accepts_unencrypted = capabilities.reasoning_items != "encrypted"
        # Whether earlier reasoning is sent to the backend in a field of its messages.
        self._replays_reasoning = capabilities.reasoning_replay != "never"
        crosses = sealer is not None and client.reasoning != backend.reasoning
        # Whether reasoning before calls is stored by the gateway, unless the client carries it.
        self._records = sealer is not None and backend.reasoning == "message_field"
        # Whether the reply's reasoning is sent as items, which only the gateway writes, and when
        # their text is sent.
        self._writes_items = client.reasoning == "items" != backend.reasoning
        self._summary_option = reply_options.reasoning_summary
        # Whether the client can carry sealed reasoning in its items, if it requests that.
        self._carries_items = crosses and client.reasoning == "items"
        # Whether reasoning items are kept with calls: attached to calls with ids, otherwise stored.
        self._keeps_items = crosses and backend.reasoning == "items"
        # Whether the gateway may have stored reasoning for the client.
        self.may_have_stored = self._records or crosses
        # The keys of the calls in the request, and those of the calls in its reply.
        self._context = CallKeys(
            by_id=backend.reasoning == "items" and client.has_call_ids,
            has_ids=client.has_call_ids,
        )
        self._keys: KeysByCall = {}
        # The calls of a request that is forwarded unchanged.
        self._passed: tuple[RequestBody, list[PassedCall]] | None = None
        # Whether the client receives the reasoning in the same form, so that it may return it.
        self._may_return = self._records and client.reasoning == backend.reasoning

    # The request

    def storage_keys(self, request: Request) -> tuple[str, ...]:
        """Return the keys of the calls for which the gateway may have stored reasoning."""
        if self._requests_encrypted(request):
            return ()
        self._keys = self._context.read(request.items)
        calls = self._calls_without_reasoning(request.items)
        return tuple(key for call in calls for key in self._keys[id(call)])

    def _calls_without_reasoning(self, items: Iterable[Item]) -> Iterator[ToolCall]:
        """Yield the calls of turns whose reasoning the client does not return."""
        returned = False
        for item in items:
            if not is_assistant_item(item):
                returned = False
            elif self._may_return and _has_reasoning(item):
                returned = True
            elif isinstance(item, ToolCall) and not returned:
                yield item

    def restore(
        self, request: Request, stored: Mapping[str, str], losses: Losses
    ) -> tuple[Request, bool]:
        """Return a request with the reasoning that its client carried or the gateway stored.

        The flag is true if encrypted reasoning is requested although the client did not do so.
        """
        if self._client.reasoning == "message_field" and self._client is not self._backend:
            request = _without_fields(request)
        if self._sealer is None:
            return request, False
        if stored or any(map(_may_carry, request.items)):
            native = self._backend.reasoning == "items"
            restorer = ReasoningRestorer(
                self._sealer, losses, native=native, keys=self._keys or None
            )
            request = restorer.restore(request, stored)
        if self._requests_encrypted(request):
            # The gateway itself seals the reasoning, so the backend does not need to encrypt it.
            return _with_include(request, self._client.family, encrypted=False), False
        # Required even if the backend stores its reply: the next request of a Chat client does not
        # refer to that reply.
        if not self._keeps_items or self._accepts_unencrypted:
            return request, False
        return _with_include(request, self._backend.family, encrypted=True), True

    def passed_keys(self, body: RequestBody) -> tuple[str, ...]:
        """Return the storage keys of a request that is forwarded unchanged."""
        return tuple(key for _, _, keys in self._passed_calls(body) for key in keys)

    def put_back(self, body: RequestBody, stored: Mapping[str, str]) -> RequestBody:
        """Return a request that is forwarded unchanged except for its stored reasoning."""
        write = self._backend.write_reasoning
        if self._sealer is None or write is None or not stored:
            return body
        return put_back(body, self._passed_calls(body), stored, self._sealer, write)

    def _passed_calls(self, body: RequestBody) -> list[PassedCall]:
        """Return the calls of turns whose reasoning the client does not return."""
        if not self._may_return:
            return []
        if self._passed is not None and self._passed[0] is body:
            return self._passed[1]
        try:
            request = self._client.read_request(body, Losses(None))
        except DragomanError:
            # The backend reports what is invalid.
            return []
        keys = self._context.read(request.items)
        paths = dict(zip(map(id, request.items), request.paths, strict=True))
        calls = self._calls_without_reasoning(request.items)
        found = [(call, paths[id(call)], keys[id(call)]) for call in calls]
        self._passed = body, found
        return found

    def strip(self, body: bytes) -> bytes:
        """Return the body of a passthrough request without sealed values."""
        return body if self._sealer is None else strip_sealed(body, self._sealer.prefix)

    # The reply

    def capture_stage(self, request: Request) -> ReasoningCapture | None:
        """Return the stage that captures the reasoning of the reply; None if it is not captured."""
        if self._sealer is None:
            return None
        if self._keeps_items:
            capture = CallReasoningAttacher if self._client.has_call_ids else ItemReasoningRecorder
            return capture(
                self._sealer,
                self._client.family,
                self._context,
                accepts_unencrypted=self._accepts_unencrypted,
            )
        if self._requests_encrypted(request) or self.hides_text(request):
            # Without its text, reasoning can only come back sealed.
            return ReasoningItemSealer(self._sealer)
        if not self._records:
            return None
        return CallReasoningRecorder(
            self._sealer, self._context, replays_reasoning=self._replays_reasoning
        )

    def hides_text(self, request: Request) -> bool:
        """Whether the client receives reasoning without its text."""
        hides_all = self._summary_option == "requested"
        if not self._writes_items or not (hides_all or request.effort is not None):
            return False
        if self._summary_option == "always":
            return False
        family = self._client.family
        given = (request.find_extra(family, name) for name in _SUMMARY_FIELDS)
        return not any(raw is not None and bytes(raw) not in _NO_SUMMARY for raw in given)

    def _requests_encrypted(self, request: Request) -> bool:
        """Whether the client requests encrypted reasoning."""
        return self._carries_items and _ENCRYPTED in _included(request, self._client.family)


def _has_reasoning(item: Item) -> bool:
    """Whether a client returned reasoning: as an item, or in the extra fields of a call."""
    return isinstance(item, Reasoning) or (isinstance(item, ToolCall) and bool(item.extras))


def _without_fields(request: Request) -> Request:
    """Return a request whose reasoning is not sent in the fields in which its client sent it.

    A client of another dialect may have got its reasoning from another backend.
    """
    if Reasoning not in map(type, request.items):
        return request
    items = (
        replace(item, field=None) if isinstance(item, Reasoning) else item for item in request.items
    )
    return replace(request, items=tuple(items))


def _may_carry(item: Item) -> bool:
    """Whether an item may carry sealed reasoning."""
    if isinstance(item, ToolCall):
        return bool(item.extras)
    return isinstance(item, Reasoning) and item.encrypted is not None


def _included(request: Request, family: Family) -> list[str]:
    raw = request.find_extra(family, _INCLUDE_FIELD)
    return [] if raw is None else _STRINGS_DECODER.decode(raw)


def _with_include(request: Request, family: Family, *, encrypted: bool) -> Request:
    """Return a request that does or does not request encrypted reasoning."""
    included = _included(request, family)
    values = [value for value in included if value != _ENCRYPTED]
    if encrypted:
        values.append(_ENCRYPTED)
    others = tuple(extra for extra in request.extras if extra.name != _INCLUDE_FIELD)
    if not values:
        return replace(request, extras=others)
    # Not reported as a loss if the client did not set `include`.
    severity: Severity | None = "hint" if included else None
    include = ExtraField(family, _INCLUDE_FIELD, Raw(msgspec.json.encode(values)), severity)
    return replace(request, extras=(include, *others))


# Removing sealed values from passthrough requests

REMOVED_REASONING_REASON = "reasoning that was sealed for another backend is removed"

_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])
_LIST_DECODER = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()


def strip_sealed(body: bytes, prefix: str) -> bytes:
    """Return a body without the sealed values in its items and calls, which begin with `prefix`.

    Return the same object if there are none.
    """
    if prefix.encode() not in body:
        return body
    stripper = _Stripper(prefix.encode())
    try:
        stripped = stripper.strip(body)
    except DECODE_ERRORS:
        # The backend reports what is invalid.
        return body
    return stripped if stripped and stripper.found else body


class _Stripper:
    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._quoted = b'"' + prefix
        # Whether a sealed value was found: the prefix may also occur in a text.
        self.found = False

    def strip(self, raw: bytes) -> bytes | None:
        """Return JSON without sealed values; None if all of it must be removed."""
        if self._prefix not in raw:
            return raw
        start = raw.lstrip()[:1]
        if start == b"{":
            return self._strip_object(raw)
        return self._strip_list(raw) if start == b"[" else raw

    def _strip_list(self, raw: bytes) -> bytes:
        stripped = (self.strip(bytes(element)) for element in _LIST_DECODER.decode(raw))
        return _ENCODER.encode([Raw(element) for element in stripped if element is not None])

    def _strip_object(self, raw: bytes) -> bytes | None:
        remaining: dict[str, Raw] = {}
        for name, inner in _OBJECT_DECODER.decode(raw).items():
            value = bytes(inner)
            if name == "encrypted_content" and value.startswith(self._quoted):
                # Remove the whole item: the backend does not know its id, either.
                self.found = True
                return None
            is_extra_content = name == EXTRA_CONTENT and self._prefix in value
            stripped = self._strip_extra_content(value) if is_extra_content else self.strip(value)
            if stripped is not None:
                remaining[name] = Raw(stripped)
        return _ENCODER.encode(remaining)

    def _strip_extra_content(self, raw: bytes) -> bytes | None:
        """Return the field without sealed values; other software may also use it."""
        self.found = True
        remaining = {
            name: value
            for name, value in _OBJECT_DECODER.decode(raw).items()
            if self._prefix not in bytes(value)
        }
        return _ENCODER.encode(remaining) if remaining else None


# Restoring the reasoning of earlier turns in a request

ItemWithPath = tuple[Item, str]

_FOREIGN = "encrypted_content was created by another server and cannot be decrypted"
_UNREADABLE = "cannot be decrypted: sealed by another gateway, for another backend, or modified"


class ReasoningRestorer:
    """Restores the sealed reasoning of one request."""

    def __init__(
        self, sealer: Sealer, losses: Losses, *, native: bool, keys: KeysByCall | None = None
    ) -> None:
        self._sealer = sealer
        self._losses = losses
        # The keys of calls under which their reasoning may be stored.
        self._keys = keys
        # Whether the backend encrypts reasoning itself, so reasoning not sealed here is its own.
        self._native = native
        # The unsealed extra fields of calls in the current turn, by short call id.
        self._extras: dict[str, Extras] = {}

    def restore(self, request: Request, stored: Mapping[str, str]) -> Request:
        """Return the request with all reasoning that can be unsealed or is in `stored`."""
        if self._keys is None:
            self._keys = CallKeys(by_id=self._native).read(request.items) if stored else {}
        restored: list[ItemWithPath] = []
        for _, turn in groupby(request.items_with_paths(), _belongs_to_turn):
            self._restore_turn(turn, stored, restored)
        items, paths = split_paths(restored)
        return replace(request, items=items, paths=paths)

    def _restore_turn(
        self, turn: Iterable[ItemWithPath], stored: Mapping[str, str], restored: list[ItemWithPath]
    ) -> None:
        """Restore one turn of the model; the next turn may use the same call ids again."""
        self._extras = {}
        # Unseal all items first: in a stream, an item may have been added after its call.
        opened = [one for item, path in turn for one in self._open_item(item, path)]
        for item, path in opened:
            if isinstance(item, ToolCall):
                self._restore_call(item, path, stored, restored)
            else:
                restored.append((item, path))
        self._attach_remaining_extras(restored)

    def _attach_remaining_extras(self, restored: list[ItemWithPath]) -> None:
        """Add the remaining extra fields to earlier calls, also if an output is in between."""
        for place in reversed(range(len(restored) if self._extras else 0)):
            item, path = restored[place]
            if isinstance(item, Message):
                return
            if isinstance(item, ToolCall) and not item.extras:
                extras = self._extras.pop(short_call_id(item.call_id), ())
                restored[place] = (replace(item, extras=extras), path)

    # Reasoning items

    def _open_item(self, item: Item, path: str) -> Iterator[ItemWithPath]:
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
        # Remove the visible reasoning too: it is not from this backend either.
        self._losses.dropped(path, _UNREADABLE if sealed_here else _FOREIGN)

    # Calls

    def _restore_call(
        self, call: ToolCall, path: str, stored: Mapping[str, str], restored: list[ItemWithPath]
    ) -> None:
        text, extras = split_sealed_extra(call)
        opened = self._open_call(text, call, path, stored)
        if opened is not None:
            self._extras = opened.calls | self._extras
            if opened.reasoning:
                _replace_reasoning(opened, path, restored)
        extras += self._extras.pop(short_call_id(call.call_id), ()) or self._extras.pop("", ())
        restored.append((call if extras == call.extras else replace(call, extras=extras), path))

    def _open_call(
        self, text: str | None, call: ToolCall, path: str, stored: Mapping[str, str]
    ) -> ReasoningPayload | None:
        """Return the payload that the call carries, or else the one stored for it."""
        opened = None if text is None else open_sealed(text, self._sealer)
        if opened is not None:
            return opened
        keys = (self._keys or {}).get(id(call), ())
        found = next((stored[key] for key in keys if key in stored), None)
        if found is not None and short_call_id(call.call_id) not in self._extras:
            opened = open_sealed(found, self._sealer)
        if opened is None and text is not None:
            self._losses.dropped(f"{path}.extra_content", _UNREADABLE)
        return opened


def _belongs_to_turn(item_with_path: ItemWithPath) -> bool:
    """Whether an item may belong to a turn of the model."""
    item, _ = item_with_path
    return isinstance(item, OpaqueItem) or is_assistant_item(item)


def _replace_reasoning(opened: ReasoningPayload, path: str, restored: list[ItemWithPath]) -> None:
    """Replace the visible reasoning of a turn with the original, at its original position."""
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
