"""The stage that removes the text of reasoning that the client did not request.

The items of the reasoning remain, with the sealed text that the client returns.
"""

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Reasoning, Reply
from adapters.losses import Losses
from adapters.stages.stage import Stage

_NOT_REQUESTED = "the client requested no summary; the text of the reasoning is not sent"


class ReasoningHider(Stage):
    """A stage that removes the text of reasoning."""

    def __init__(self, losses: Losses) -> None:
        super().__init__()
        self._losses = losses

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has reasoning."""
        return any(isinstance(item, Reasoning) for one in reply.choices for item in one.items)

    def _open(self, event: Opened) -> list[Event]:
        if isinstance(event.item, Reasoning):
            self._processors[event.index] = _HiddenText(self._losses)
        return [event]


class _HiddenText:
    """A reasoning block without its text."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses

    def feed(self, delta: Delta) -> list[Event]:
        """Drop a delta."""
        if delta.text:
            self._losses.dropped("reasoning", _NOT_REQUESTED, "adapted")
        return []

    def close(self, closed: Closed) -> list[Event]:
        """Emit the end of the block."""
        return [closed]
