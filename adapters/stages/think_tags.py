"""The stage that finds inline reasoning: a `<think>` block at the beginning of a text.

What is in the block becomes reasoning and the rest stays the message, both without the whitespace
around them. A block that is never closed is reasoning to its end. No part of a tag is passed on.
"""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Reasoning, Status
from adapters.losses import Losses
from adapters.stages.stage import MessageSplitter, SplitMessage

_BEGIN = "<think>"
_END = "</think>"
_MOVED = "log probabilities and annotations do not fit the text without reasoning"


class ThinkTagParser(MessageSplitter):
    """A stage that takes inline reasoning out of the text of a reply."""

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
        # Deltas that may be the beginning of the tag, and their text without leading whitespace.
        self._waiting: list[Delta] = []
        self._beginning = ""
        # The end of the reasoning so far: whitespace, or the beginning of the closing tag. In
        # pieces, because whitespace may go on without end.
        self._held: list[str] = []
        self._holds_tag = False
        self._reasoning_id = f"{opened.index}.reasoning"
        self._reasoning_opened = False
        self._in_reasoning = False
        # Whether the text began with the tag.
        self._has_tag = False
        self._message_opened = False

    def feed(self, delta: Delta) -> list[Event]:
        """Read a delta; return what is certain."""
        if self._has_tag and (delta.logprobs or delta.annotations):
            self._report_moved()
            delta = replace(delta, logprobs=(), annotations=())
        if self._message_opened:
            return [delta]
        if delta.channel != "text" or delta.part:
            return self._fill_other_part(delta)
        if self._in_reasoning:
            return self._read_reasoning(delta, delta.text)
        if self._has_tag:
            return self._begin_text(delta, delta.text)
        self._waiting.append(delta)
        return self._look_for_tag(delta)

    def _look_for_tag(self, delta: Delta) -> list[Event]:
        text = self._beginning = (self._beginning + delta.text).lstrip()
        if text.startswith(_BEGIN):
            return self._begin_reasoning(delta, text.removeprefix(_BEGIN))
        return [] if _BEGIN.startswith(text) else self._open_message()

    def _begin_reasoning(self, delta: Delta, text: str) -> list[Event]:
        if any(waiting.logprobs or waiting.annotations for waiting in self._waiting):
            self._report_moved()
        self._waiting.clear()
        self._has_tag = self._in_reasoning = True
        return self._read_reasoning(replace(delta, logprobs=(), annotations=()), text)

    def _read_reasoning(self, delta: Delta, text: str) -> list[Event]:
        """Pass reasoning on, except what may be the closing tag, and whitespace at the end."""
        self._held.append(text)
        if text.isspace() and not self._holds_tag:
            return []
        before, end, after = "".join(self._held).partition(_END)
        if end:
            self._held = [before]
            return [*self._end_reasoning(), *self._begin_text(delta, after)]
        certain = before[: len(before) - _overlap(before)].rstrip()
        held = before[len(certain) :]
        self._held = [held]
        self._holds_tag = not held.isspace()
        return self._write_reasoning(certain)

    def _write_reasoning(self, text: str) -> list[Event]:
        """Pass a piece of reasoning on; the block is opened by the first that is not blank."""
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
        """Open the message with the first text after the reasoning that is not blank."""
        text = text.lstrip()
        if not text:
            return []
        self._waiting.append(replace(delta, text=text))
        return self._open_message()

    def _open_message(self) -> list[Event]:
        """Open the message with all deltas that were waiting."""
        self._message_opened = True
        waiting, self._waiting = self._waiting, []
        return [self._opened, *waiting]

    def _open_empty_message(self) -> list[Event]:
        """Open the message with an empty text in the place of its reasoning."""
        self._waiting.append(Delta(self._opened.index, "text", ""))
        return self._open_message()

    def _fill_other_part(self, delta: Delta) -> list[Event]:
        """End the text of the first part, of which nothing but reasoning may have come."""
        if self._has_tag:
            return [*self._end_reasoning(), *self._open_empty_message(), delta]
        return [*self._open_message(), delta]

    def flush_before_next_block(self) -> list[Event]:
        """Return the beginning of the text, if it may still be a tag."""
        return [] if self._message_opened or self._has_tag else self._open_message()

    def flush(self) -> list[Event]:
        """Return what was held back, because no more text will come."""
        if not self._in_reasoning:
            return self.flush_before_next_block()
        held, self._held = "".join(self._held), []
        return self._write_reasoning(held)

    def close(self, closed: Closed) -> list[Event]:
        """End the message, or the reasoning if no message followed it."""
        events = [*self._end_reasoning(closed.status), *self.flush_before_next_block()]
        has_other_parts = len(closed.parts) > 1
        if not self._message_opened and (has_other_parts or not self._reasoning_opened):
            events += self._open_empty_message()
        return [*events, closed] if self._message_opened else events

    def _report_moved(self) -> None:
        self._losses.dropped("content", _MOVED)


def _overlap(text: str) -> int:
    """Return how much of the end of a text may be the beginning of the closing tag."""
    longest = min(len(text), len(_END) - 1)
    return next((n for n in range(longest, 0, -1) if _END.startswith(text[-n:])), 0)
