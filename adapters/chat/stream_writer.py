"""Writer of the stream for a Chat client."""

from collections.abc import Mapping

from msgspec import Raw, Struct
from msgspec.json import Decoder

from adapters.chat.parts import TEXT_SEPARATOR, reasoning_field
from adapters.chat.reply_writer import (
    completion_id,
    report_unwritable,
    write_annotation,
    write_images,
    write_logprobs,
)
from adapters.chat.wire import (
    CALL_FIELDS,
    DONE,
    FAMILY,
    NO_REASONING_FIELD_REASON,
    WRITE_FINISH_REASON,
    Frames,
    Wire,
    extras_writer,
    frame,
    head,
    report_finish,
    write_call,
    write_usage,
)
from adapters.dialect import BaseStreamWriter, ReplyContext
from adapters.ir.events import BlockId, Closed, Delta, Failed, Finished, Opened, Started
from adapters.ir.normalize import (
    EMPTY_REPLY_REASON,
    MERGED_CHOICES_REASON,
    MISSING_USAGE_REASON,
    call_path,
    effective_finish,
    merged_finish,
    part_path,
    reply_model,
    wants_one_choice,
)
from adapters.ir.types import Extras, Finish, FinishReason, Message, Reasoning, ToolCall, Usage
from adapters.losses import Losses
from adapters.sse import PLACEHOLDER, FrameTemplate
from adapters.wire.error_body import error_object
from adapters.wire.images import image_of

_OBJECT = Decoder(dict[str, Raw])
# The limit of `n` at OpenAI.
_MAX_CHOICES = 128


class CallStream(Struct, eq=False):
    """A call that is being written."""

    call: ToolCall
    # The index of the call in its choice.
    number: int
    # The template of frames with its arguments; None if the call is not written.
    template: FrameTemplate | None = None


class CallsWriter:
    """Writes the calls of one choice, which `BlockSequencer` puts one after another."""

    def __init__(self, frames: Frames, choice: int, losses: Losses) -> None:
        self._frames = frames
        self._choice = choice
        self._losses = losses
        self._extras = extras_writer(losses)
        # The number of calls that were opened.
        self._count = 0

    def open(self, call: ToolCall) -> tuple[CallStream, list[bytes]]:
        """Begin a call."""
        stream = CallStream(call, self._count)
        self._count += 1
        return stream, self._begin(stream)

    def write_delta(self, stream: CallStream, delta: Delta) -> list[bytes]:
        """Write a piece of a call's arguments."""
        if not delta.text or stream.template is None:
            return []
        return [stream.template.fill(delta.text)]

    def close(self, stream: CallStream, extras: Extras) -> list[bytes]:
        """Write the extra fields of the `Closed` event of a call."""
        if not extras or stream.template is None:
            return []
        fields: Wire = {}
        self._extras.carry(extras, fields, call_path(stream.call))
        if not fields:
            return []
        fields |= self._no_arguments(stream)
        return [self._frames.chunk(self._choice, self._delta(stream, fields))]

    def _no_arguments(self, stream: CallStream) -> Wire:
        """Return empty arguments, because every delta of a call has some."""
        kind = stream.call.kind
        return {kind: {CALL_FIELDS[kind]: ""}}

    def _delta(self, stream: CallStream, fields: Wire) -> Wire:
        """Return the delta of a message with some fields of a call."""
        return {"tool_calls": [{"index": stream.number, **fields}]}

    def _begin(self, stream: CallStream) -> list[bytes]:
        call = stream.call
        first: Wire = {"index": stream.number, **write_call(call)}
        self._extras.carry(call.extras, first, call_path(call))
        arguments: Wire = {call.kind: {CALL_FIELDS[call.kind]: PLACEHOLDER}}
        stream.template = self._frames.template(self._choice, self._delta(stream, arguments))
        return [self._frames.chunk(self._choice, {"tool_calls": [first]})]


class ReasoningWriter:
    """Writes the reasoning of one choice in the configured field."""

    def __init__(self, frames: Frames, choice: int, context: ReplyContext) -> None:
        # The path of each block in the backend's reply.
        self.paths: dict[BlockId, str] = {}
        self._frames = frames
        self._choice = choice
        self._context = context
        self._losses = context.losses
        # None if the client receives no text of reasoning.
        self._template: FrameTemplate | None = None
        # The part that was written last.
        self._last_part: tuple[BlockId, int] | None = None

    def open(self, block: BlockId, reasoning: Reasoning) -> None:
        """Begin a block."""
        self.paths[block] = reasoning.path or "reasoning"
        field = reasoning_field((reasoning,), self._context)
        if field is not None and self._template is None:
            self._template = self._frames.template(self._choice, {field: PLACEHOLDER})

    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of reasoning, with an empty line between parts."""
        if not event.text:
            return []
        if self._template is None:
            self._losses.dropped(self.paths[event.index], NO_REASONING_FIELD_REASON)
            return []
        part = (event.index, event.part)
        separate = self._last_part not in (None, part)
        self._last_part = part
        return [self._template.fill(TEXT_SEPARATOR + event.text if separate else event.text)]


class ChoiceWriter:
    """The state of one choice."""

    def __init__(
        self, frames: Frames, number: int, calls: CallsWriter, reasoning: ReasoningWriter
    ) -> None:
        self.number = number
        self.frames = frames
        self.calls = calls
        self.reasoning = reasoning
        # Whether `reasoning_details` were written.
        self.has_details = False
        self.has_calls = False
        self.has_text = False
        # The length of the text so far, and the position of each part in it.
        self.length = 0
        self.starts: dict[tuple[BlockId, int], int] = {}
        # Annotations that are queued, and the number of those that were written.
        self.annotations: list[Wire | Raw] = []
        self.written_annotations = 0
        # The number of images that were written.
        self.images = 0
        self.text: FrameTemplate = frames.template(number, {"content": PLACEHOLDER})
        self.refusal: FrameTemplate = frames.template(number, {"refusal": PLACEHOLDER})


class StreamWriter(BaseStreamWriter):
    """Writes events as chunks."""

    names_events = False
    finish_reasons: Mapping[FinishReason, str] = WRITE_FINISH_REASON
    calls_writer: type[CallsWriter] = CallsWriter
    # The path of a call in the complete reply.
    _call_place = "choices[{choice}].message.tool_calls[{number}]"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self._context = context
        self._losses = context.losses
        self._extras = extras_writer(context.losses)
        self._merges_choices = wants_one_choice(context.request)
        self._frames = Frames({}, with_usage=False)
        self._choices: dict[int, ChoiceWriter] = {}
        # The choice of each block, in one mapping for each type of item.
        self._messages: dict[BlockId, ChoiceWriter] = {}
        self._opened: dict[BlockId, Message] = {}
        self._calls: dict[BlockId, tuple[ChoiceWriter, CallStream]] = {}
        self._reasoning: dict[BlockId, ChoiceWriter] = {}
        # Messages before whose text a separator must be written.
        self._separate: set[BlockId] = set()

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream."""
        context = self._context
        reply_id = completion_id(event.id) or context.ids.id("chatcmpl-")
        created = context.ids.now() if event.created is None else event.created
        model = reply_model(event.model, context.request, self._losses)
        others = tuple(extra for extra in event.extras if extra.family != FAMILY)
        self._extras.report_dropped(others)
        self._frames = Frames(
            head(reply_id, created, model, event.service_tier, event.extras),
            with_usage=bool(context.request.include_usage),
        )
        return self._choice(0)[1]

    def _choice(self, number: int) -> tuple[ChoiceWriter, list[bytes]]:
        """Return a choice and, if it is new, its first chunk, which contains the role."""
        number = 0 if self._merges_choices else number
        choice = self._choices.get(number)
        if choice is not None:
            return choice, []
        # The openai package for Python requires that the choices begin in their order.
        missing = [one for one in range(min(number, _MAX_CHOICES)) if one not in self._choices]
        written = [frame for one in missing for frame in self._choice(one)[1]]
        calls = self.calls_writer(self._frames, number, self._losses)
        reasoning = ReasoningWriter(self._frames, number, self._context)
        choice = self._choices[number] = ChoiceWriter(self._frames, number, calls, reasoning)
        begin = self._frames.chunk(number, {"role": "assistant", "content": ""})
        return choice, [*written, begin]

    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""
        choice, written = self._choice(event.choice)
        match event.item:
            case Message() as message:
                self._extras.report_dropped(message.extras, message.path)
                self._losses.place(message.path, f"choices[{choice.number}].message")
                self._messages[event.index] = choice
                self._opened[event.index] = message
                if choice.has_text and not message.continues:
                    self._separate.add(event.index)
            case ToolCall() as call:
                # Readers assign annotations to the text before them.
                written += self._write_annotations(choice)
                choice.has_calls = True
                stream, opened = choice.calls.open(call)
                if stream.template is not None:
                    place = self._call_place.format(choice=choice.number, number=stream.number)
                    self._losses.place(call_path(call), place)
                self._calls[event.index] = (choice, stream)
                written += opened
            case Reasoning() as reasoning:
                self._extras.report_dropped(reasoning.extras, reasoning.path)
                self._losses.place(reasoning.path, f"choices[{choice.number}].message")
                choice.reasoning.open(event.index, reasoning)
                self._reasoning[event.index] = choice
            case item if image_of(item) is not None:
                message_path = f"choices[{choice.number}].message"
                images = write_images((item,), choice.images, message_path, self._losses)
                choice.images += 1
                written.append(self._frames.chunk(choice.number, {"images": images}))
            case item:
                report_unwritable((item,), self._losses)
        return written

    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of a block."""
        choice = self._messages.get(event.index)
        if choice is None:
            return self._write_other_delta(event)
        if event.channel == "refusal":
            choice.has_text = True
            written = self._write_annotations(choice)
            return [*written, choice.refusal.fill(event.text)] if event.text else written
        written = self._write_text(choice, event)
        if event.annotations:
            self._add_annotations(choice, event)
        return written

    def _write_other_delta(self, event: Delta) -> list[bytes]:
        call = self._calls.get(event.index)
        if call is not None:
            return call[0].calls.write_delta(call[1], event)
        choice = self._reasoning.get(event.index)
        return [] if choice is None else choice.reasoning.write_delta(event)

    def _write_text(self, choice: ChoiceWriter, event: Delta) -> list[bytes]:
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
        choice.has_text = True
        if event.logprobs:
            logprobs = write_logprobs(event.logprobs)
            return [choice.frames.chunk(choice.number, {"content": text}, logprobs=logprobs)]
        return [choice.text.fill(text)]

    def _add_annotations(self, choice: ChoiceWriter, event: Delta) -> None:
        """Queue annotations until the message ends, with positions in the text of the choice."""
        offset = choice.starts.get((event.index, event.part), choice.length)
        for annotation in event.annotations:
            path = part_path(self._opened[event.index], event.part)
            if (wire := write_annotation(annotation, path, self._losses, offset)) is not None:
                choice.annotations.append(wire)

    def _write_annotations(self, choice: ChoiceWriter) -> list[bytes]:
        """Write the queued annotations, if possible as the only list of a choice.

        The entries of a second list have an index: the openai package for Python cannot join two
        lists of objects without indices, and that for JavaScript replaces the first list.
        """
        if not choice.annotations:
            return []
        annotations, choice.annotations = choice.annotations, []
        first = choice.written_annotations
        choice.written_annotations += len(annotations)
        if first:
            annotations = [
                _with_index(annotation, number)
                for number, annotation in enumerate(annotations, first)
            ]
        return [self._frames.chunk(choice.number, {"annotations": annotations})]

    def close(self, event: Closed) -> list[bytes]:
        """End a block."""
        if event.index in self._messages:
            # Another message may have annotations too.
            return []
        call = self._calls.get(event.index)
        if call is not None:
            return call[0].calls.close(call[1], event.extras)
        choice = self._reasoning.get(event.index)
        return [] if choice is None else self._close_reasoning(choice, event)

    def _close_reasoning(self, choice: ChoiceWriter, event: Closed) -> list[bytes]:
        """Write `reasoning_details` of a Chat backend; report encrypted reasoning."""
        if event.encrypted is not None:
            path = choice.reasoning.paths[event.index]
            self._losses.dropped(path, NO_REASONING_FIELD_REASON)
        if choice.has_details:
            # The openai package for Python cannot join two lists of objects without indices.
            self._extras.report_dropped(event.extras, choice.reasoning.paths[event.index])
            return []
        details: Wire = {}
        self._extras.carry(event.extras, details, choice.reasoning.paths[event.index])
        choice.has_details = bool(details)
        return [self._frames.chunk(choice.number, details)] if details else []

    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""
        written: list[bytes] = []
        self._extras.report_dropped(event.extras)
        if event.service_tier is not None:
            self._frames.add("service_tier", event.service_tier)
        finishes = event.finishes
        if self._merges_choices:
            if len(finishes) > 1:
                self._losses.changed("choices", MERGED_CHOICES_REASON)
            finishes = (merged_finish(event.finishes) or Finish("stop", ""),)
        for number, finish in enumerate(finishes):
            choice, begun = self._choice(number)
            written += begun + self._write_annotations(choice)
            self._report_empty(choice)
            reason = effective_finish(finish, has_calls=choice.has_calls)
            if not self._context.repairs:
                report_finish(finish, reason, number, self._losses)
            written.append(self._frames.chunk(number, {}, self.finish_reasons[reason]))
        return [*written, *self._write_usage(event.usage), DONE]

    def _report_empty(self, choice: ChoiceWriter) -> None:
        """Report a choice without text and calls, whose text is empty."""
        if not (choice.has_text or choice.has_calls or choice.images):
            self._losses.invented("content", EMPTY_REPLY_REASON)

    def _write_usage(self, usage: Usage | None) -> list[bytes]:
        if not self._context.request.include_usage:
            return []
        if usage is None:
            self._losses.invented("usage", MISSING_USAGE_REASON)
        return [self._frames.usage(write_usage(usage or Usage(), self._extras))]

    def fail(self, event: Failed) -> list[bytes]:
        """End the stream with an error."""
        return [frame({"error": error_object(event.error)}), DONE]


def _with_index(annotation: Wire | Raw, index: int) -> Wire:
    """Return an annotation with its index in the list of a choice."""
    fields = _OBJECT.decode(annotation) if isinstance(annotation, Raw) else annotation
    return {"index": index, **fields}
