"""Seals what a Chat backend thought, for a Responses client that carries it itself.

Each reasoning item gets its own seal. What the backend put on a call, such as the signature of a
thought, travels with the reasoning right before the call; if there is none, one is put there with
nothing to show, as OpenAI's own often have. In a stream it may come too late for that: then such a
reasoning follows the call.
"""

from msgspec.structs import replace

from adapters.ids import short_call_id
from adapters.ir.accumulator import ItemBuffer
from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.types import Choice, Extras, Item, Reasoning, Reply, ToolCall
from adapters.reasoning.sealed import SealedReasoning, Sealer


class SealReasoning:
    """Puts seals on the reasoning of a reply, whole or streamed."""

    def __init__(self, seal: Sealer) -> None:
        self._seal = seal
        # How many blocks were told, and the new numbers of those that the reader opened.
        self._blocks = 0
        self._numbers: dict[int, int] = {}
        # Whether any of them got another number.
        self._moved = False
        # The reasoning that is open, and the one that ended just now: what follows may belong to
        # its seal.
        self._thoughts: dict[int, ItemBuffer] = {}
        self._ended: tuple[ItemBuffer, Closed] | None = None
        # The calls that are open.
        self._calls: dict[int, Opened] = {}

    @property
    def passes_deltas(self) -> bool:
        """Tell whether deltas need not be seen, until something else comes."""
        return not self._thoughts and not self._moved

    # Whole

    def reply(self, reply: Reply) -> Reply:
        """Seal the reasoning of a whole reply."""
        return replace(reply, choices=tuple(map(self._seal_choice, reply.choices)))

    def _seal_choice(self, choice: Choice) -> Choice:
        items: list[Item] = []
        for number, item in enumerate(choice.items):
            match item:
                case Reasoning():
                    items.append(self._sealed(item, choice.items[number + 1 : number + 2]))
                case ToolCall() if _extras(item):
                    if not number or not isinstance(choice.items[number - 1], Reasoning):
                        items.append(self._sealed(Reasoning(status="completed"), (item,)))
                    items.append(_without_extras(item))
                case _:
                    items.append(item)
        return replace(choice, items=tuple(items))

    def _sealed(self, thought: Reasoning, followed_by: tuple[Item, ...]) -> Reasoning:
        """Give a reasoning with its seal, and without what is only in there."""
        calls = {
            short_call_id(item.call_id): _extras(item)
            for item in followed_by
            if isinstance(item, ToolCall) and _extras(item)
        }
        told = thought.content or thought.summary or thought.extras
        kept = SealedReasoning(
            (replace(thought, item_id=None, status=None),) if told else (), calls
        )
        return replace(thought, encrypted=kept.sealed(self._seal), extras=())

    # Streamed

    def feed(self, event: Event) -> list[Event]:
        """Pass an event on, blocks under their new numbers."""
        match event:
            case Delta():
                # The hot path: mostly there is nothing to do.
                return [self._fill(event) if self._thoughts or self._moved else event]
            case Opened(item=ToolCall() as call):
                return self._open_call(event, call)
            case Opened():
                return [*self._end(), self._open(event)]
            case Closed():
                return self._close(event)
            case Finished() | Failed():
                return [*self._end(), event]
            case _:
                return [event]

    def flush(self) -> list[Event]:
        """Give nothing more: the last event ended what was open."""
        return []

    def _open(self, event: Opened) -> Opened:
        number = self._numbers[event.index] = self._blocks
        self._blocks += 1
        if isinstance(event.item, Reasoning):
            self._thoughts[event.index] = ItemBuffer(event)
            event = replace(event, item=replace(event.item, extras=()))
        return replace(event, index=number)

    def _open_call(self, event: Opened, call: ToolCall) -> list[Event]:
        self._calls[event.index] = event
        if not _extras(call):
            return [*self._end(), self._open(event)]
        before = self._end(call) if self._ended is not None else self._carry(event, call)
        return [*before, self._open(replace(event, item=_without_extras(call)))]

    def _carry(self, event: Opened, call: ToolCall) -> list[Event]:
        """Tell a reasoning with nothing to show, for what comes with a call."""
        number = self._blocks
        self._blocks += 1
        self._moved = True
        sealed = self._sealed(Reasoning(), (call,))
        return [
            Opened(number, Reasoning(), event.choice),
            Closed(number, encrypted=sealed.encrypted),
        ]

    def _carry_late(self, event: Closed) -> list[Event]:
        """Tell what came with the end of a call."""
        opened = self._calls.pop(event.index, None)
        if opened is None or not isinstance(opened.item, ToolCall):
            return []
        call = replace(opened.item, extras=event.extras)
        return self._carry(opened, call) if _extras(call) else []

    def _fill(self, event: Delta) -> Delta:
        thought = self._thoughts.get(event.index)
        if thought is not None:
            thought.add(event)
        number = self._numbers[event.index]
        return event if number == event.index else replace(event, index=number)

    def _close(self, event: Closed) -> list[Event]:
        ended = self._end()
        thought = self._thoughts.pop(event.index, None)
        if thought is None:
            closed = replace(event, index=self._numbers[event.index], extras=())
            return [*ended, closed, *self._carry_late(event)]
        thought.close(event)
        self._ended = (thought, event)
        return ended

    def _end(self, *followed_by: Item) -> list[Event]:
        """Tell the end of the reasoning that ended last."""
        if self._ended is None:
            return []
        (thought, event), self._ended = self._ended, None
        item = thought.item()
        if not isinstance(item, Reasoning):
            raise TypeError("only reasoning waits for its end")
        encrypted = self._sealed(item, followed_by).encrypted
        return [Closed(self._numbers[event.index], event.status, encrypted)]


def _extras(call: ToolCall) -> Extras:
    """Give what a backend wants to see again with a call."""
    return tuple(extra for extra in call.extras if extra.severity is not None)


def _without_extras(call: ToolCall) -> ToolCall:
    return replace(call, extras=())
