"""The stage that replaces tool calls in the text of a reply with real tool calls.

A message ends at the start of a call, and text after the call starts another message. Whitespace
around a call is dropped with its markup. A message that contains only calls is removed. Text that
the markup declares as reasoning becomes reasoning.
"""

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from adapters.capabilities import TextFormat
from adapters.ids import IdSource
from adapters.ir.events import BlockId, Closed, Delta, Event, Finished, Opened
from adapters.ir.normalize import (
    EMPTY_ARGUMENTS_REASON,
    UniqueCallIds,
    call_path,
    effective_finish,
    lacks_arguments,
    with_empty_arguments,
)
from adapters.ir.types import Message, Reasoning, Refusal, Text, Tool, ToolCall
from adapters.losses import Losses
from adapters.stages.stage import MessageSplitter, SplitMessage, call_path_in, message_path
from adapters.text_tools.formats import FORMATS
from adapters.text_tools.parser import DeclaredTools, TextToolCall
from adapters.text_tools.scanner import FoundCalls, FoundChannel, Scanner, Segment
from adapters.text_tools.token_formats import TextChannel

_TEXT_SPLIT = "log probabilities and annotations do not fit the text without calls"


class TextToolCallParser(MessageSplitter):
    """A stage that replaces tool calls in the text of a reply."""

    def __init__(
        self,
        formats: tuple[TextFormat, ...],
        tools: tuple[Tool, ...],
        ids: IdSource,
        losses: Losses,
    ) -> None:
        super().__init__()
        self._formats = tuple(FORMATS[name] for name in dict.fromkeys(formats))
        self._declared = DeclaredTools(tools)
        self._ids = ids
        self._losses = losses
        self._unique_ids = UniqueCallIds(losses)
        self._choices_with_calls: set[int] = set()

    def _split(self, opened: Opened) -> "_SplitText":
        return _SplitText(opened, self)

    def _finish(self, event: Finished) -> list[Event]:
        if not self._choices_with_calls:
            return [event]
        finishes = [
            replace(finish, reason=effective_finish(finish, has_calls=True))
            if number in self._choices_with_calls
            else finish
            for number, finish in enumerate(event.finishes)
        ]
        return [replace(event, finishes=tuple(finishes))]

    # For `_SplitText` and the stage for reasoning

    def scanner(self, *, at_reply_start: bool) -> Scanner:
        """Return a scanner for a new text."""
        return Scanner(self._formats, self._declared, at_reply_start=at_reply_start)

    def call_events(
        self, found: TextToolCall, block: BlockId, choice: int, path: str
    ) -> list[Event]:
        """Return the events of a call that was found in a text with this path."""
        self._choices_with_calls.add(choice)
        opened_call = ToolCall(self._call_id(found), found.name, path=path)
        call = replace(opened_call, arguments=found.arguments)
        if lacks_arguments(call):
            self._losses.changed(call_path(call), EMPTY_ARGUMENTS_REASON)
            call = with_empty_arguments(call)
        return [
            Opened(block, opened_call, choice),
            Delta(block, "arguments", call.arguments),
            Closed(block),
        ]

    def _call_id(self, found: TextToolCall) -> str:
        if found.call_id is None:
            return self._ids.id("call_")
        return self._unique_ids.unique(found.call_id, found.name)

    def report_split(self, path: str) -> None:
        """Report log probabilities or annotations that do not fit the remaining text."""
        self._losses.dropped(path, _TEXT_SPLIT)


class _SplitText(SplitMessage):
    """A message that may become several messages with calls between them."""

    def __init__(self, opened: Opened, stage: TextToolCallParser) -> None:
        super().__init__(opened)
        self._stage = stage
        self._path = message_path(opened)
        # The scanner of the current part, and the deltas that were fed to it.
        self._scanner = stage.scanner(at_reply_start=True)
        self._deltas = DeltaBuffer()
        self._part = 0
        # Leading whitespace, which is emitted only if text follows, or if no call follows.
        self._whitespace: list[Delta] = []
        # The original message, until it is opened; later messages are added ones.
        self._original: Opened | None = opened
        # The open message, and the new numbers of its parts.
        self._block: BlockId | None = None
        self._parts: dict[int, int] = {}
        self._added_blocks = 0
        # Whether markup was removed, so that the text is no longer that of the backend.
        self._is_split = False
        # What the text is at the current position.
        self._channel: TextChannel = "text"

    def feed(self, delta: Delta) -> list[Event]:
        """Return the events that do not depend on later text."""
        if (
            self._block is not None
            and delta.channel == "text"
            and delta.part == self._part
            and not (delta.logprobs or delta.annotations)
            and self._scanner.skip(delta.text)
        ):
            # Most deltas contain no markup.
            return [self._moved(delta, self._block)]
        if delta.channel != "text":
            return [*self.flush_before_next_block(), *self._emit(delta)]
        events = self.flush_before_next_block() if delta.part != self._part else []
        self._part = delta.part
        for token_delta in split_by_token(delta):
            self._deltas.add(token_delta)
            events += self._emit_segments(self._scanner.feed(token_delta.text))
        return events if self._scanner.is_holding else [*events, *self._emit_held(0)]

    def close(self, closed: Closed) -> list[Event]:
        """End the message, unless it contained only calls and so was never opened."""
        events = self.flush_before_next_block()
        if not self._is_split:
            return [*events, closed]
        others = tuple(part for part in closed.parts if not isinstance(part, Text | Refusal))
        if others:
            events += self._begin_channel("text")
        if others and self._block is None:
            events += self._open_message()
        return [*events, *self._end_message(replace(closed, parts=others))]

    def flush_before_next_block(self) -> list[Event]:
        """Emit the held text, before the end or another block."""
        events = [*self._emit_segments(self._scanner.end()), *self._emit_held(0)]
        self._scanner = self._stage.scanner(at_reply_start=False)
        is_unopened = self._block is None and not self._is_split
        return [*events, *self._open_message()] if is_unopened else events

    def flush(self) -> list[Event]:
        """Emit the held text, because the stream has failed."""
        return self.flush_before_next_block()

    def _emit_segments(self, segments: list[Segment]) -> list[Event]:
        events: list[Event] = []
        for segment in segments:
            match segment:
                case str():
                    events += self._emit_held(len(segment))
                case FoundCalls():
                    events += self._emit_calls(segment)
                case FoundChannel():
                    self._drop_markup(segment.length)
                    events += self._begin_channel(segment.channel)
        return events

    def _emit_held(self, length: int) -> list[Event]:
        """Emit some length of the held text."""
        return [event for delta in self._deltas.take(length) for event in self._emit(delta)]

    def _emit(self, delta: Delta) -> list[Event]:
        """Emit a delta; the first one that is not whitespace opens a message."""
        is_reasoning = self._channel == "reasoning"
        if self._is_split and (
            delta.annotations or len(delta.logprobs) > 1 or (is_reasoning and delta.logprobs)
        ):
            # Annotations count positions from the start of the unsplit text, and a group of
            # logprobs may include tokens of the removed markup.
            self._stage.report_split(self._path)
            logprobs = delta.logprobs if len(delta.logprobs) == 1 and not is_reasoning else ()
            delta = replace(delta, annotations=(), logprobs=logprobs)
        if self._block is not None:
            return [self._moved(delta, self._block)]
        if delta.channel == "text" and not delta.text.strip():
            return self._hold_whitespace(delta)
        if delta.channel == "text" and self._is_split:
            delta = replace(delta, text=delta.text.lstrip())
        return self._open_message(delta)

    def _hold_whitespace(self, delta: Delta) -> list[Event]:
        """Hold whitespace until text follows; drop it after a call, as part of the markup."""
        if not self._is_split:
            self._whitespace.append(delta)
        elif delta.logprobs:
            self._stage.report_split(self._path)
        return []

    def _open_message(self, *first: Delta) -> list[Event]:
        """Open a message with the held whitespace."""
        opened = self._next_item()
        self._block = block = opened.index
        whitespace, self._whitespace = self._whitespace, []
        return [opened, *(self._moved(delta, block) for delta in (*whitespace, *first))]

    def _next_item(self) -> Opened:
        """Return the item to open: the original message, or an added one."""
        if self._channel == "reasoning":
            return Opened(self._new_block(), Reasoning(), self.choice)
        original, self._original = self._original, None
        return original or Opened(self._new_block(), Message("assistant"), self.choice)

    def _moved(self, delta: Delta, block: BlockId) -> Delta:
        """Return a delta for a part of the open message."""
        part = self._parts.setdefault(delta.part, len(self._parts))
        if self._channel == "reasoning":
            return replace(delta, index=block, part=part, channel="reasoning")
        if delta.index == block and delta.part == part:
            return delta
        return replace(delta, index=block, part=part)

    def _end_message(self, closed: Closed) -> list[Event]:
        if self._block is None:
            return []
        block, self._block = self._block, None
        self._parts.clear()
        return [replace(closed, index=block)]

    def _drop_markup(self, length: int) -> None:
        """Drop markup, and the whitespace before it."""
        markup = list(self._deltas.take(length))
        for removed in (markup, self._whitespace):
            if any(delta.logprobs or delta.annotations for delta in removed):
                self._stage.report_split(self._path)
        self._whitespace.clear()
        self._is_split = True

    def _begin_channel(self, channel: TextChannel) -> list[Event]:
        """End the open item if the following text belongs to another one."""
        if channel == self._channel:
            return []
        self._channel = channel
        return self._end_message(Closed(self._opened.index))

    def _emit_calls(self, found: FoundCalls) -> list[Event]:
        """Emit calls in place of their markup."""
        self._drop_markup(found.length)
        calls = [
            event
            for call in found.calls
            for event in self._stage.call_events(
                call, self._new_block(), self.choice, call_path_in(self._opened)
            )
        ]
        return [*self._end_message(Closed(self._opened.index)), *calls]

    def _new_block(self) -> BlockId:
        self._added_blocks += 1
        return f"{self._opened.index}.{self._added_blocks}"


class DeltaBuffer:
    """A queue of deltas that are removed by length of text.

    If a delta is split, its last piece has its log probabilities and annotations.
    """

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
        # The length of the text of the first delta that was already removed.
        self._offset = 0

    def add(self, delta: Delta) -> None:
        """Append a delta."""
        self._deltas.append(delta)

    def take(self, length: int) -> Iterator[Delta]:
        """Remove deltas with this length of text, and the deltas without text after them."""
        while self._deltas and (length or not self._deltas[0].text):
            delta, start = self._deltas[0], self._offset
            end = start + length
            if len(delta.text) > end:
                self._offset = end
                yield Delta(delta.index, delta.channel, delta.text[start:end], delta.part)
                return
            self._deltas.popleft()
            self._offset = 0
            length = end - len(delta.text)
            yield replace(delta, text=delta.text[start:]) if start else delta


def split_by_token(delta: Delta) -> list[Delta]:
    """Split a delta into its tokens, if its log probabilities contain them."""
    tokens = delta.logprobs
    if len(tokens) <= 1 or "".join(logprob.token for logprob in tokens) != delta.text:
        return [delta]
    *first, last = [replace(delta, text=logprob.token, logprobs=(logprob,)) for logprob in tokens]
    return [*(replace(token_delta, annotations=()) for token_delta in first), last]
