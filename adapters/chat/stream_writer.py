"""Writes a stream for a Chat client."""

from collections.abc import Mapping

from msgspec import Raw
from msgspec.structs import replace

from adapters.chat.parts import NO_REASONING_FIELD_REASON, TEXT_SEPARATOR, ReasoningWriter
from adapters.chat.reply import completion_id, report_unwritable, write_annotation, write_logprobs
from adapters.chat.wire import (
    CALL_FIELDS,
    DONE,
    WRITE_FINISH_REASON,
    Frames,
    Wire,
    call_body,
    error_frame,
    head,
    write_usage,
)
from adapters.dialect import BaseStreamWriter, ReplyContext
from adapters.ir.events import Closed, Delta, Failed, Finished, Opened, Started
from adapters.ir.normalize import (
    EMPTY_REPLY_REASON,
    MISSING_USAGE_REASON,
    call_path,
    effective_finish,
    reply_model,
    wants_one_choice,
    worst_finish,
)
from adapters.ir.types import Extras, Finish, FinishReason, Message, Reasoning, ToolCall, Usage
from adapters.json_text import is_complete_json
from adapters.losses import Losses
from adapters.sse import PLACEHOLDER, FrameTemplate
from adapters.wire.extra_fields import ExtrasWriter

# Writes the calls of a Chat stream one after the other.
#
# Blocks may overlap in the hub, but the helper of the openai package for JavaScript breaks on calls
# whose pieces alternate. So a later call waits until the earlier one is done: closed, or with
# arguments to which nothing can be added.


class CallStream:
    """One call on its way out."""

    __slots__ = ("call", "closed", "fragments", "held", "number", "template")

    def __init__(self, call: ToolCall, number: int) -> None:
        self.call = call
        # Its place among the calls of its choice.
        self.number = number
        # What came of its arguments, and what of that still waits.
        self.fragments: list[str] = []
        self.held: list[str] = []
        self.closed = False
        # The frame of its deltas, once it has begun.
        self.template: FrameTemplate | None = None

    def is_done(self) -> bool:
        """Tell whether the next call may begin."""
        if self.closed or self.call.kind == "custom":
            # Of raw text nobody can tell whether it goes on.
            return self.closed
        last = self.fragments[-1].rstrip()[-1:] if self.fragments else ""
        return last in ("}", "]") and is_complete_json("".join(self.fragments))


class CallsWriter:
    """The calls of one choice."""

    def __init__(self, frames: Frames, choice: int, losses: Losses) -> None:
        self._frames = frames
        self._choice = choice
        self._losses = losses
        self._carrier = ExtrasWriter("completions", "Chat Completions", losses)
        self._lanes: list[CallStream] = []
        # How many of the lanes have begun.
        self._begun = 0

    def open(self, call: ToolCall) -> tuple[CallStream, list[bytes]]:
        """Take a new call; begin it, if it need not wait."""
        lane = CallStream(call, len(self._lanes))
        self._lanes.append(lane)
        return lane, self._advance()

    def write_delta(self, lane: CallStream, delta: Delta) -> list[bytes]:
        """Take more of a call's arguments."""
        if not delta.text:
            return []
        if lane.number < self._begun - 1 and delta.text.isspace():
            # Space behind arguments that are whole, while the next call is under way.
            return []
        lane.fragments.append(delta.text)
        if lane.template is None:
            lane.held.append(delta.text)
            return []
        written = [lane.template.fill(delta.text)]
        return written + self._advance() if self._begun < len(self._lanes) else written

    def close(self, lane: CallStream, extras: Extras) -> list[bytes]:
        """Learn that a call has ended, and what comes with its end."""
        lane.closed = True
        written = self._add(lane, extras) if extras else []
        return written + self._advance()

    def _add(self, lane: CallStream, extras: Extras) -> list[bytes]:
        """Write what comes with a call that has begun, unless another began behind it."""
        if lane.template is None:
            lane.call = replace(lane.call, extras=lane.call.extras + extras)
            return []
        if lane.number < self._begun - 1:
            why = "it came too late to be told: the next call had begun"
            self._carrier.report_dropped(
                tuple(replace(one, why=why) for one in extras), call_path(lane.call)
            )
            return []
        more: Wire = {}
        self._carrier.carry(extras, more, call_path(lane.call))
        return [self._frames.chunk(self._choice, self._piece(lane, more))] if more else []

    def _piece(self, lane: CallStream, more: Wire) -> Wire:
        """Say which call a piece belongs to."""
        return {"tool_calls": [{"index": lane.number, **more}]}

    def _advance(self) -> list[bytes]:
        """Begin the calls that wait for nobody any more."""
        written: list[bytes] = []
        while self._begun < len(self._lanes):
            if self._begun and not self._lanes[self._begun - 1].is_done():
                break
            written += self._begin(self._lanes[self._begun])
            self._begun += 1
        return written

    def _begin(self, lane: CallStream) -> list[bytes]:
        kind = lane.call.kind
        first: Wire = {
            "index": lane.number,
            "id": lane.call.call_id,
            "type": kind,
            kind: call_body(lane.call),
        }
        self._carrier.carry(lane.call.extras, first, call_path(lane.call))
        more: Wire = {"index": lane.number, kind: {CALL_FIELDS[kind]: PLACEHOLDER}}
        lane.template = self._frames.template(self._choice, {"tool_calls": [more]})
        written = [self._frames.chunk(self._choice, {"tool_calls": [first]})]
        if lane.held:
            written.append(lane.template.fill("".join(lane.held)))
            lane.held.clear()
        return written


class ChoiceWriter:
    """One choice on its way out."""

    def __init__(
        self, frames: Frames, number: int, calls: CallsWriter, thoughts: ReasoningWriter
    ) -> None:
        self.number = number
        self.frames = frames
        self.calls = calls
        self.thoughts = thoughts
        # Whether thoughts were told as a list, too.
        self.listed = False
        self.has_calls = False
        # Whether anything has been said.
        self.spoke = False
        # How much text was written, and where in it each part of a message began.
        self.length = 0
        self.starts: dict[tuple[int, int], int] = {}
        self.annotations: list[Wire | Raw] = []
        self.annotated = False
        self.text: FrameTemplate = frames.template(number, {"content": PLACEHOLDER})
        self.refusal: FrameTemplate = frames.template(number, {"refusal": PLACEHOLDER})


class StreamWriter(BaseStreamWriter):
    """Events in, frames out."""

    words: Mapping[FinishReason, str] = WRITE_FINISH_REASON
    make_calls: type[CallsWriter] = CallsWriter

    def __init__(self, around: ReplyContext) -> None:
        super().__init__()
        self._around = around
        self._carrier = ExtrasWriter("completions", "Chat Completions", around.losses)
        self._single = wants_one_choice(around.request)
        self._frames = Frames({}, with_usage=False)
        self._choices: dict[int, ChoiceWriter] = {}
        # The choice of each block that says something, and the lane of each that is a call.
        self._speaking: dict[int, ChoiceWriter] = {}
        # Messages before which a separator is due, for texts of two must not run together.
        self._separate: set[int] = set()
        self._lanes: dict[int, tuple[ChoiceWriter, CallStream]] = {}
        self._thinking: dict[int, ChoiceWriter] = {}
        self._ended = False

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream."""
        around = self._around
        reply_id = completion_id(event.id) or around.mint.id("chatcmpl-")
        created = around.mint.now() if event.created is None else event.created
        model = reply_model(event.model, around.request, around.losses)
        self._frames = Frames(
            head(reply_id, created, model, event.service_tier, event.extras),
            with_usage=bool(around.request.include_usage),
        )
        _, written = self._choice(0)
        return written

    def _choice(self, number: int) -> tuple[ChoiceWriter, list[bytes]]:
        """Find a choice; a new one begins by saying who speaks, once."""
        number = 0 if self._single else number
        choice = self._choices.get(number)
        if choice is not None:
            return choice, []
        losses, field = self._around.losses, self._around.reply_options.reasoning_field
        calls = self.make_calls(self._frames, number, losses)
        thoughts = ReasoningWriter(self._frames, number, field, losses)
        choice = self._choices[number] = ChoiceWriter(self._frames, number, calls, thoughts)
        return choice, [self._frames.chunk(number, {"role": "assistant", "content": ""})]

    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""
        choice, written = self._choice(event.choice)
        match event.item:
            case Message() as message:
                self._carrier.report_dropped(message.extras, "message")
                self._speaking[event.index] = choice
                if choice.spoke and not message.continues:
                    self._separate.add(event.index)
            case ToolCall() as call:
                choice.has_calls = True
                lane, opened = choice.calls.open(call)
                self._lanes[event.index] = (choice, lane)
                written += opened
            case Reasoning() as thought:
                self._carrier.report_dropped(thought.extras, "reasoning")
                self._thinking[event.index] = choice
            case item:
                report_unwritable((item,), self._around.losses)
        return written

    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of a block."""
        choice = self._speaking.get(event.index)
        if choice is None:
            return self._fill_silently(event)
        if event.channel == "refusal":
            choice.spoke = True
            ended = self._say_annotations(choice)
            return [*ended, choice.refusal.fill(event.text)] if event.text else ended
        written = self._say(choice, event)
        if event.annotations:
            self._annotate(choice, event)
        return written

    def _fill_silently(self, event: Delta) -> list[bytes]:
        """Write a piece of what is not said: of a call or of a thought."""
        lane = self._lanes.get(event.index)
        if lane is not None:
            return lane[0].calls.write_delta(lane[1], event)
        choice = self._thinking.get(event.index)
        return [] if choice is None else choice.thoughts.fill(event)

    def _annotate(self, choice: ChoiceWriter, event: Delta) -> None:
        """Keep annotations until the message is whole; places are counted from where text began."""
        offset = choice.starts.get((event.index, event.part), choice.length)
        for annotation in event.annotations:
            wire = write_annotation(annotation, self._around.losses, offset)
            if wire is not None:
                choice.annotations.append(wire)

    def _say(self, choice: ChoiceWriter, event: Delta) -> list[bytes]:
        text = event.text
        if not text and not event.logprobs:
            return []
        if self._separate and event.index in self._separate:
            self._separate.remove(event.index)
            choice.length += len(TEXT_SEPARATOR)
            choice.starts[event.index, event.part] = choice.length
            text = TEXT_SEPARATOR + text
        elif (event.index, event.part) not in choice.starts:
            choice.starts[event.index, event.part] = choice.length
        choice.length += len(event.text)
        choice.spoke = True
        if event.logprobs:
            logprobs: Wire = {"content": write_logprobs(event.logprobs), "refusal": None}
            return [choice.frames.chunk(choice.number, {"content": text}, logprobs=logprobs)]
        return [choice.text.fill(text)]

    def close(self, event: Closed) -> list[bytes]:
        """End a block."""
        choice = self._speaking.get(event.index)
        if choice is not None:
            return self._say_annotations(choice)
        lane = self._lanes.get(event.index)
        if lane is not None:
            return lane[0].calls.close(lane[1], event.extras)
        choice = self._thinking.get(event.index)
        return [] if choice is None else self._end_thought(choice, event)

    def _end_thought(self, choice: ChoiceWriter, event: Closed) -> list[bytes]:
        """End a thought: what is sealed has no place, a list of the same family has one."""
        if event.encrypted is not None:
            self._around.losses.dropped("reasoning", NO_REASONING_FIELD_REASON)
        if choice.listed:
            # The openai package for Python cannot join two lists without indices.
            self._carrier.report_dropped(event.extras, "message")
            return []
        details: Wire = {}
        self._carrier.carry(event.extras, details, "message")
        choice.listed = bool(details)
        return [self._frames.chunk(choice.number, details)] if details else []

    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""
        written: list[bytes] = []
        self._carrier.report_dropped(event.extras)
        if event.service_tier is not None:
            self._frames.add("service_tier", event.service_tier)
        finishes = event.finishes
        if self._single:
            finishes = (worst_finish(event.finishes) or Finish("stop", ""),)
        for number, finish in enumerate(finishes):
            choice, begun = self._choice(number)
            written += begun
            if not choice.spoke and not choice.has_calls:
                self._around.losses.invented("content", EMPTY_REPLY_REASON)
            reason = effective_finish(finish, has_calls=choice.has_calls)
            written.append(self._frames.chunk(number, {}, self.words[reason]))
        return [*written, *self._say_usage(event.usage), DONE]

    def _say_annotations(self, choice: ChoiceWriter) -> list[bytes]:
        """Say the annotations of a message when it is whole.

        Once in an answer: the openai package for Python cannot join two lists without indices.
        """
        if not choice.annotations:
            return []
        annotations, choice.annotations = choice.annotations, []
        if choice.annotated:
            self._around.losses.dropped(
                "annotations", "a streamed answer can have one list of them"
            )
            return []
        choice.annotated = True
        return [self._frames.chunk(choice.number, {"annotations": annotations})]

    def _say_usage(self, usage: Usage | None) -> list[bytes]:
        if not self._around.request.include_usage:
            return []
        if usage is None:
            self._around.losses.invented("usage", MISSING_USAGE_REASON)
        return [self._frames.usage(write_usage(usage or Usage(), self._carrier))]

    def fail(self, event: Failed) -> list[bytes]:
        """End the stream as a failure."""
        error = replace(event.error, param=self._around.param(event.error.param))
        return [error_frame(error), DONE]
