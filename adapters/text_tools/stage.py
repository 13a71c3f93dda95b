"""Makes calls of the markup in the text of an answer.

A message is ended where a call begins; what is said after it is another message. Space around calls
goes with their markup. A message of nothing but calls is none.
"""

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from adapters.capabilities import TextFormat
from adapters.ids import IdSource
from adapters.ir.accumulator import accumulate, to_events
from adapters.ir.events import Closed, Delta, Event, Finished, Opened
from adapters.ir.normalize import (
    EMPTY_ARGUMENTS_REASON,
    call_path,
    effective_finish,
    lacks_arguments,
    with_empty_arguments,
)
from adapters.ir.types import Choice, Finish, Item, Message, Reply, Text, Tool, ToolCall
from adapters.losses import Losses
from adapters.stages.stage import MessageSplitter
from adapters.text_tools.formats import FORMATS
from adapters.text_tools.parser import DeclaredTools, TextToolCall
from adapters.text_tools.scanner import FoundCalls, Segment, Scanner

# Deltas of a text, in the order of which the scanner gives their text again.


class DeltaBuffer:
    """Gives deltas again by the length of their text; one that is cut stays itself in its end."""

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
        # How much of the first was given.
        self._at = 0

    def add(self, delta: Delta) -> None:
        """Take one more delta."""
        self._deltas.append(delta)

    def take(self, length: int) -> Iterator[Delta]:
        """Give the deltas of so much text, and those without text that follow them."""
        while self._deltas and (length or not self._deltas[0].text):
            delta, start = self._deltas[0], self._at
            end = start + length
            if len(delta.text) > end:
                self._at = end
                yield Delta(delta.index, delta.channel, delta.text[start:end], delta.part)
                return
            self._deltas.popleft()
            self._at = 0
            length = end - len(delta.text)
            yield replace(delta, text=delta.text[start:]) if start else delta


def split_by_token(delta: Delta) -> list[Delta]:
    """Cut a delta at its tokens, where the probabilities tell them."""
    tokens = delta.logprobs
    if len(tokens) <= 1 or "".join(one.token for one in tokens) != delta.text:
        return [delta]
    *first, last = [replace(delta, text=one.token, logprobs=(one,)) for one in tokens]
    return [*(replace(one, annotations=()) for one in first), last]


_MOVED = "calls leave the text that this is about"


class TextToolCallParser(MessageSplitter):
    """Takes calls out of the text of a reply, whole or streamed."""

    def __init__(
        self,
        formats: tuple[TextFormat, ...],
        tools: tuple[Tool, ...],
        mint: IdSource,
        losses: Losses,
    ) -> None:
        super().__init__(losses, _MOVED)
        self._formats = tuple(FORMATS[name] for name in dict.fromkeys(formats))
        self._names = formats
        self._tools = tools
        self._declared = DeclaredTools(tools)
        self._mint = mint
        # The choices in whose text there were calls.
        self._called: set[int] = set()

    # Whole

    def _split_choice(self, choice: Choice) -> Choice:
        split = super()._split_choice(choice)
        if split.items == choice.items:
            return choice
        return replace(split, finish=choice.finish and _with_calls(choice.finish))

    def _split(self, message: Message) -> tuple[Item, ...]:
        """Split a message as the same message in a stream is split."""
        if not self._has_calls(message):
            return (message,)
        stage = TextToolCallParser(self._names, self._tools, self._mint, self._losses)
        told = to_events(Reply(choices=(Choice((message,)),)), self._losses)
        return accumulate(out for event in told for out in stage.feed(event)).choices[0].items

    def _has_calls(self, message: Message) -> bool:
        texts = [part.text for part in message.content if isinstance(part, Text)]
        for number, text in enumerate(texts):
            scanner = self.scanner(begins_answer=not number)
            if any(isinstance(one, FoundCalls) for one in (*scanner.feed(text), *scanner.end())):
                return True
        return False

    # Streamed

    def _begin(self, opened: Opened) -> "_Block":
        return _Block(opened, self)

    def _finished(self, event: Finished) -> Finished:
        if not self._called:
            return event
        finishes = [
            _with_calls(finish) if number in self._called else finish
            for number, finish in enumerate(event.finishes)
        ]
        return replace(event, finishes=tuple(finishes))

    # What the messages on their way ask

    def scanner(self, *, begins_answer: bool) -> Scanner:
        """Make what finds the calls in a text."""
        return Scanner(self._formats, self._declared, begins_answer=begins_answer)

    def tell_call(self, spoken: TextToolCall, choice: int) -> list[Event]:
        """Tell a call that was found."""
        self._called.add(choice)
        call = ToolCall(self._mint.id("call_"), spoken.name)
        whole = replace(call, arguments=spoken.arguments)
        if lacks_arguments(whole):
            self._losses.changed(call_path(call), EMPTY_ARGUMENTS_REASON)
            whole = with_empty_arguments(whole)
        number = self.number()
        return [
            Opened(number, call, choice),
            Delta(number, "arguments", whole.arguments),
            Closed(number),
        ]


class _Block:
    """One message on its way, which may become several with calls between them."""

    def __init__(self, opened: Opened, around: TextToolCallParser) -> None:
        self._opened = opened
        self._around = around
        self.choice = opened.choice
        # What reads the text of the part that is being told, and the deltas that it was fed.
        self._scanner = around.scanner(begins_answer=True)
        self._pending = DeltaBuffer()
        self._part = 0
        # Space at the beginning, which counts only if words follow it, or no call.
        self._space: list[Delta] = []
        # The number of the message that is being told, and those of its parts by their old ones.
        self._number: int | None = None
        self._parts: dict[int, int] = {}
        # What the next message is told as: the first is the one that was opened.
        self._item = opened.item
        self._called = False

    def fill(self, delta: Delta) -> list[Event]:
        """Take a piece."""
        if delta.channel != "text":
            return [*self.flush_before_next_block(), *self._say(delta)]
        events = self.flush_before_next_block() if delta.part != self._part else []
        self._part = delta.part
        for one in split_by_token(delta):
            self._pending.add(one)
            events += self._tell(self._scanner.feed(one.text))
        return events if self._scanner.is_holding else [*events, *self._say_pending(0)]

    def close(self, event: Closed) -> list[Event]:
        """End the message; if it was all calls, there is none."""
        return [*self.flush_before_next_block(), *self._end_message(event)]

    def flush_before_next_block(self) -> list[Event]:
        """Tell what was held back: no more will come, or something else comes first."""
        events = [*self._tell(self._scanner.end()), *self._say_pending(0)]
        self._scanner = self._around.scanner(begins_answer=False)
        begins = self._number is None and not self._called
        return [*events, *self._begin()] if begins else events

    def flush(self) -> list[Event]:
        """Tell what was held back, because no more will come."""
        return self.flush_before_next_block()

    def _tell(self, pieces: list[Segment]) -> list[Event]:
        events: list[Event] = []
        for piece in pieces:
            if isinstance(piece, str):
                events += self._say_pending(len(piece))
            else:
                events += self._call(piece)
        return events

    def _say_pending(self, length: int) -> list[Event]:
        """Say so much of what was held back."""
        return [event for delta in self._pending.take(length) for event in self._say(delta)]

    def _say(self, delta: Delta) -> list[Event]:
        """Say a piece; a message begins with a word."""
        if self._called and (delta.annotations or len(delta.logprobs) > 1):
            # Places are counted from the beginning of a text that is no longer one, and of several
            # probabilities nobody knows which are those of markup.
            self._around.report()
            logprobs = delta.logprobs if len(delta.logprobs) == 1 else ()
            delta = replace(delta, annotations=(), logprobs=logprobs)
        if self._number is not None:
            return [self._placed(delta)]
        if delta.channel != "text":
            return [*self._begin(), self._placed(delta)]
        if delta.text.strip():
            said = replace(delta, text=delta.text.lstrip()) if self._called else delta
            return [*self._begin(), self._placed(said)]
        return self._leave_space(delta)

    def _leave_space(self, delta: Delta) -> list[Event]:
        """Let space wait for words; behind a call it belongs to the markup."""
        if not self._called:
            self._space.append(delta)
        elif delta.logprobs:
            self._around.report()
        return []

    def _begin(self) -> list[Event]:
        """Begin a message with the space that was waiting."""
        self._number = self._around.number()
        opened = Opened(self._number, self._item, self.choice)
        self._item = Message("assistant")
        space, self._space = self._space, []
        return [opened, *map(self._placed, space)]

    def _placed(self, delta: Delta) -> Delta:
        """Give a piece its place in the message that is being told."""
        part = self._parts.setdefault(delta.part, len(self._parts))
        return replace(delta, index=self._number or 0, part=part)

    def _end_message(self, closed: Closed) -> list[Event]:
        if self._number is None:
            return []
        number, self._number = self._number, None
        self._parts.clear()
        return [replace(closed, index=number)]

    def _call(self, found: FoundCalls) -> list[Event]:
        """Tell calls instead of their markup."""
        if any(one.logprobs or one.annotations for one in list(self._pending.take(found.length))):
            self._around.report()
        if any(one.logprobs or one.annotations for one in self._space):
            self._around.report()
        self._space.clear()
        self._called = True
        calls = [
            event for spoken in found.calls for event in self._around.tell_call(spoken, self.choice)
        ]
        return [*self._end_message(Closed(0)), *calls]


def _with_calls(finish: Finish) -> Finish:
    return replace(finish, reason=effective_finish(finish, has_calls=True))
