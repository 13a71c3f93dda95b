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
from adapters.ir.types import Choice, Extras, Item, Message, Reasoning, Reply, ToolCall
from adapters.reasoning.sealed import SealedReasoning, Sealer, call_fingerprint, extra_content_field


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


# Keeps what a Responses backend thought before its calls, for a Chat client that has no place.
#
# It goes with the first call after it: sealed, in a field that some clients echo, and under the
# id of
# the call for whoever serves to keep. Without it, a model that reasons begins anew at every step
# of a
# loop (P078). What led to no call is not needed again.


class AttachReasoningToCalls:
    """Takes sealed reasoning out of a reply, whole or streamed, and puts it on the calls."""

    def __init__(self, seal: Sealer, kept: dict[str, str], *, plain: bool) -> None:
        self._seal = seal
        # By the ids of calls: what is to be kept.
        self._kept = kept
        # The backend takes back thoughts that it did not seal, too.
        self._plain = plain
        # The reasoning that is open, and what was thought since the last call.
        self._open: dict[int, ItemBuffer] = {}
        self._thoughts: list[Reasoning] = []
        self._spoke = False

    # Whole

    def reply(self, reply: Reply) -> Reply:
        """Take what is sealed out of a whole reply."""
        return replace(reply, choices=tuple(map(self._keep_choice, reply.choices)))

    def _keep_choice(self, choice: Choice) -> Choice:
        return replace(choice, items=tuple(map(self._keep_item, choice.items)))

    def _keep_item(self, item: Item) -> Item:
        match item:
            case Reasoning():
                self._think(item)
                return replace(item, encrypted=None)
            case ToolCall():
                return self._call(item)
            case Message():
                self._spoke = bool(self._thoughts)
                return item
            case _:
                return item

    def _think(self, thought: Reasoning) -> None:
        if thought.encrypted is not None:
            # The id and the seal belong together (P081).
            self._thoughts.append(replace(thought, status=None))
        elif self._plain and (thought.content or thought.summary):
            # Without one, the id is only known to a server that stores (P066).
            self._thoughts.append(replace(thought, status=None, item_id=None))

    def _call(self, call: ToolCall) -> ToolCall:
        if not self._thoughts:
            return call
        sealed = SealedReasoning(tuple(self._thoughts), before_text=self._spoke).sealed(self._seal)
        self._thoughts, self._spoke = [], False
        self._kept[call.call_id] = sealed
        return replace(call, extras=(*call.extras, extra_content_field(sealed)))

    # Streamed

    def feed(self, event: Event) -> list[Event]:
        """Pass an event on, without what is sealed."""
        match event:
            case Delta():
                if event.index in self._open:
                    self._open[event.index].add(event)
                return [event]
            case Opened(item=Reasoning()):
                self._open[event.index] = ItemBuffer(event)
                return [event]
            case Opened():
                return [replace(event, item=self._keep_item(event.item))]
            case Closed() if event.index in self._open:
                return [self._end(self._open.pop(event.index), event)]
            case _:
                return [event]

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []

    def _end(self, block: ItemBuffer, event: Closed) -> Closed:
        block.close(event)
        self._keep_item(block.item())
        return replace(event, encrypted=None)


# Notes what a Chat backend wants to see again with a call, for a client that does not carry it.
#
# What was thought comes back with the summary that the client was shown. A list of details or the
# signature of a thought cannot be shown; whoever serves may keep them. That is reported all the
# same,
# for nobody knows for how long.


class RecordReasoningForCalls:
    """Looks at a reply, whole or streamed; nothing in it changes."""

    def __init__(self, seal: Sealer, kept: dict[str, str]) -> None:
        self._seal = seal
        # By the names of calls: what is to be kept.
        self._kept = kept
        self._open: dict[int, ItemBuffer] = {}
        # What was thought since the last call.
        self._thoughts: list[Reasoning] = []

    @property
    def passes_deltas(self) -> bool:
        """Tell whether deltas need not be seen, until something else comes."""
        return not self._open

    def reply(self, reply: Reply) -> Reply:
        """Look at a whole reply."""
        for choice in reply.choices:
            for item in choice.items:
                self._note(item)
        return reply

    def feed(self, event: Event) -> list[Event]:
        """Look at an event."""
        match event:
            case Delta():
                # The hot path: mostly there is nothing to do.
                if self._open and event.index in self._open:
                    self._open[event.index].add(event)
            case Opened(item=Reasoning()):
                self._open[event.index] = ItemBuffer(event)
            case Opened(item=ToolCall() as call) if call.extras or self._thoughts or self._open:
                # Only a call that something comes with is to be named. What comes with the end of
                # another is reported and not kept.
                self._open[event.index] = ItemBuffer(event)
            case Closed() if event.index in self._open:
                block = self._open.pop(event.index)
                block.close(event)
                self._note(block.item())
            case _:
                pass
        return [event]

    def flush(self) -> list[Event]:
        """Give nothing more."""
        return []

    def _note(self, item: object) -> None:
        match item:
            case Reasoning() if item.extras:
                self._thoughts.append(replace(item, status=None))
            case ToolCall() if self._thoughts or item.extras:
                calls = {short_call_id(item.call_id): item.extras} if item.extras else {}
                kept = SealedReasoning(tuple(self._thoughts), calls)
                self._kept[call_fingerprint(item)] = kept.sealed(self._seal)
                self._thoughts = []
            case _:
                pass
