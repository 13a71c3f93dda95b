"""Notes what a Chat backend wants to see again with a call, for a client that does not carry it.

What was thought comes back with the summary that the client was shown. A list of details or the
signature of a thought cannot be shown; whoever serves may keep them. That is reported all the same,
for nobody knows for how long.
"""

from msgspec.structs import replace

from adapters.ids import short_call_id
from adapters.ir.accumulator import ItemBuffer
from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Reasoning, Reply, ToolCall
from adapters.reasoning.sealed import SealedReasoning, Sealer, call_fingerprint


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
