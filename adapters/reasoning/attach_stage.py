"""Keeps what a Responses backend thought before its calls, for a Chat client that has no place.

It goes with the first call after it: sealed, in a field that some clients echo, and under the id of
the call for whoever serves to keep. Without it, a model that reasons begins anew at every step of a
loop (P078). What led to no call is not needed again.
"""

from msgspec.structs import replace

from adapters.ir.accumulator import ItemBuffer
from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Choice, Item, Message, Reasoning, Reply, ToolCall
from adapters.reasoning.sealed import SealedReasoning, Sealer, extra_content_field


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
