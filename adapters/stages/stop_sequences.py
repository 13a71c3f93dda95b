"""The stage that ends a reply at a stop sequence, for backends without stop sequences.

The text of a message is cut at the first sequence in it, and nothing after that is sent. Reasoning,
refusals and tool calls are not searched. A sequence may be split over deltas and parts: the end of
the text is held back as long as it may be the beginning of a sequence.
"""

from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import replace

from adapters.ir.events import BlockId, Closed, Delta, Event, Failed, Finished, Opened
from adapters.ir.types import Citation, Finish, Message, Reasoning, ToolCall
from adapters.stages.stage import DiscardBlock, Stage

# Limits for the time that the search takes. Servers with stop sequences accept far fewer.
MAX_SEQUENCES = 64
MAX_SEQUENCE_LENGTH = 1000

_STOPPED = Finish("stop", "stop")


class StopSequenceCutter(Stage):
    """A stage that ends each choice at the first stop sequence in its text."""

    def __init__(self, sequences: Sequence[str], choices: int = 1) -> None:
        super().__init__()
        self._sequences = sequences
        self._choices = choices
        self._cut: set[int] = set()
        # The open blocks that end with the text of their choice, and the open calls, which do not.
        self._open_texts: dict[BlockId, int] = {}
        self._open_calls: dict[BlockId, int] = {}
        self._finished = False

    @property
    def done(self) -> bool:
        """Whether all choices were cut, so that the rest of the backend's reply has no effect."""
        return len(self._cut) >= self._choices and not self._open_calls

    def end(self) -> Finished:
        """Return the end of a reply that is `done`. Its usage is not known."""
        return Finished((_STOPPED,) * self._choices)

    @property
    def passes_deltas(self) -> bool:
        """Whether no delta is changed or dropped until an event of another type is fed."""
        return super().passes_deltas and not self._finished

    def feed(self, event: Event) -> list[Event]:
        """Return the events that replace one event; none after the end."""
        return [] if self._finished else super().feed(event)

    def _open(self, event: Opened) -> list[Event]:
        block, choice = event.index, event.choice
        if choice in self._cut:
            self._processors[block] = DiscardBlock()
            return []
        if isinstance(event.item, Message):
            self._processors[block] = _CutMessage(self, choice)
        if isinstance(event.item, Message | Reasoning):
            self._open_texts[block] = choice
        elif isinstance(event.item, ToolCall):
            self._open_calls[block] = choice
        return [event]

    def _close(self, event: Closed) -> list[Event]:
        self._open_texts.pop(event.index, None)
        self._open_calls.pop(event.index, None)
        return super()._close(event)

    def is_cut(self, choice: int) -> bool:
        """Whether a choice was cut."""
        return choice in self._cut

    def cut(self, choice: int) -> list[Event]:
        """End the text of a choice; return the ends of its blocks."""
        self._cut.add(choice)
        ended = [block for block, its_choice in self._open_texts.items() if its_choice == choice]
        for block in ended:
            del self._open_texts[block]
            self._processors[block] = DiscardBlock()
        return [Closed(block) for block in ended]

    def find(self, text: str, *, may_continue: bool = True) -> tuple[int, bool]:
        """Return where the first stop sequence begins, and whether it is complete.

        A sequence may continue after the end of the text. Without one, it is the end of the text.
        """
        found = [at for sequence in self._sequences if (at := text.find(sequence)) >= 0]
        start = min(found, default=len(text))
        if not may_continue:
            return start, bool(found)
        partial = _partial_start(text, self._sequences, start)
        return (partial, False) if partial < start else (start, bool(found))

    def _finish(self, event: Finished) -> list[Event]:
        self._finished = True
        if not self._cut:
            return [event]
        finishes = tuple(
            _STOPPED if choice in self._cut else finish
            for choice, finish in enumerate(event.finishes)
        )
        return [replace(event, finishes=finishes)]

    def _fail(self, event: Failed) -> list[Event]:
        self._finished = True
        messages = [one for one in self._processors.values() if isinstance(one, _CutMessage)]
        return [*(delta for message in messages for delta in message.flush()), event]


def _partial_start(text: str, sequences: Sequence[str], end: int) -> int:
    """Return where the text ends with the beginning of a sequence; `end` if nowhere before it."""
    for sequence in sequences:
        first = sequence[0]
        at = text.find(first, max(0, len(text) - len(sequence) + 1), end)
        while at >= 0:
            if sequence.startswith(text[at:]):
                end = at
                break
            at = text.find(first, at + 1, end)
    return end


class _CutMessage:
    """A message that is searched for stop sequences."""

    def __init__(self, stage: StopSequenceCutter, choice: int) -> None:
        self._stage = stage
        self._choice = choice
        # The deltas that are held back, and their text.
        self._held: list[Delta] = []
        self._text = ""
        # The part of the last delta that was passed on, and the length of its text so far.
        self._part = -1
        self._length = 0

    def feed(self, delta: Delta) -> list[Event]:
        """Return the deltas whose text cannot belong to a stop sequence."""
        if delta.channel != "text":
            ended = self._end()
            return ended if self._stage.is_cut(self._choice) else [*ended, delta]
        self._held.append(delta)
        self._text += delta.text
        start, complete = self._stage.find(self._text)
        if complete:
            return [*self._pass_before(start), *self._stage.cut(self._choice)]
        return self._pass(start)

    def _pass_before(self, start: int) -> list[Event]:
        """Return the text before a stop sequence, also if it is empty; drop the rest."""
        passed = self._pass(start)
        if self._part < 0:
            passed.append(replace(self._held[0], text="", logprobs=(), annotations=()))
        self._held, self._text = [], ""
        return passed

    def _pass(self, length: int) -> list[Event]:
        """Take this much of the text that is held back; its last delta may be divided."""
        passed: list[Event] = []
        self._text = self._text[length:]
        while self._held and (length or not self._held[0].text):
            delta = self._held.pop(0)
            if delta.part != self._part:
                self._part, self._length = delta.part, 0
            if len(delta.text) > length:
                delta, rest = _divide(delta, length, self._length)
                self._held.insert(0, rest)
            length -= len(delta.text)
            self._length += len(delta.text)
            passed.append(delta)
        return passed

    def flush(self) -> list[Event]:
        """Return the text that is held back, up to a stop sequence in it.

        A longer sequence may have begun before that one, which the text does not complete.
        """
        start, complete = self._stage.find(self._text, may_continue=False)
        return self._pass_before(start) if complete else self._pass(start)

    def _end(self) -> list[Event]:
        """Return the rest of a text that does not continue."""
        _, complete = self._stage.find(self._text, may_continue=False)
        rest = self.flush()
        return [*rest, *self._stage.cut(self._choice)] if complete else rest

    def close(self, closed: Closed) -> list[Event]:
        """Return the rest of the message."""
        return [*self._end(), closed]


def _divide(delta: Delta, length: int, offset: int) -> tuple[Delta, Delta]:
    """Divide a delta whose text begins at `offset` of its part."""
    ends = accumulate(len(logprob.token) for logprob in delta.logprobs)
    first = tuple(
        logprob for logprob, end in zip(delta.logprobs, ends, strict=True) if end <= length
    )
    if "".join(logprob.token for logprob in delta.logprobs) != delta.text:
        # Tokens that are not valid text have no position in it.
        first = ()
    cited = tuple(
        annotation
        for annotation in delta.annotations
        if isinstance(annotation, Citation) and annotation.end_index <= offset + length
    )
    others = tuple(annotation for annotation in delta.annotations if annotation not in cited)
    text = delta.text
    return (
        replace(delta, text=text[:length], logprobs=first, annotations=cited),
        replace(
            delta, text=text[length:], logprobs=delta.logprobs[len(first) :], annotations=others
        ),
    )
