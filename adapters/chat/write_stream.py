"""Writes a stream for a Chat client."""

from collections.abc import Callable, Mapping

from msgspec import Raw
from msgspec.structs import replace

from adapters.chat.frames import DONE, Frames, Wire, error_frame, head
from adapters.chat.reply import report_namespace, report_unsaid, write_annotation
from adapters.chat.wire import WRITE_REASON
from adapters.chat.write_calls import CallsWriter, Lane
from adapters.chat.write_messages import TEXT_SEPARATOR
from adapters.conversation import Call, Finish, FinishReason, Message, Usage
from adapters.dialect import Surroundings
from adapters.events import Closed, Delta, Event, Failed, Finished, Opened, Started
from adapters.extras import Carrier
from adapters.items import settled
from adapters.replies import combined, one_choice_asked, renamed
from adapters.template import HOLE, Template


class ChoiceWriter:
    """One choice on its way out."""

    def __init__(self, frames: Frames, number: int, calls: CallsWriter) -> None:
        self.number = number
        self.frames = frames
        self.calls = calls
        self.has_calls = False
        # Whether any text has been written, and whether a separator is due before the next.
        self.spoke = False
        self.separate = False
        self.annotations: list[Wire | Raw] = []
        self.text: Template = frames.template(number, {"content": HOLE})
        self.refusal: Template = frames.template(number, {"refusal": HOLE})


class StreamWriter:
    """Events in, frames out."""

    words: Mapping[FinishReason, str] = WRITE_REASON
    make_calls: type[CallsWriter] = CallsWriter

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._carrier = Carrier("completions", "Chat Completions", around.losses)
        self._single = one_choice_asked(around.request)
        self._frames = Frames({}, with_usage=False)
        self._choices: dict[int, ChoiceWriter] = {}
        # The choice of each block that says something, and the lane of each that is a call.
        self._speaking: dict[int, ChoiceWriter] = {}
        self._lanes: dict[int, tuple[ChoiceWriter, Lane]] = {}
        self._ended = False
        self._write: dict[type[Event], Callable[..., list[bytes]]] = {
            Started: self._start,
            Opened: self._open,
            Delta: self._fill,
            Closed: self._close,
            Finished: self._finish,
            Failed: self._fail,
        }

    def feed(self, event: Event) -> list[bytes]:
        """Write one event."""
        return self._write[event.__class__](event)

    def flush(self) -> list[bytes]:
        """Give nothing more: the last event ended the stream."""
        return []

    def _start(self, event: Started) -> list[bytes]:
        around = self._around
        reply_id = renamed(event.id, "chatcmpl-") or around.mint.id("chatcmpl-")
        created = around.mint.now() if event.created is None else event.created
        model = event.model or around.request.model or "unknown"
        self._carrier.carry(event.extras, {})
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
        calls = self.make_calls(self._frames, number, self._around.losses)
        choice = self._choices[number] = ChoiceWriter(self._frames, number, calls)
        return choice, [self._frames.chunk(number, {"role": "assistant", "content": ""})]

    def _open(self, event: Opened) -> list[bytes]:
        choice, written = self._choice(event.choice)
        match event.item:
            case Message() as message:
                self._carrier.carry(message.extras, {}, "message")
                choice.separate = choice.spoke
                self._speaking[event.index] = choice
            case Call() as call:
                report_namespace(call, self._around.losses)
                self._carrier.carry(call.extras, {}, f"call {call.name}")
                choice.has_calls = True
                lane, opened = choice.calls.open(call)
                self._lanes[event.index] = (choice, lane)
                written += opened
            case item:
                report_unsaid((item,), self._around.losses)
        return written

    def _fill(self, event: Delta) -> list[bytes]:
        choice = self._speaking.get(event.index)
        if choice is None:
            lane = self._lanes.get(event.index)
            return [] if lane is None else lane[0].calls.fill(lane[1], event)
        for annotation in event.annotations:
            wire = write_annotation(annotation, self._around.losses)
            if wire is not None:
                choice.annotations.append(wire)
        if event.channel == "refusal":
            return [choice.refusal.fill(event.text)] if event.text else []
        return self._say(choice, event)

    def _say(self, choice: ChoiceWriter, event: Delta) -> list[bytes]:
        text = event.text
        if not text and not event.logprobs:
            return []
        if choice.separate:
            choice.separate = False
            text = TEXT_SEPARATOR + text
        choice.spoke = True
        if event.logprobs:
            logprobs: Wire = {"content": event.logprobs, "refusal": None}
            return [choice.frames.chunk(choice.number, {"content": text}, logprobs=logprobs)]
        return [choice.text.fill(text)]

    def _close(self, event: Closed) -> list[bytes]:
        lane = self._lanes.get(event.index)
        return [] if lane is None else lane[0].calls.close(lane[1])

    def _finish(self, event: Finished) -> list[bytes]:
        written: list[bytes] = []
        self._carrier.carry(event.extras, {})
        finishes = event.finishes
        if self._single:
            finishes = (combined(event.finishes) or Finish("stop", ""),)
        for number, finish in enumerate(finishes):
            choice, begun = self._choice(number)
            written += begun
            if choice.annotations:
                # Once and whole: the openai package cannot join two lists without indices.
                written.append(self._frames.chunk(number, {"annotations": choice.annotations}))
            reason = settled(finish, has_calls=choice.has_calls)
            written.append(self._frames.chunk(number, {}, self.words[reason]))
        return [*written, *self._say_usage(event.usage), DONE]

    def _say_usage(self, usage: Usage | None) -> list[bytes]:
        if not self._around.request.include_usage:
            return []
        if usage is None:
            self._around.losses.invented("usage", "the backend did not say what it cost")
        return [self._frames.usage(usage or Usage())]

    def _fail(self, event: Failed) -> list[bytes]:
        error = replace(event.error, param=self._around.param(event.error.param))
        return [error_frame(error), DONE]
