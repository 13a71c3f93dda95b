"""Finds the reasoning of models that think aloud: a `<think>` block at the beginning of the text.

What is in the block becomes reasoning and the rest the answer, both without the space around them.
A block that was never closed is reasoning to its end. No half of a tag is ever shown.
"""

from msgspec.structs import replace

from adapters.ir.events import Closed, Delta, Event, Opened
from adapters.ir.types import Item, Message, Reasoning, Status, Text
from adapters.losses import Losses
from adapters.stages.stage import MessageSplitter

_BEGIN = "<think>"
_END = "</think>"
_MOVED = "reasoning leaves the text that this is about"


class ThinkTagParser(MessageSplitter):
    """Takes reasoning out of the text of a reply, whole or streamed."""

    def __init__(self, losses: Losses) -> None:
        super().__init__(losses, _MOVED)

    def _split(self, message: Message) -> tuple[Item, ...]:
        match message.content:
            case (Text(text=text) as first, *others) if text.lstrip().startswith(_BEGIN):
                inner = text.lstrip().removeprefix(_BEGIN)
            case _:
                return (message,)
        before, end, after = inner.partition(_END)
        thought, rest = before.strip(), after.lstrip()
        if first.annotations or first.logprobs:
            self.report()
        text_left = replace(first, text=rest, annotations=(), logprobs=())
        said = replace(message, content=(text_left, *others))
        if not thought:
            return (said,)
        status: Status | None = "completed" if end or others else message.status
        reasoning = Reasoning(content=(thought,), status=status)
        return (reasoning, said) if rest or others else (reasoning,)

    def _begin(self, opened: Opened) -> "_Block":
        return _Block(opened, self)


class _Block:
    """One message on its way: at its beginning, in its reasoning, behind it, or in its text."""

    def __init__(self, opened: Opened, around: ThinkTagParser) -> None:
        self._opened = opened
        self._around = around
        self.choice = opened.choice
        # Deltas of which nothing was told yet, for they may be the beginning of the tag.
        self._waiting: list[Delta] = []
        # Their text, from its first word on.
        self._begun = ""
        # The end of the reasoning so far: space, or the beginning of the closing tag. In pieces,
        # because space may go on and on.
        self._held: list[str] = []
        self._holds_word = False
        # Whether the reasoning has begun, and whether it has ended.
        self._thinks = False
        self._thought = False
        # The numbers of the reasoning and of the message, once they were begun.
        self._reasoning: int | None = None
        self._message: int | None = None

    def fill(self, delta: Delta) -> list[Event]:
        """Take a piece."""
        if self._thinks and (delta.logprobs or delta.annotations):
            self._around.report()
            delta = replace(delta, logprobs=(), annotations=())
        if self._message is not None:
            return [replace(delta, index=self._message)]
        if delta.channel != "text" or delta.part:
            return [*self._end_reasoning(), *self._begin(), *self._tell(delta)]
        if self._thought:
            return self._emit_text(delta, delta.text)
        if self._thinks:
            return self._think(delta, delta.text)
        self._waiting.append(delta)
        return self._look(delta)

    def _look(self, delta: Delta) -> list[Event]:
        """Look whether the text begins with the tag."""
        text = self._begun = (self._begun + delta.text).lstrip()
        if _BEGIN.startswith(text):
            return [] if text != _BEGIN else self._enter(delta, "")
        if not text.startswith(_BEGIN):
            return self._begin()
        return self._enter(delta, text.removeprefix(_BEGIN))

    def _enter(self, delta: Delta, text: str) -> list[Event]:
        """Begin the reasoning."""
        if any(one.logprobs or one.annotations for one in self._waiting):
            self._around.report()
        self._waiting.clear()
        self._thinks = True
        return self._think(replace(delta, logprobs=(), annotations=()), text)

    def _think(self, delta: Delta, text: str) -> list[Event]:
        """Tell the reasoning, as much of it as is no tag and no space at its end."""
        self._held.append(text)
        if text.isspace() and not self._holds_word:
            return []
        before, end, after = "".join(self._held).partition(_END)
        if end:
            self._held.clear()
            return [
                *self._emit_reasoning(before),
                *self._end_reasoning(),
                *self._emit_text(delta, after),
            ]
        told = before[: len(before) - _overlap(before)].rstrip()
        held = before[len(told) :]
        self._held = [held]
        self._holds_word = not held.isspace()
        return self._emit_reasoning(told)

    def _emit_reasoning(self, text: str) -> list[Event]:
        """Tell a piece of the reasoning; it begins with its first word."""
        text = text.rstrip()
        if self._reasoning is not None:
            return [Delta(self._reasoning, "thought", text)] if text else []
        text = text.lstrip()
        if not text:
            return []
        self._reasoning = self._around.number()
        opened = Opened(self._reasoning, Reasoning(), self.choice)
        return [opened, Delta(self._reasoning, "thought", text)]

    def _end_reasoning(self, status: Status = "completed") -> list[Event]:
        """End the reasoning, if it has begun and not ended."""
        if not self._thinks or self._thought:
            return []
        self._thought = True
        events = self.flush()
        return events if self._reasoning is None else [*events, Closed(self._reasoning, status)]

    def _emit_text(self, delta: Delta, text: str) -> list[Event]:
        """Tell the first piece of the text behind the reasoning; it begins with a word."""
        text = text.lstrip()
        if not text:
            return []
        self._waiting.append(replace(delta, text=text))
        return self._begin()

    def _begin(self) -> list[Event]:
        """Begin the message with all that was waiting."""
        self._message = self._around.number()
        waiting, self._waiting = self._waiting, []
        told = (replace(delta, index=self._message) for delta in waiting)
        return [replace(self._opened, index=self._message), *told]

    def _tell(self, delta: Delta) -> list[Event]:
        """Tell a piece of another part; the text before it, all reasoning, is an empty one."""
        number = self._message or 0
        empty = [Delta(number, "text", "")] if self._thinks else []
        return [*empty, replace(delta, index=number)]

    def flush_before_next_block(self) -> list[Event]:
        """Learn that another block begins: what waits for a tag keeps its place."""
        return self._begin() if self._message is None and not self._thinks else []

    def flush(self) -> list[Event]:
        """Tell what was held back, because no more will come."""
        held, self._held = "".join(self._held), []
        return self._emit_reasoning(held) if self._thinks else self.flush_before_next_block()

    def close(self, event: Closed) -> list[Event]:
        """End the message, or the reasoning if it never came to a message."""
        events = (
            self._end_reasoning(event.status) if self._thinks else self.flush_before_next_block()
        )
        if self._message is None and self._reasoning is None:
            # It neither thought nor said anything: an empty text says so.
            self._waiting.append(Delta(0, "text", ""))
            events += self._begin()
        if self._message is None:
            return events
        return [*events, replace(event, index=self._message)]


def _overlap(text: str) -> int:
    """Give how much of the end of a text may be the beginning of the closing tag."""
    longest = min(len(text), len(_END) - 1)
    return next((n for n in range(longest, 0, -1) if _END.startswith(text[-n:])), 0)
