"""The stage that finds tool calls in the reasoning of a reply that has nothing else.

Some models write their call before they end their reasoning. A call that they write while they
think may also be a draft, so only calls at the end of the reasoning count, and only if neither a
text nor a call follows. They become the text of a message, in which the next stage finds them, if
the backend is configured so. Otherwise they stay reasoning and are reported.
"""

from adapters.ir.events import Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.types import Message, Reasoning, Reply
from adapters.losses import Losses
from adapters.stages.stage import Stage
from adapters.text_tools.scanner import FoundCalls, Scanner, Segment
from adapters.text_tools.stage import DeltaBuffer, TextToolCallParser

_NOT_CALLED = "the reply is only reasoning with a tool call in it, which is not run"


class ReasoningCallFinder(Stage):
    """A stage that finds calls at the end of reasoning."""

    def __init__(self, parser: TextToolCallParser, losses: Losses, *, returns_calls: bool) -> None:
        super().__init__()
        # The next stage, which has the formats.
        self._parser = parser
        self._losses = losses
        self._returns_calls = returns_calls
        self._open_reasoning: list[_ScannedReasoning] = []
        # Reasoning that ends with calls, by choice, and the choices with other content.
        self._held: dict[int, _ScannedReasoning] = {}
        self._answered: set[int] = set()

    def applies_to(self, reply: Reply) -> bool:
        """Whether the reply has reasoning."""
        return any(isinstance(item, Reasoning) for one in reply.choices for item in one.items)

    def _open(self, event: Opened) -> list[Event]:
        events = self._release(event.choice)
        for reasoning in self._open_reasoning:
            if reasoning.choice == event.choice:
                events += reasoning.flush()
        if not isinstance(event.item, Reasoning):
            self._answered.add(event.choice)
            return [*events, event]
        reasoning = _ScannedReasoning(event, self._parser.scanner(at_reply_start=False))
        self._open_reasoning.append(reasoning)
        self._processors[event.index] = reasoning
        return events

    def _close(self, event: Closed) -> list[Event]:
        reasoning = self._processors.get(event.index)
        events = super()._close(event)
        if isinstance(reasoning, _ScannedReasoning):
            self._open_reasoning.remove(reasoning)
            if reasoning.closed is not None:
                self._held[reasoning.choice] = reasoning
        return events

    def _finish(self, event: Finished) -> list[Event]:
        events: list[Event] = []
        for choice, reasoning in list(self._held.items()):
            finished = event.finishes[choice].reason in ("stop", "calls")
            if not finished or choice in self._answered:
                events += self._release(choice)
            elif self._returns_calls:
                events += reasoning.as_message()
            else:
                self._losses.dropped("reasoning", _NOT_CALLED, "capability")
                events += self._release(choice)
        return [*events, event]

    def _fail(self, event: Failed) -> list[Event]:
        events = [flushed for reasoning in self._open_reasoning for flushed in reasoning.flush()]
        for choice in list(self._held):
            events += self._release(choice)
        return [*events, event]

    def _release(self, choice: int) -> list[Event]:
        """Emit the held end of reasoning unchanged."""
        reasoning = self._held.pop(choice, None)
        return [] if reasoning is None else reasoning.release()


class _ScannedReasoning:
    """A reasoning block whose end is held if it consists of calls."""

    def __init__(self, opened: Opened, scanner: Scanner) -> None:
        self.choice = opened.choice
        # The start of the block; None once it was emitted.
        self._opened: Opened | None = opened
        self._index = opened.index
        self._scanner = scanner
        # The deltas that are scanned, and those from the first call on.
        self._deltas = DeltaBuffer()
        self._part = 0
        self._calls: list[Delta] = []
        # The end of the block, if it is held.
        self.closed: Closed | None = None

    def feed(self, delta: Delta) -> list[Event]:
        """Return the events that do not depend on later text."""
        if delta.part == self._part and not self._calls and self._scanner.skip(delta.text):
            return self._emit([delta])
        events = self._end_part() if delta.part != self._part else []
        self._part = delta.part
        self._deltas.add(delta)
        for segment in self._scanner.feed(delta.text):
            events += self._read(segment)
        return events if self._scanner.is_holding else events + self._take(0, is_call=False)

    def close(self, closed: Closed) -> list[Event]:
        """Return the end of the block, unless it is held."""
        events = self._end_part()
        if self._calls and closed.status == "completed":
            self.closed = closed
            return events
        return [*events, *self.release(), closed]

    def flush(self) -> list[Event]:
        """Emit everything so far, because another block begins or the stream has failed."""
        return [*self._end_part(), *self.release()]

    def release(self) -> list[Event]:
        """Emit what is held as reasoning."""
        calls, self._calls = self._calls, []
        closed, self.closed = self.closed, None
        return [*self._emit(calls), *([] if closed is None else [closed])]

    def as_message(self) -> list[Event]:
        """Emit the calls as the text of a message after the reasoning."""
        closed = self.closed or Closed(self._index)
        is_empty = self._opened is not None and not (closed.encrypted or closed.extras)
        block = f"{self._index}.calls"
        text = "".join(delta.text for delta in self._calls)
        return [
            *([] if is_empty else [*self._emit([]), closed]),
            Opened(block, Message("assistant"), self.choice),
            Delta(block, "text", text),
            Closed(block),
        ]

    def _end_part(self) -> list[Event]:
        events = [event for segment in self._scanner.end() for event in self._read(segment)]
        return events + self._take(0, is_call=False)

    def _read(self, segment: Segment) -> list[Event]:
        match segment:
            case str():
                return self._take(len(segment), is_call=bool(self._calls and segment.isspace()))
            case FoundCalls():
                return self._take(segment.length, is_call=bool(segment.calls or self._calls))
            case _:
                return self._take(segment.length, is_call=False)

    def _take(self, length: int, *, is_call: bool) -> list[Event]:
        """Hold deltas that belong to calls, or emit them after those that were held."""
        deltas = list(self._deltas.take(length))
        if is_call or (self._calls and not any(delta.text for delta in deltas)):
            self._calls += deltas
            return []
        if not deltas:
            return []
        calls, self._calls = self._calls, []
        return self._emit([*calls, *deltas])

    def _emit(self, deltas: list[Delta]) -> list[Event]:
        """Emit deltas; the first ones open the block."""
        opened, self._opened = self._opened, None
        return [*deltas] if opened is None else [opened, *deltas]
