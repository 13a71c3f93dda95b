"""The stages that capture the reasoning of a reply for the next request.

- `ReasoningItemSealer` seals the reasoning of a Chat backend in the reasoning items of the reply.
- `CallReasoningAttacher` attaches the sealed reasoning of a Responses backend to the next call.
- `ItemReasoningRecorder` seals the reasoning of a Responses backend for a client without call ids.
- `CallReasoningRecorder` seals the reasoning of a Chat backend before calls. It leaves the reply
  unchanged.

The last three collect the sealed texts in `sealed_by_call`, for the gateway to store.
"""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from adapters.ids import short_call_id
from adapters.ir.accumulator import ItemBuffer
from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.types import Extras, Item, Message, Reasoning, Reply, ToolCall
from adapters.reasoning.call_keys import CallKeys
from adapters.reasoning.sealed import (
    ReasoningPayload,
    Sealer,
    extra_content_field,
)
from adapters.stages.stage import Stage


class ReasoningCapture(Stage):
    """Base class of the stages that capture reasoning."""

    def __init__(self, sealer: Sealer) -> None:
        super().__init__()
        self._sealer = sealer
        # Sealed texts for the gateway to store, by call id or call fingerprint.
        self.sealed_by_call: dict[str, str] = {}

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has reasoning, or calls with extra fields."""
        return any(
            isinstance(item, Reasoning) or (isinstance(item, ToolCall) and bool(item.extras))
            for choice in reply.choices
            for item in choice.items
        )


class _ItemCollector:
    """Forwards the deltas of a block; when the block closes, emits the events of `on_close`."""

    def __init__(self, opened: Opened, on_close: Callable[[Item, Closed], list[Event]]) -> None:
        self._buffer = ItemBuffer(opened)
        self._on_close = on_close

    def feed(self, delta: Delta) -> list[Event]:
        """Collect and forward a delta."""
        self._buffer.add(delta)
        return [delta]

    def close(self, closed: Closed) -> list[Event]:
        """Call `on_close` with the complete item."""
        self._buffer.closed = closed
        return self._on_close(self._buffer.item(), closed)


class ReasoningItemSealer(ReasoningCapture):
    """A stage that seals the reasoning of a Chat backend for a Responses client.

    The sealed text of a reasoning item also contains the extra fields of a call right after it,
    such as a thought signature. If there is no such item, one without visible content is added, as
    OpenAI's own models often send it. In a stream, these fields may arrive only when the call
    closes; the item is then added after the call.
    """

    def __init__(self, sealer: Sealer) -> None:
        super().__init__(sealer)
        # The choice, item and `Closed` event of the last closed reasoning. The event is held back,
        # because the extra fields of a call directly after it are sealed with it.
        self._held_back: tuple[int, Reasoning, Closed] | None = None
        self._open_calls: dict[BlockId, tuple[Opened, ToolCall]] = {}

    def _open(self, event: Opened) -> list[Event]:
        match event.item:
            case ToolCall() as call:
                return self._open_call(event, call)
            case Reasoning() as reasoning:
                closing_events = self._release()
                hold_back = partial(self._hold_back, event.choice)
                self._processors[event.index] = _ItemCollector(event, hold_back)
                return [*closing_events, replace(event, item=replace(reasoning, extras=()))]
            case _:
                return [*self._release(), event]

    def _hold_back(self, choice: int, item: Item, closed: Closed) -> list[Event]:
        if isinstance(item, Reasoning):
            self._held_back = choice, item, closed
        return []

    def _open_call(self, event: Opened, call: ToolCall) -> list[Event]:
        self._open_calls[event.index] = event, call
        if not _required_extras(call):
            return [*self._release(), event]
        if self._held_back is not None and self._held_back[0] == event.choice:
            before = self._release(call)
        else:
            before = [*self._release(), *self._add_reasoning(event, call, "before")]
        return [*before, replace(event, item=replace(call, extras=()))]

    def _close(self, event: Closed) -> list[Event]:
        closing_events = self._release()
        if event.index not in self._open_calls:
            return [*closing_events, *super()._close(event)]
        opened, call = self._open_calls.pop(event.index)
        call = replace(call, extras=event.extras)
        after = self._add_reasoning(opened, call, "after") if _required_extras(call) else []
        return [*closing_events, replace(event, extras=()), *after]

    def _finish(self, event: Finished) -> list[Event]:
        return [*self._release(), event]

    def _fail(self, event: Failed) -> list[Event]:
        return [*self._release(), event]

    def _release(self, call: ToolCall | None = None) -> list[Event]:
        """Return the held-back event, with the reasoning and the extra fields of `call` sealed."""
        if self._held_back is None:
            return []
        (_, reasoning, closed), self._held_back = self._held_back, None
        return [Closed(closed.index, closed.status, self._seal(reasoning, call))]

    def _add_reasoning(self, opened: Opened, call: ToolCall, place: str) -> list[Event]:
        """Return a reasoning item without visible content that holds the extra fields of a call."""
        block = f"{opened.index}.{place}"
        return [
            Opened(block, Reasoning(), opened.choice),
            Closed(block, encrypted=self._seal(Reasoning(), call)),
        ]

    def _seal(self, reasoning: Reasoning, call: ToolCall | None) -> str:
        has_content = reasoning.content or reasoning.summary or reasoning.extras
        payload = ReasoningPayload(
            (replace(reasoning, item_id=None, status=None, path=""),) if has_content else (),
            {} if call is None else {short_call_id(call.call_id): _required_extras(call)},
        )
        return payload.seal(self._sealer)


def _required_extras(call: ToolCall) -> Extras:
    """Return the extra fields that the backend requires with the call in later requests."""
    return tuple(extra for extra in call.extras if extra.severity is not None)


class CallReasoningAttacher(ReasoningCapture):
    """A stage that seals the reasoning of a Responses backend for a Chat client.

    Chat has no field for it, so it is attached to the next call: in a field of the call that some
    clients send back, and under the id of the call for the gateway to store. Without its reasoning,
    a model starts over at every step of a loop. Reasoning without a later call is not needed again.
    """

    def __init__(
        self,
        sealer: Sealer,
        family: str,
        keys: CallKeys | None = None,
        *,
        accepts_unencrypted: bool,
    ) -> None:
        super().__init__(sealer)
        # Makes the keys of the calls after the conversation so far.
        self._keys = keys or CallKeys(by_id=True)
        # The family of dialects that has the field.
        self._family = family
        # Whether the backend accepts reasoning items that it did not encrypt.
        self._accepts_unencrypted = accepts_unencrypted
        # The reasoning since the last call, and whether a message followed it.
        self._pending: list[Reasoning] = []
        self._before_text = False

    def _open(self, event: Opened) -> list[Event]:
        match event.item:
            case Reasoning():
                self._processors[event.index] = _ItemCollector(event, self._end_reasoning)
            case ToolCall() as call:
                key, *_ = self._keys.keys(call)
                if self._pending:
                    return [replace(event, item=self._attach(call, key))]
            case Message():
                self._before_text = bool(self._pending)
            case _:
                pass
        return [event]

    def _end_reasoning(self, item: Item, closed: Closed) -> list[Event]:
        match item:
            case Reasoning(encrypted=str()):
                # Keep the item id: the backend rejects encrypted content under another id.
                self._pending.append(replace(item, status=None, path=""))
            case Reasoning() if self._accepts_unencrypted and (item.content or item.summary):
                # Remove the item id: only a backend that stores replies knows it.
                self._pending.append(replace(item, status=None, item_id=None, path=""))
            case _:
                pass
        return [replace(closed, encrypted=None)]

    def _attach(self, call: ToolCall, key: str) -> ToolCall:
        sealed = self.sealed_by_call[key] = self._take_payload().seal(self._sealer)
        return replace(call, extras=(*call.extras, extra_content_field(sealed, self._family)))

    def _take_payload(self) -> ReasoningPayload:
        """Return the reasoning since the last call."""
        payload = ReasoningPayload(tuple(self._pending), before_text=self._before_text)
        self._pending, self._before_text = [], False
        return payload


class ItemReasoningRecorder(CallReasoningAttacher):
    """A stage that seals the reasoning of a Responses backend for a client without call ids.

    The gateway stores it with the next call, whose arguments identify it.
    """

    def _open(self, event: Opened) -> list[Event]:
        if not isinstance(event.item, ToolCall):
            return super()._open(event)
        payload = self._take_payload() if self._pending else None
        self._processors[event.index] = _ItemCollector(event, partial(self._record, payload))
        return [event]

    def _record(self, payload: ReasoningPayload | None, item: Item, closed: Closed) -> list[Event]:
        if isinstance(item, ToolCall):
            # Calls without reasoning count, too.
            key, *_ = self._keys.keys(item)
            if payload is not None:
                self.sealed_by_call[key] = payload.seal(self._sealer)
        return [closed]


class CallReasoningRecorder(ReasoningCapture):
    """A stage that seals the reasoning of a Chat backend for a client that may not carry it.

    A client may return the text of the reasoning, but not in the field in which the backend sent
    it. Lists of reasoning details and thought signatures do not fit into a summary. The gateway
    stores them with the calls that they led to. They are still reported as losses, because the
    gateway stores them for a limited time.
    """

    def __init__(
        self, sealer: Sealer, keys: CallKeys | None = None, *, replays_reasoning: bool = True
    ) -> None:
        super().__init__(sealer)
        # Makes the keys of the calls after the conversation so far.
        self._keys = keys or CallKeys()
        # Whether the backend accepts reasoning in later requests, not only the fields of calls.
        self._replays_reasoning = replays_reasoning
        # The reasoning since the last call.
        self._pending: list[Reasoning] = []

    def _open(self, event: Opened) -> list[Event]:
        item = event.item
        # Other calls are not buffered. Extra fields that arrive when such a call closes are
        # reported as losses, not stored.
        if isinstance(item, Reasoning) or (
            isinstance(item, ToolCall) and (item.extras or self._pending or self._processors)
        ):
            self._processors[event.index] = _ItemCollector(event, self._record)
        return [event]

    def _record(self, item: Item, closed: Closed) -> list[Event]:
        match item:
            case Reasoning() if self._replays_reasoning and (item.content or item.extras):
                self._pending.append(replace(item, item_id=None, status=None))
            case ToolCall():
                key, *_ = self._keys.keys(item)
                if not (self._pending or item.extras):
                    return [closed]
                calls = {self._keys.id_of(item): item.extras} if item.extras else {}
                sealed = ReasoningPayload(tuple(self._pending), calls).seal(self._sealer)
                self.sealed_by_call[key] = sealed
                self._pending = []
            case _:
                pass
        return [closed]
