"""The stages that capture the reasoning of a reply for the next request.

- `ReasoningItemSealer` seals the reasoning of a Chat backend into the reasoning items of the reply.
- `CallReasoningAttacher` seals the reasoning of a Responses backend onto the calls that follow it.
- `CallReasoningRecorder` seals what a Chat backend expects back with a call, and changes nothing.

What the last two seal is also collected in `reasoning`, for the gateway to store.
"""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.ids import short_call_id
from adapters.ir.accumulator import ItemBuffer
from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.types import Extras, Item, Message, Reasoning, Reply, ToolCall
from adapters.reasoning.sealed import (
    ReasoningPayload,
    Sealer,
    call_fingerprint,
    extra_content_field,
)
from adapters.stages.stage import Stage


class ReasoningCapture(Stage):
    """What the three stages have in common."""

    def __init__(self, sealer: Sealer) -> None:
        super().__init__()
        self._sealer = sealer
        # What the gateway is to store, sealed, by the keys of the calls.
        self.sealed_by_call: dict[str, str] = {}

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has reasoning, or calls with something that is expected back."""
        return any(
            isinstance(item, Reasoning) or (isinstance(item, ToolCall) and bool(item.extras))
            for choice in reply.choices
            for item in choice.items
        )


class _ItemCollector:
    """A handler that passes a block on, and hands the complete item over at its end."""

    def __init__(self, opened: Opened, end: Callable[[Item, Closed], list[Event]]) -> None:
        self._buffer = ItemBuffer(opened)
        self._end = end

    def feed(self, delta: Delta) -> list[Event]:
        """Collect a delta."""
        self._buffer.add(delta)
        return [delta]

    def close(self, closed: Closed) -> list[Event]:
        """Hand the item over."""
        self._buffer.closed = closed
        return self._end(self._buffer.item(), closed)


class ReasoningItemSealer(ReasoningCapture):
    """A stage that seals the reasoning of a Chat backend for a Responses client.

    Each reasoning item carries its own sealed text. What the backend put on a call, such as a
    thought signature, travels in the reasoning item right before the call. If there is none, one
    without visible content is added, as OpenAI's own models often send it. In a stream this may
    come with the end of the call; then the added item follows the call.
    """

    def __init__(self, sealer: Sealer) -> None:
        super().__init__(sealer)
        # The reasoning that was closed last: its end waits, because a call that follows at once
        # adds to what is sealed.
        self._waiting: tuple[Opened, Reasoning, Closed] | None = None
        # The calls that are open.
        self._calls: dict[BlockId, tuple[Opened, ToolCall]] = {}

    def _open(self, event: Opened) -> list[Event]:
        match event.item:
            case ToolCall() as call:
                return self._open_call(event, call)
            case Reasoning() as reasoning:
                end = self._end_reasoning()
                self._collect(event)
                return [*end, replace(event, item=replace(reasoning, extras=()))]
            case _:
                return [*self._end_reasoning(), event]

    def _collect(self, opened: Opened) -> None:
        def end(item: Item, closed: Closed) -> list[Event]:
            if isinstance(item, Reasoning):
                self._waiting = (opened, item, closed)
            return []

        self._processors[opened.index] = _ItemCollector(opened, end)

    def _open_call(self, event: Opened, call: ToolCall) -> list[Event]:
        self._calls[event.index] = event, call
        if not _required_extras(call):
            return [*self._end_reasoning(), event]
        if self._waiting is not None and self._waiting[0].choice == event.choice:
            before = self._end_reasoning(call)
        else:
            before = [*self._end_reasoning(), *self._add_reasoning(event, call, "before")]
        return [*before, replace(event, item=replace(call, extras=()))]

    def _close(self, event: Closed) -> list[Event]:
        end = self._end_reasoning()
        if event.index not in self._calls:
            return [*end, *super()._close(event)]
        opened, call = self._calls.pop(event.index)
        call = replace(call, extras=event.extras)
        after = self._add_reasoning(opened, call, "after") if _required_extras(call) else []
        return [*end, replace(event, extras=()), *after]

    def _finish(self, event: Finished) -> list[Event]:
        return [*self._end_reasoning(), event]

    def _fail(self, event: Failed) -> list[Event]:
        return [*self._end_reasoning(), event]

    def _end_reasoning(self, call: ToolCall | None = None) -> list[Event]:
        """Return the end of the reasoning that was closed last, sealed with the call after it."""
        if self._waiting is None:
            return []
        (_, reasoning, closed), self._waiting = self._waiting, None
        return [Closed(closed.index, closed.status, self._seal(reasoning, call))]

    def _add_reasoning(self, opened: Opened, call: ToolCall, place: str) -> list[Event]:
        """Return a reasoning item without visible content, for what comes with a call."""
        block = f"{opened.index}.{place}"
        return [
            Opened(block, Reasoning(), opened.choice),
            Closed(block, encrypted=self._seal(Reasoning(), call)),
        ]

    def _seal(self, reasoning: Reasoning, call: ToolCall | None) -> str:
        has_content = reasoning.content or reasoning.summary or reasoning.extras
        sealed = ReasoningPayload(
            (replace(reasoning, item_id=None, status=None),) if has_content else (),
            {} if call is None else {short_call_id(call.call_id): _required_extras(call)},
        )
        return sealed.seal(self._sealer)


def _required_extras(call: ToolCall) -> Extras:
    """Return what a backend expects back with a call."""
    return tuple(extra for extra in call.extras if extra.severity is not None)


class CallReasoningAttacher(ReasoningCapture):
    """A stage that seals the reasoning of a Responses backend for a Chat client.

    Chat has no place for it, so it goes with the first call that follows: in a field of the call
    that some clients send back, and under the id of the call for the gateway to store. Without it,
    a reasoning model starts over at every step of a loop. Reasoning that leads to no call is not
    needed again.
    """

    def __init__(self, sealer: Sealer, family: str, *, accepts_unencrypted: bool) -> None:
        super().__init__(sealer)
        # The family of dialects that has the field.
        self._family = family
        # Whether the backend accepts reasoning items that it did not seal.
        self._accepts_unencrypted = accepts_unencrypted
        # The reasoning since the last call, and whether a message followed it.
        self._pending: list[Reasoning] = []
        self._before_text = False

    def _open(self, event: Opened) -> list[Event]:
        match event.item:
            case Reasoning():
                self._processors[event.index] = _ItemCollector(event, self._end_reasoning)
            case ToolCall() as call if self._pending:
                return [replace(event, item=self._attach(call))]
            case Message():
                self._before_text = bool(self._pending)
            case _:
                pass
        return [event]

    def _end_reasoning(self, item: Item, closed: Closed) -> list[Event]:
        if isinstance(item, Reasoning):
            self._collect(item)
        return [replace(closed, encrypted=None)]

    def _collect(self, reasoning: Reasoning) -> None:
        if reasoning.encrypted is not None:
            # The backend rejects encrypted content under another id.
            self._pending.append(replace(reasoning, status=None))
        elif self._accepts_unencrypted and (reasoning.content or reasoning.summary):
            # Only a backend that stores replies knows the id of an item that is not encrypted.
            self._pending.append(replace(reasoning, status=None, item_id=None))

    def _attach(self, call: ToolCall) -> ToolCall:
        pending = ReasoningPayload(tuple(self._pending), before_text=self._before_text)
        self._pending, self._before_text = [], False
        sealed = self.sealed_by_call[call.call_id] = pending.seal(self._sealer)
        return replace(call, extras=(*call.extras, extra_content_field(sealed, self._family)))


class CallReasoningRecorder(ReasoningCapture):
    """A stage that seals what a Chat backend expects back, for a client that does not carry it.

    The text of the reasoning comes back in the summary that the client was shown. Lists of
    reasoning details and thought signatures cannot be shown, so the gateway stores them. They are
    reported as losses all the same, because the gateway stores them for a limited time.
    """

    def __init__(self, sealer: Sealer) -> None:
        super().__init__(sealer)
        # The reasoning since the last call.
        self._pending: list[Reasoning] = []

    def _open(self, event: Opened) -> list[Event]:
        match event.item:
            case Reasoning():
                self._processors[event.index] = _ItemCollector(event, self._record)
            case ToolCall() as call if call.extras or self._pending or self._processors:
                # The arguments of other calls need not be collected. What comes with the end of
                # one is reported and not stored.
                self._processors[event.index] = _ItemCollector(event, self._record)
            case _:
                pass
        return [event]

    def _record(self, item: Item, closed: Closed) -> list[Event]:
        match item:
            case Reasoning() if item.extras:
                self._pending.append(replace(item, status=None))
            case ToolCall() if self._pending or item.extras:
                calls = {short_call_id(item.call_id): item.extras} if item.extras else {}
                sealed = ReasoningPayload(tuple(self._pending), calls).seal(self._sealer)
                self.sealed_by_call[call_fingerprint(item)] = sealed
                self._pending = []
            case _:
                pass
        return [closed]
