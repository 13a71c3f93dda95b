"""Writes a stream for a Responses client."""

import re
from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.dialect import BaseStreamWriter, ReplyContext, without_done
from adapters.errors import InvalidRequestError
from adapters.ir.accumulator import ItemBuffer, PartBuffer
from adapters.ir.events import BlockId, Channel, Closed, Delta, Failed, Finished, Opened, Started
from adapters.ir.normalize import wants_one_choice, worst_finish
from adapters.ir.types import Error, Item, Status, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.responses.output_writer import (
    LABEL,
    OutputWriter,
    new_item_id,
    write_annotation,
    write_logprobs,
)
from adapters.responses.reply import SEVERAL_ANSWERS, make_outcome, new_response
from adapters.responses.response import Response, ResponseSnapshot, write_failure
from adapters.responses.wire import (
    CALLS,
    DONE,
    PARTS,
    DeltaTemplate,
    Frames,
    PartWords,
    Wire,
    delta_template,
    error_fields,
    usage_or_zeros,
    write_usage,
)
from adapters.sse import PLACEHOLDER, Frame, encode, parse_event
from adapters.wire.extra_fields import ExtrasWriter
from adapters.wire.json_object import MISSING, read_body

# Writes one item of a Responses stream, from its first event to its last.


class ItemStreamWriter:
    """One item on its way out: gathered, so that its last events tell the whole of it."""

    def __init__(
        self,
        opened: Opened,
        output_index: int,
        item_id: str,
        frames: Frames,
        output: OutputWriter,
        around: ReplyContext,
    ) -> None:
        self._block = ItemBuffer(opened)
        self.item_id = item_id
        self._place: Wire = {"item_id": item_id, "output_index": output_index}
        self._frames = frames
        self._output = output
        self._reply_options = around.reply_options
        self._losses = around.losses
        # The frame of its deltas: of the part that is open, or of the call.
        self._template: DeltaTemplate | None = None
        self._annotations = 0

    @property
    def is_closed(self) -> bool:
        """Tell whether it has ended."""
        return self._block.closed

    @property
    def is_call(self) -> bool:
        """Tell whether it is a call."""
        return isinstance(self._block.opened_item, ToolCall)

    def open(self) -> list[bytes]:
        """Announce the item."""
        bare = self._block.opened_item
        if isinstance(bare, ToolCall):
            words = CALLS.get(bare.kind)
            if words is None:
                # It is announced when it is whole.
                return []
            self._template = delta_template(words.delta, self._place | {"delta": PLACEHOLDER})
        return [self._announce(bare)]

    def write_delta(self, delta: Delta) -> list[bytes]:
        """Write a delta; the first of a part announces the part."""
        block = self._block
        written: list[bytes] = []
        if delta.part >= len(block.parts) and not self.is_call:
            written += self._end_part()
            block.add(delta)
            written += self._begin_part(delta.channel)
        else:
            block.add(delta)
        if delta.logprobs:
            written.append(self._delta_with_logprobs(delta))
        elif delta.text and self._template is not None:
            written.append(self._frames.delta(self._template, delta.text))
        for annotation in delta.annotations:
            wire = write_annotation(annotation, self._losses)
            if wire is not None:
                fields = self._part_place() | {
                    "annotation_index": self._annotations,
                    "annotation": wire,
                }
                kind = "response.output_text.annotation.added"
                written.append(self._frames.event(kind, fields))
                self._annotations += 1
        return written

    def close(self, closed: Closed) -> list[bytes]:
        """Tell the whole item."""
        written = self._end_part()
        bare = self._block.opened_item
        if isinstance(bare, ToolCall) and bare.kind not in CALLS:
            # What a search is for comes with its end; the others cannot be said without a part.
            begun = bare if bare.kind == "tool_search" else self.item()
            written.append(self._announce(begun))
        elif isinstance(bare, ToolCall):
            words = CALLS[bare.kind]
            fields = self._place | {words.field: "".join(self._block.texts("arguments"))}
            if bare.kind == "function":
                # Gone from the newest types, required by others: it does no harm.
                fields["name"] = bare.name
            written.append(self._frames.event(words.done, fields))
        # No event of a stream has room for parts other than text.
        self._block.close(replace(closed, parts=()) if closed.parts else closed)
        written.append(self._item_event("response.output_item.done", self.item(), closed.status))
        return written

    def item(self) -> Item:
        """Give the item as far as it has come."""
        return self._block.item()

    def write_item(self, status: Status) -> Wire | Raw:
        """Write the item as far as it has come."""
        return self._output.write(self.item(), self.item_id, self._block.status or status)

    def _announce(self, item: Item) -> bytes:
        return self._item_event("response.output_item.added", item, "in_progress")

    def _item_event(self, kind: str, item: Item, status: Status) -> bytes:
        fields: Wire = {
            "output_index": self._place["output_index"],
            "item": self._output.write(item, self.item_id, status),
        }
        return self._frames.event(kind, fields)

    # Parts

    def _words(self, channel: Channel) -> PartWords:
        """Give the words of a channel; thoughts are told as summaries unless wished otherwise."""
        if channel == "reasoning" and not self._reply_options.reasoning_text:
            return PARTS["summary"]
        return PARTS[channel]

    def _part_place(self) -> Wire:
        """Say which part is open: it is counted among the parts that share its index."""
        piece = self._block.parts[-1]
        words = self._words(piece.channel)
        before = self._block.parts[:-1]
        number = sum(self._words(one.channel).index == words.index for one in before)
        return self._place | {words.index: number}

    def _begin_part(self, channel: Channel) -> list[bytes]:
        words = self._words(channel)
        place = self._part_place()
        fields = place | {"delta": PLACEHOLDER}
        if channel == "text":
            fields["logprobs"] = ()
        self._template = delta_template(words.delta, fields)
        self._annotations = 0
        empty = self._part(words, PartBuffer(channel))
        return [self._frames.event(words.added, place | {"part": empty})]

    def _end_part(self) -> list[bytes]:
        if self.is_call or not self._block.parts:
            return []
        piece = self._block.parts[-1]
        words = self._words(piece.channel)
        place = self._part_place()
        done = place | {words.field: piece.text()}
        if piece.channel == "text":
            done["logprobs"] = write_logprobs(piece.logprobs)
        return [
            self._frames.event(words.done, done),
            self._frames.event(words.ended, place | {"part": self._part(words, piece)}),
        ]

    def _part(self, words: PartWords, piece: PartBuffer) -> Wire:
        if piece.channel in ("text", "refusal"):
            return self._output.write_part(piece.part())
        return {"type": words.part, words.field: piece.text()}

    def _delta_with_logprobs(self, delta: Delta) -> bytes:
        words = self._words(delta.channel)
        fields = self._part_place() | {
            "delta": delta.text,
            "logprobs": write_logprobs(delta.logprobs),
        }
        return self._frames.event(words.delta, fields)


# It stands last in what we write, and anywhere in what others do.
_NUMBER = re.compile(rb'("sequence_number"\s*:\s*)\d+')


class StreamWriter(BaseStreamWriter):
    """Events in, frames out."""

    def __init__(self, around: ReplyContext) -> None:
        super().__init__()
        self._around = around
        self._frames = Frames()
        self._output = OutputWriter(around.reply_options, around.losses)
        self._response: Response | None = None
        self._blocks: dict[BlockId, ItemStreamWriter] = {}
        # The response object that the last event carried.
        self._reply: Mapping[str, object] | None = None

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream, if it was not begun before its answer was."""
        ExtrasWriter("responses", LABEL, self._around.losses).report_dropped(event.extras)
        if self._response is not None:
            self._response.service_tier = event.service_tier or self._response.service_tier
            return []
        response = new_response(
            event.id, event.model, event.created, event.service_tier, self._around
        )
        self._response = response
        # Encoded once, for it is said twice.
        begun: Wire = {"response": Raw(encode(response.write(ResponseSnapshot("in_progress"))))}
        return [
            self._frames.event("response.created", begun),
            self._frames.event("response.in_progress", begun),
        ]

    def keep_alive(self) -> list[bytes]:
        """Say again that the response is in progress: Codex does not count comments (P147)."""
        if self._response is None:
            return self.start(Started())
        begun: Wire = {"response": self._response.write(ResponseSnapshot("in_progress"))}
        return [self._frames.event("response.in_progress", begun)]

    def is_heartbeat(self, frame: Frame) -> bool:
        """Tell whether a frame says that the response is in progress."""
        return frame.name == b"response.in_progress"

    def renumber_heartbeat(self, pulse: bytes, passed: int) -> bytes:
        """Give it the number of the last event, so that numbers neither go back nor run ahead."""
        return _NUMBER.sub(rb"\g<1>%d" % (passed - 1), pulse)

    def override_response_fields(self, block: bytes) -> bytes:
        """Stamp the response, in those few events that carry it."""
        stamp = self._around.response_overrides
        # Within a text these quotes would be escaped.
        if not stamp or b'"response"' not in block:
            return block
        frame = parse_event(block)
        try:
            return block if frame is None else _stamped(frame, stamp)
        except InvalidRequestError:
            # What is odd passes as it is: its own dialect may know what it means.
            return block

    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""
        around = self._around
        item_id = new_item_id(event.item, around.ids)
        block = self._blocks[event.index] = ItemStreamWriter(
            event, len(self._blocks), item_id, self._frames, self._output, around
        )
        return block.open()

    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of a block."""
        return self._blocks[event.index].write_delta(event)

    def close(self, event: Closed) -> list[bytes]:
        """End a block."""
        return self._blocks[event.index].close(event)

    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""
        if len(event.finishes) > 1 and not wants_one_choice(self._around.request):
            self._around.losses.changed("choices", SEVERAL_ANSWERS)
        items: tuple[Item, ...] = tuple(block.item() for block in self._blocks.values())
        outcome = make_outcome(worst_finish(event.finishes), items, self._around)
        outcome.usage = usage_or_zeros(event.usage, self._around.losses)
        ExtrasWriter("responses", LABEL, self._around.losses).report_dropped(event.extras)
        if self._response is not None and event.service_tier is not None:
            self._response.service_tier = event.service_tier
        return [self._tell(outcome), DONE]

    def fail(self, event: Failed) -> list[bytes]:
        """End the stream as a failure."""
        written: list[bytes] = []
        if self._response is None:
            written += self.start(Started())
        for index, block in self._blocks.items():
            # A call that may not be whole is not told as done: Codex would run it.
            if not block.is_closed and not block.is_call:
                written += block.close(Closed(index, "incomplete"))
        return [*written, *self._break_off(event)]

    def _break_off(self, event: Failed) -> list[bytes]:
        error = self._error(event.error)
        outcome = ResponseSnapshot("failed", error=write_failure(event.error))
        if event.usage is not None:
            outcome.usage = write_usage(event.usage)
        return [error, self._tell(outcome), DONE]

    def fail_relayed(self, failed: Failed, passed: int) -> list[bytes]:
        """End, as a failure, a stream whose events are another server's.

        How far its items had come, only that server knows: none is closed in its place.
        """
        begun = self.start(Started()) if self._response is None else []
        self._frames.skip_to(passed)
        return [*(begun if not passed else []), *self._break_off(failed)]

    def _error(self, error: Error) -> bytes:
        return self._frames.event("error", error_fields(error))

    def _tell(self, outcome: ResponseSnapshot) -> bytes:
        """Tell the whole response, for the last time."""
        response = self._response
        if response is None:
            raise AssertionError("a response is told before it is started")
        outcome.output = [block.write_item("incomplete") for block in self._blocks.values()]
        self._reply = response.write(outcome)
        return self._frames.event(f"response.{outcome.status}", {"response": self._reply})

    @property
    def reply(self) -> Mapping[str, object] | None:
        """The response object of the last event."""
        return self._reply

    def note_relayed_end(self, block: bytes) -> None:
        """Read the response and the number of the event that ended a relayed stream."""
        frame = parse_event(block.rstrip(b"\n"))
        if frame is None or not frame.data.startswith(b"{"):
            return
        with suppress(*DECODE_ERRORS):
            end = _END.decode(frame.data)
            if end.type in _TERMINAL and end.response:
                self._reply = _OBJECT.decode(end.response)
                self._frames.skip_to(end.sequence_number + 1)

    def fail_after_end(self, last: list[bytes], error: Error) -> list[bytes]:
        """Return the last frames with a failed response in place of the one that ended them."""
        if self._reply is None:
            return super().fail_after_end(last, error)
        failure = {"code": "server_error", "message": error.message}
        failed = dict(self._reply) | {"status": "failed", "error": failure}
        self._frames.step_back()
        return [
            *without_done(last)[:-1],
            self._error(error),
            self._frames.event("response.failed", {"response": failed}),
            DONE,
        ]


class _End(Struct):
    """The event that ends a stream of another server."""

    type: str = ""
    response: Raw = MISSING
    sequence_number: int = 0


_END = msgspec.json.Decoder(_End)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_TERMINAL = frozenset(
    ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
)


def _stamped(frame: Frame, stamp: Mapping[str, object]) -> bytes:
    fields = read_body(frame.data)
    response = fields.nested("response")
    if response is None:
        raise InvalidRequestError("response", "it is missing")
    data = read_body(frame.data).encode_with(response=Raw(response.encode_with(**stamp)))
    return (b"event: %b\ndata: %b" % (frame.name, data)) if frame.name else b"data: " + data
