"""Reads one choice of a Chat stream: its text, its thoughts, its calls."""

from collections.abc import Iterator, Sequence

from msgspec import Raw

from adapters.chat.parts import ReasoningDetails
from adapters.chat.tool_calls import LEGACY, Open, PartialCall, ToolCallAssembler
from adapters.chat.wire import REFUSAL_LOGPROBS_REASON, CallDelta, MessageDelta
from adapters.ir.events import Channel, Closed, Delta, Event
from adapters.ir.normalize import EMPTY_REPLY_REASON
from adapters.ir.types import (
    Annotation,
    Finish,
    Logprob,
    Message,
    Reasoning,
    Refusal,
    Status,
    Text,
)
from adapters.losses import Losses
from adapters.wire.content import read_annotation, read_content, read_logprobs
from adapters.wire.json_object import is_present, read_fields, string_or_raw_json


class ChoiceReader:
    """One choice: at most one message or reasoning is open at a time, beside the calls."""

    def __init__(self, open_block: Open, calls: ToolCallAssembler, losses: Losses) -> None:
        self._open_block = open_block
        self._calls = calls
        self._losses = losses
        # The open message or reasoning, what it is being filled with, and in which part.
        self._block: int | None = None
        self._channel: Channel | None = None
        self._part = 0
        self._spoke = False
        # Thoughts as a list, which its server wants back whole, and whether they come as text, too.
        self._details = ReasoningDetails()
        self._thinks_in_text = False
        # Annotations that came before the text that they are about.
        self._early: tuple[Annotation, ...] = ()
        # The block that was opened last, and with it whether there was any.
        self._last_block = -1
        # How it ended, once that was said. Some servers say it on every chunk: the last word
        # counts, and nothing is closed before the stream ends.
        self.finished: Finish | None = None

    def feed(self, delta: MessageDelta, logprobs: Raw) -> list[Event]:
        """Take one delta."""
        events: list[Event] = []
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._think(events, delta)
        content = delta.content
        if content or is_present(logprobs):
            self._say(events, content or "", logprobs)
        if delta.refusal:
            self._fill(events, "refusal", delta.refusal)
        if delta.annotations:
            self._annotate(events, delta.annotations)
        if delta.tool_calls:
            self._call(events, delta.tool_calls)
        elif delta.function_call is not None:
            # The legacy form. Where a server sends both, this one repeats the other.
            self._call(events, [CallDelta(0, type=LEGACY, function=delta.function_call)])
        return events

    def continued(self) -> PartialCall | None:
        """Give the call to which the last delta added arguments, and nothing else."""
        return self._calls.continued

    def finish(self, finish: Finish) -> list[Event]:
        """Learn how it ended; a client may begin at once to run what is certainly whole."""
        self.finished = finish
        return list(self._calls.close_complete()) if finish.reason in ("stop", "calls") else []

    def close(self) -> list[Event]:
        """Close what is open. An answer of nothing is still an answer: an empty text (P164)."""
        events: list[Event] = list(self._calls.finish())
        self._note_blocks(events)
        if self._details and self._channel != "thought":
            # They came behind what they led to; their block is the last.
            self._turn_to(events, "thought")
        if self._last_block < 0:
            self._losses.invented("content", EMPTY_REPLY_REASON)
            self._fill(events, "text", "")
        cut = self.finished is not None and self.finished.reason in ("length", "filter")
        closed: list[Event] = []
        if self._block is not None:
            last = cut and self._block == self._last_block
            closed += self._close_block("incomplete" if last else "completed")
        closed += self._calls.close(self._last_block, cut=cut)
        return events + _in_order(closed)

    def _think(self, events: list[Event], delta: MessageDelta) -> None:
        """Take a thought, under any of its names; what is no string is not read."""
        listed = ""
        if is_present(delta.reasoning_details):
            listed = self._details.add(delta.reasoning_details)
        for raw in (delta.reasoning_content, delta.reasoning):
            thought = string_or_raw_json(raw)
            if thought and bytes(raw).startswith(b'"'):
                self._thinks_in_text = True
                self._fill(events, "thought", thought)
                return
            if thought:
                self._losses.dropped("reasoning", "it is no text")
        if listed and not self._thinks_in_text:
            self._fill(events, "thought", listed)
        elif self._details and self._last_block < 0:
            # Sealed, with nothing to show: the block stands before what it leads to.
            self._turn_to(events, "thought")

    def _say(self, events: list[Event], content: str | list[Raw], logprobs: Raw) -> None:
        read = self._read_logprobs(logprobs) if is_present(logprobs) else ()
        if isinstance(content, str):
            if content or (read and self._channel == "text"):
                self._fill(events, "text", content, read)
            elif read:
                self._losses.dropped("logprobs", "probabilities of what is no text have no place")
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
            if channel == "text":
                annotations, self._early = self._early + annotations, ()
        block = self._last_block if self._block is None else self._block
        events.append(Delta(block, channel, text, self._part, logprobs, annotations))

    def _turn_to(self, events: list[Event], channel: Channel) -> None:
        """Begin another part of the open message, or another item."""
        if {channel, self._channel} == {"text", "refusal"} and self._block is not None:
            self._part += 1
        else:
            events += self._close_block("completed")
            events += self._calls.close_complete()
            opened = self._open_block(self._begun(channel))
            events.append(opened)
            self._block = self._last_block = opened.index
            self._part = 0
        self._channel = channel

    def _begun(self, channel: Channel) -> Message | Reasoning:
        """Give the item to begin; later texts go on with the first: Chat has one string."""
        if channel == "thought":
            return Reasoning()
        continues, self._spoke = self._spoke, True
        return Message("assistant", continues=continues)

    def _annotate(self, events: list[Event], annotations: list[Raw]) -> None:
        """Attach annotations to the text that they are about, which must be the last thing said."""
        found = tuple(read_annotation(raw, "completions") for raw in annotations)
        if self._channel == "text":
            self._fill(events, "text", "", (), found)
        elif self._spoke:
            self._losses.dropped("annotations", "they came after the text had ended")
        else:
            self._early += found

    def _close_block(self, status: Status) -> Iterator[Event]:
        if self._block is not None:
            extras = self._details.take() if self._channel == "thought" else ()
            yield Closed(self._block, status, extras=extras)
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
        if fields.array("refusal"):
            self._losses.dropped("logprobs.refusal", REFUSAL_LOGPROBS_REASON)
        return read_logprobs(fields.raw("content"), "logprobs.content")


def _in_order(events: list[Event]) -> list[Event]:
    """Put the ends of blocks in the order of the blocks."""
    return sorted(events, key=lambda event: getattr(event, "index", 0))
