"""The stage that finds inline reasoning: a `<think>` block at the beginning of a text.

The text in the block becomes reasoning and the rest stays the message, both without surrounding
whitespace. If the block is never closed, all of the text is reasoning. The tags are removed.
"""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Reasoning, Status
from adapters.losses import Losses
from adapters.stages.stage import MessageSplitter, SplitMessage, message_path

_BEGIN = "<think>"
_END = "</think>"
_MOVED = "log probabilities and annotations do not fit the text without reasoning"


class ThinkTagParser(MessageSplitter):
    """A stage that moves inline reasoning from the text of a reply to reasoning items."""

    def __init__(self, losses: Losses) -> None:
        super().__init__()
        self._losses = losses

    def _split(self, opened: Opened) -> "_ThinkTagMessage":
        return _ThinkTagMessage(opened, self._losses)


class _ThinkTagMessage(SplitMessage):
    """A message that may begin with a block of reasoning."""

    def __init__(self, opened: Opened, losses: Losses) -> None:
        super().__init__(opened)
        self._losses = losses
        self._path = message_path(opened)
        # Deltas that may be part of the opening tag, and their text without leading whitespace.
        self._held_deltas: list[Delta] = []
        self._beginning = ""
        # The end of the reasoning so far: whitespace, or the beginning of the closing tag. A list,
        # because models may write whitespace without end.
        self._held_reasoning: list[str] = []
        self._holds_tag = False
        self._reasoning_id = f"{opened.index}.reasoning"
        self._reasoning_opened = False
        self._in_reasoning = False
        # Whether the text began with the tag.
        self._has_tag = False
        self._message_opened = False

    def feed(self, delta: Delta) -> list[Event]:
        """Return the events that do not depend on later text."""
        if self._has_tag and (delta.logprobs or delta.annotations):
            self._losses.dropped(self._path, _MOVED)
            delta = replace(delta, logprobs=(), annotations=())
        if self._message_opened:
            return [delta]
        if delta.channel != "text" or delta.part:
            return self._feed_other_part(delta)
        if self._in_reasoning:
            return self._read_reasoning(delta, delta.text)
        if self._has_tag:
            return self._begin_text(delta, delta.text)
        self._held_deltas.append(delta)
        return self._look_for_tag(delta)

    def _look_for_tag(self, delta: Delta) -> list[Event]:
        text = self._beginning = (self._beginning + delta.text).lstrip()
        if text.startswith(_BEGIN):
            return self._begin_reasoning(delta, text.removeprefix(_BEGIN))
        return [] if _BEGIN.startswith(text) else self._open_message()

    def _begin_reasoning(self, delta: Delta, text: str) -> list[Event]:
        if any(waiting.logprobs or waiting.annotations for waiting in self._held_deltas):
            self._losses.dropped(self._path, _MOVED)
        self._held_deltas.clear()
        self._has_tag = self._in_reasoning = True
        return self._read_reasoning(replace(delta, logprobs=(), annotations=()), text)

    def _read_reasoning(self, delta: Delta, text: str) -> list[Event]:
        """Emit reasoning, except trailing whitespace and a possible start of the closing tag."""
        self._held_reasoning.append(text)
        if text.isspace() and not self._holds_tag:
            return []
        before, end, after = "".join(self._held_reasoning).partition(_END)
        if end:
            self._held_reasoning = [before]
            return [*self._end_reasoning(), *self._begin_text(delta, after)]
        certain = before[: len(before) - _overlap(before)].rstrip()
        held = before[len(certain) :]
        self._held_reasoning = [held]
        self._holds_tag = not held.isspace()
        return self._emit_reasoning(certain)

    def _emit_reasoning(self, text: str) -> list[Event]:
        """Emit a piece of reasoning; the first one that is not blank opens the block."""
        text = text.rstrip() if self._reasoning_opened else text.strip()
        if not text:
            return []
        delta = Delta(self._reasoning_id, "reasoning", text)
        if self._reasoning_opened:
            return [delta]
        self._reasoning_opened = True
        return [Opened(self._reasoning_id, Reasoning(), self.choice), delta]

    def _end_reasoning(self, status: Status = "completed") -> list[Event]:
        if not self._in_reasoning:
            return []
        events = self.flush()
        self._in_reasoning = False
        return [*events, Closed(self._reasoning_id, status)] if self._reasoning_opened else events

    def _begin_text(self, delta: Delta, text: str) -> list[Event]:
        """Open the message with the first text after the reasoning, unless it is blank."""
        text = text.lstrip()
        if not text:
            return []
        self._held_deltas.append(replace(delta, text=text))
        return self._open_message()

    def _open_message(self) -> list[Event]:
        """Open the message with all held deltas."""
        self._message_opened = True
        waiting, self._held_deltas = self._held_deltas, []
        return [self._opened, *waiting]

    def _open_empty_message(self) -> list[Event]:
        """Open the message with an empty text, because its text was only reasoning."""
        self._held_deltas.append(Delta(self._opened.index, "text", ""))
        return self._open_message()

    def _feed_other_part(self, delta: Delta) -> list[Event]:
        """End the first part, which may be only reasoning, and emit a delta of another part."""
        if self._has_tag:
            return [*self._end_reasoning(), *self._open_empty_message(), delta]
        return [*self._open_message(), delta]

    def flush_before_next_block(self) -> list[Event]:
        """Return the beginning of the text, if it is held as a possible tag."""
        return [] if self._message_opened or self._has_tag else self._open_message()

    def flush(self) -> list[Event]:
        """Return the held text at the end of the stream."""
        if not self._in_reasoning:
            return self.flush_before_next_block()
        held, self._held_reasoning = "".join(self._held_reasoning), []
        return self._emit_reasoning(held)

    def close(self, closed: Closed) -> list[Event]:
        """End the message, or the reasoning if no message follows it."""
        events = [*self._end_reasoning(closed.status), *self.flush_before_next_block()]
        has_other_parts = len(closed.parts) > 1
        if not self._message_opened and (has_other_parts or not self._reasoning_opened):
            events += self._open_empty_message()
        return [*events, closed] if self._message_opened else events


def _overlap(text: str) -> int:
    """Return the length of the end of a text that may be the beginning of the closing tag."""
    longest = min(len(text), len(_END) - 1)
    return next((n for n in range(longest, 0, -1) if _END.startswith(text[-n:])), 0)
