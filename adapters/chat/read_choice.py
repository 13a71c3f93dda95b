"""Reads one choice of a Chat stream: its text, its thoughts, its calls."""

from collections.abc import Iterator, Sequence

from msgspec import Raw

from adapters.chat.calls import Calls, Open
from adapters.chat.wire import NO_REFUSAL_LOGPROBS, NOTHING_SAID, CallDelta, MessageDelta
from adapters.conversation import (
    Annotation,
    Finish,
    Logprob,
    Message,
    Reasoning,
    Refusal,
    Status,
    Text,
)
from adapters.events import Channel, Closed, Delta, Event
from adapters.fields import is_said, read_fields
from adapters.loss import Losses
from adapters.parts import read_annotation, read_content, read_logprobs


class ChoiceReader:
    """One choice: at most one message or reasoning is open at a time, beside the calls."""

    def __init__(self, open_block: Open, calls: Calls, losses: Losses) -> None:
        self._open_block = open_block
        self._calls = calls
        self._losses = losses
        # The open message or reasoning, what it is being filled with, and in which part.
        self._block: int | None = None
        self._channel: Channel | None = None
        self._part = 0
        # The block that was opened last, and with it whether there was any.
        self._last_block = -1
        # How it ended, once that was said. Some servers say it on every chunk: the last word
        # counts, and nothing is closed before the stream ends.
        self.finished: Finish | None = None

    def feed(self, delta: MessageDelta, logprobs: Raw) -> list[Event]:
        """Take one delta."""
        events: list[Event] = []
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            self._fill(events, "thought", thought)
        content = delta.content
        if content or is_said(logprobs):
            self._say(events, content or "", logprobs)
        if delta.refusal:
            self._fill(events, "refusal", delta.refusal)
        if delta.annotations:
            found = tuple(read_annotation(raw, "completions") for raw in delta.annotations)
            self._fill(events, "text", "", (), found)
        if delta.tool_calls:
            self._call(events, delta.tool_calls)
        elif delta.function_call is not None:
            # The legacy form. Where a server sends both, this one repeats the other.
            self._call(events, [CallDelta(0, function=delta.function_call)])
        return events

    def close(self) -> list[Event]:
        """Close what is open. An answer of nothing is still an answer: an empty text (P164)."""
        events: list[Event] = list(self._calls.settle())
        self._note_blocks(events)
        if self._last_block < 0:
            self._losses.invented("content", NOTHING_SAID)
            self._fill(events, "text", "")
        cut = self.finished is not None and self.finished.reason in ("length", "filter")
        status: Status = "incomplete" if cut else "completed"
        if self._block is not None:
            events += self._close_block(status if self._block == self._last_block else "completed")
        events += self._calls.close(self._last_block, status)
        return events

    def _say(self, events: list[Event], content: str | list[Raw], logprobs: Raw) -> None:
        read = self._read_logprobs(logprobs) if is_said(logprobs) else ()
        if isinstance(content, str):
            if content or read:
                self._fill(events, "text", content, read)
            return
        for part in read_content(content, "content", "completions"):
            match part:
                case Text():
                    self._fill(events, "text", part.text, read, part.annotations)
                case Refusal():
                    self._fill(events, "refusal", part.text)
                case _:
                    self._losses.dropped("content", "an answer can only be text")

    def _fill(
        self,
        events: list[Event],
        channel: Channel,
        text: str,
        logprobs: tuple[Logprob, ...] = (),
        annotations: tuple[Annotation, ...] = (),
    ) -> None:
        if channel != self._channel or self._block is None:
            self._turn_to(events, channel)
        block = self._last_block if self._block is None else self._block
        events.append(Delta(block, channel, text, self._part, logprobs, annotations))

    def _turn_to(self, events: list[Event], channel: Channel) -> None:
        """Begin another part of the open message, or another item."""
        if {channel, self._channel} == {"text", "refusal"} and self._block is not None:
            self._part += 1
        else:
            events += self._close_block("completed")
            opened = self._open_block(Reasoning() if channel == "thought" else Message("assistant"))
            events.append(opened)
            self._block = self._last_block = opened.index
            self._part = 0
        self._channel = channel

    def _close_block(self, status: Status) -> Iterator[Event]:
        if self._block is not None:
            yield Closed(self._block, status)
            self._block = self._channel = None

    def _call(self, events: list[Event], deltas: Sequence[CallDelta]) -> None:
        told = self._calls.feed(deltas)
        if told and self._block is not None:
            events += self._close_block("completed")
        events += told
        self._note_blocks(told)

    def _note_blocks(self, events: list[Event]) -> None:
        """Remember the latest block, whoever opened it."""
        if events:
            self._last_block = max(self._last_block, self._calls.last_block)

    def _read_logprobs(self, raw: Raw) -> tuple[Logprob, ...]:
        fields = read_fields(raw, "logprobs")
        if fields.raws("refusal"):
            self._losses.dropped("logprobs.refusal", NO_REFUSAL_LOGPROBS)
        return read_logprobs(fields.raw("content"), "logprobs.content")
