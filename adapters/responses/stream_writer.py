"""Writer of streams for Responses clients."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.dialect import BaseStreamWriter, ReplyContext, without_done
from adapters.errors import InvalidRequestError
from adapters.ir.accumulator import ItemBuffer, PartBuffer
from adapters.ir.events import BlockId, Channel, Closed, Delta, Failed, Finished, Opened, Started
from adapters.ir.normalize import MERGED_CHOICES_REASON, merged_finish, part_path
from adapters.ir.types import Error, Item, Message, OpaqueItem, Status, ToolCall
from adapters.json_text import DECODE_ERRORS
from adapters.responses.item_writer import write_annotations, write_logprobs
from adapters.responses.reply_writer import (
    OutputWriter,
    ResponseState,
    ResponseWriter,
    finished_state,
    image_link,
    output_item_id,
    write_response_error,
)
from adapters.responses.wire import (
    CALLS,
    DONE,
    IMAGE_CALL,
    PARTS,
    Frames,
    PartNames,
    Wire,
    delta_template,
    error_fields,
    usage_or_zeros,
    write_usage,
)
from adapters.sse import PLACEHOLDER, Frame, FrameTemplate, encode, parse_event, write_block
from adapters.wire.images import image_of
from adapters.wire.json_object import MISSING, NULL, read_body, read_fields


class ItemStreamWriter:
    """Writes the events of one item, and stores its content, which its last events repeat."""

    def __init__(
        self,
        opened: Opened,
        output_index: int,
        item_id: str,
        frames: Frames,
        output: OutputWriter,
        context: ReplyContext,
    ) -> None:
        self.buffer = ItemBuffer(opened)
        self.is_call = isinstance(opened.item, ToolCall)
        self.item_id = item_id
        self.output_index = output_index
        # Whether the client has received the beginning of the item.
        self.begun = False
        self._place: Wire = {"item_id": item_id, "output_index": output_index}
        self._frames = frames
        self._output = output
        self._keeps_reasoning = context.reply_options.reasoning_text or context.repairs
        self._losses = context.losses
        # The template of delta events for the open part or the call.
        self._template: FrameTemplate | None = None
        # How many annotations of the open part were written.
        self._annotations = 0

    @property
    def stays_open(self) -> bool:
        """Whether the item stays open in a failed response.

        Codex runs a call when it is done, and this one may be truncated.
        """
        item = self.buffer.opened.item
        return self.is_call or (isinstance(item, OpaqueItem) and item.kind.endswith("_call"))

    def open(self) -> list[bytes]:
        """Begin the item."""
        item = self.buffer.opened.item
        if isinstance(item, ToolCall):
            names = CALLS.get(item.kind)
            if names is None:
                # Begin the call when it is complete: its arguments cannot be streamed.
                return []
            fields = self._place | {"delta": PLACEHOLDER}
            self._template = delta_template(f"response.{names.event}.delta", fields)
        self.begun = True
        if image_of(item) is not None:
            return self._begin_image(item)
        return [self._item_event("added", item, "in_progress")]

    def _begin_image(self, item: Item) -> list[bytes]:
        """Begin an image without its data, which only the last event of its item has."""
        wire = self._write_item(item, "in_progress")
        begun = read_fields(Raw(encode(wire))).encode_with(result=None, status="in_progress")
        added: Wire = {"output_index": self.output_index, "item": Raw(begun)}
        return [
            self._frames.event("response.output_item.added", added),
            self._frames.event(f"response.{IMAGE_CALL}.in_progress", self._place),
            self._frames.event(f"response.{IMAGE_CALL}.generating", self._place),
        ]

    def write_delta(self, delta: Delta) -> list[bytes]:
        """Write a delta; the first one of a part begins the part."""
        buffer = self.buffer
        written: list[bytes] = []
        if delta.part >= len(buffer.parts) and not self.is_call:
            written += self._end_part()
            buffer.add(delta)
            written += self._begin_part(delta.channel)
        else:
            buffer.add(delta)
        if delta.logprobs:
            fields = {"delta": delta.text, "logprobs": write_logprobs(delta.logprobs)}
            kind = f"response.{self._names(delta.channel).text_event}.delta"
            written.append(self._frames.event(kind, self._part_place() | fields))
        elif delta.text and self._template is not None:
            written.append(self._frames.delta(self._template, delta.text))
        if delta.annotations:
            written += self._write_annotations(delta)
        return written

    def _write_annotations(self, delta: Delta) -> Iterator[bytes]:
        path = self._part_path(delta.part)
        for annotation in write_annotations(delta.annotations, path, self._losses):
            fields: Wire = {"annotation_index": self._annotations, "annotation": annotation}
            kind = "response.output_text.annotation.added"
            yield self._frames.event(kind, self._part_place() | fields)
            self._annotations += 1

    def close(self, closed: Closed) -> list[bytes]:
        """End the item."""
        item = self.buffer.opened.item
        written = self._end_call(item) if isinstance(item, ToolCall) else self._end_part()
        if image_of(item) is not None:
            written.append(self._frames.event(f"response.{IMAGE_CALL}.completed", self._place))
        self.begun = True
        # Remove parts other than text, which cannot be streamed.
        self.buffer.closed = replace(closed, parts=()) if closed.parts else closed
        written.append(self._item_event("done", self.buffer.item(), closed.status))
        return written

    def _end_call(self, call: ToolCall) -> list[bytes]:
        names = CALLS.get(call.kind)
        if names is None:
            # A tool search may begin without arguments, other calls may not.
            begun = call if call.kind == "tool_search" else self.buffer.item()
            return [self._item_event("added", begun, "in_progress")]
        fields = self._place | {names.field: "".join(self.buffer.texts("arguments"))}
        if call.kind == "function":
            # OpenAI's latest types do not have it, but other types require it.
            fields["name"] = call.name
        return [self._frames.event(f"response.{names.event}.done", fields)]

    def write_item(self, status: Status) -> Wire | Raw:
        """Write the item so far, with this status unless it is closed."""
        if self.buffer.closed is not None:
            status = self.buffer.closed.status
        return self._write_item(self.buffer.item(), status)

    def _write_item(self, item: Item, status: Status) -> Wire | Raw:
        return self._output.write(item, self.item_id, status)

    def _item_event(self, step: str, item: Item, status: Status) -> bytes:
        written = self._write_item(item, status)
        fields: Wire = {"output_index": self.output_index, "item": written}
        return self._frames.event(f"response.output_item.{step}", fields)

    # Parts

    def _part_path(self, number: int) -> str:
        """Return the path of a part in the backend's reply."""
        item = self.buffer.opened.item
        return part_path(item, number) if isinstance(item, Message) else ""

    def _names(self, channel: Channel) -> PartNames:
        """Return the names of a channel; by default, reasoning is written as summaries."""
        if channel == "reasoning" and not self._keeps_reasoning:
            return PARTS["summary"]
        return PARTS[channel]

    def _part_place(self) -> Wire:
        """Return the fields that identify the open part, numbered among parts of its kind."""
        *before, part = self.buffer.parts
        index = self._names(part.channel).index
        number = sum(self._names(other.channel).index == index for other in before)
        return self._place | {index: number}

    def _begin_part(self, channel: Channel) -> list[bytes]:
        names = self._names(channel)
        place = self._part_place()
        fields = place | {"delta": PLACEHOLDER}
        if channel == "text":
            fields["logprobs"] = ()
        self._template = delta_template(f"response.{names.text_event}.delta", fields)
        self._annotations = 0
        empty = self._write_part(names, PartBuffer(channel))
        return [self._frames.event(f"response.{names.part_event}.added", place | {"part": empty})]

    def _end_part(self) -> list[bytes]:
        if not self.buffer.parts:
            return []
        part = self.buffer.parts[-1]
        names = self._names(part.channel)
        place = self._part_place()
        text = place | {names.field: part.text()}
        if part.channel == "text":
            text["logprobs"] = write_logprobs(part.logprobs)
        complete = self._write_part(names, part)
        return [
            self._frames.event(f"response.{names.text_event}.done", text),
            self._frames.event(f"response.{names.part_event}.done", place | {"part": complete}),
        ]

    def _write_part(self, names: PartNames, part: PartBuffer) -> Wire:
        if part.channel in ("text", "refusal"):
            return self._output.write_part(part.part(), self._part_path(len(self.buffer.parts) - 1))
        return {"type": names.part, names.field: part.text()}


class StreamWriter(BaseStreamWriter):
    """Writes events as the frames of a Responses stream."""

    item_writer = ItemStreamWriter

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self._context = context
        self._losses = context.losses
        self._frames = Frames()
        self._output = OutputWriter(context)
        self._response: ResponseWriter | None = None
        self._items: dict[BlockId, ItemStreamWriter] = {}
        # The response object of the last event.
        self._reply: Mapping[str, object] | None = None

    def start(self, event: Started) -> list[bytes]:
        """Begin the stream, unless `keep_alive` has begun it."""
        if self._response is not None:
            self._response.keep(event.extras)
            self._response.service_tier = event.service_tier or self._response.service_tier
            return []
        self._response = ResponseWriter(event, self._context)
        self._response.keep(event.extras)
        # Encoded once for both events.
        response = Raw(encode(self._write_response(ResponseState("in_progress"))))
        return [
            self._frames.event("response.created", {"response": response}),
            self._frames.event("response.in_progress", {"response": response}),
        ]

    def keep_alive(self) -> list[bytes]:
        """Repeat that the response is in progress.

        Comments do not reset the idle timer of Codex (https://github.com/Menci/Floway/issues/498).
        """
        if self._response is None:
            return self.start(Started())
        response = self._write_response(ResponseState("in_progress"))
        return [self._frames.event("response.in_progress", {"response": response})]

    def _write_response(self, state: ResponseState) -> Wire:
        if self._response is None:
            raise AssertionError("the stream was not started")
        return self._response.write(state)

    def open(self, event: Opened) -> list[bytes]:
        """Begin a block."""
        link = image_link(event.item, self._losses)
        if link is not None:
            path = getattr(event.item, "path", "")
            event = replace(event, item=Message("assistant", path=path))
        used_ids = {item.item_id for item in self._items.values()}
        item_id = output_item_id(event.item, self._context.ids, used_ids)
        self._losses.place(getattr(event.item, "path", ""), f"output[{len(self._items)}]")
        item = self._items[event.index] = self.item_writer(
            event, len(self._items), item_id, self._frames, self._output, self._context
        )
        written = item.open()
        if link is not None:
            written += item.write_delta(Delta(event.index, "text", link))
        return written

    def write_delta(self, event: Delta) -> list[bytes]:
        """Write a piece of a block."""
        return self._items[event.index].write_delta(event)

    def close(self, event: Closed) -> list[bytes]:
        """End a block."""
        return self._items[event.index].close(event)

    def finish(self, event: Finished) -> list[bytes]:
        """End the stream."""
        if len(event.finishes) > 1:
            self._losses.changed("choices", MERGED_CHOICES_REASON)
        items = [item.buffer.opened.item for item in self._items.values()]
        state = finished_state(merged_finish(event.finishes), items, self._context)
        state.usage = usage_or_zeros(event.usage, self._losses)
        if self._response is not None:
            self._response.keep(event.extras)
            self._response.service_tier = event.service_tier or self._response.service_tier
        return [self._end(state), DONE]

    def fail(self, event: Failed) -> list[bytes]:
        """End the stream with an error."""
        written = self.start(Started()) if self._response is None else []
        for index, item in self._items.items():
            if item.buffer.closed is None and not item.stays_open:
                written += item.close(Closed(index, "incomplete"))
        return [*written, *self._end_failed(event)]

    def _end_failed(self, event: Failed) -> list[bytes]:
        error = self._frames.event("error", error_fields(event.error))
        state = ResponseState("failed", error=write_response_error(event.error))
        if event.usage is not None:
            state.usage = write_usage(event.usage)
        return [error, self._end(state), DONE]

    def _end(self, state: ResponseState) -> bytes:
        """Write the event with the complete response."""
        items = (item for item in self._items.values() if item.begun)
        state.output = [item.write_item("incomplete") for item in items]
        self._reply = self._write_response(state)
        return self._frames.event(f"response.{state.status}", {"response": self._reply})

    @property
    def reply(self) -> Mapping[str, object] | None:
        """The response object of the last event."""
        return self._reply

    def fail_after_end(self, last: list[bytes], error: Error) -> list[bytes]:
        """Return the last frames with an error and a failed response instead of the final one."""
        if self._reply is None:
            return super().fail_after_end(last, error)
        failure = {"code": "server_error", "message": error.message}
        failed = dict(self._reply) | {"status": "failed", "error": failure}
        self._frames.next_number -= 1
        return [
            *without_done(last)[:-1],
            self._frames.event("error", error_fields(error)),
            self._frames.event("response.failed", {"response": failed}),
            DONE,
        ]

    # Streams of a Responses backend, which are forwarded unchanged

    def is_heartbeat(self, frame: Frame) -> bool:
        """Whether a frame only says that the response is in progress."""
        return frame.name == b"response.in_progress"

    def renumber_heartbeat(self, heartbeat: bytes, passed: int) -> bytes:
        """Return the frame with the number of the last event, so that numbers stay in order."""
        return _SEQUENCE_NUMBER.sub(rb"\g<1>%d" % (passed - 1), heartbeat)

    def override_response_fields(self, block: bytes) -> bytes:
        """Return an event with the gateway's fields in its response object, if it has one."""
        overrides = self._context.response_overrides
        # Within a JSON string, these quotes would be escaped.
        frame = parse_event(block) if overrides and b'"response"' in block else None
        if frame is None:
            return block
        try:
            fields = read_body(frame.data).take_all()
            response = read_fields(fields.get("response", NULL)).encode_with(**overrides)
        except InvalidRequestError:
            # Forward an invalid event: the client may be able to read it.
            return block
        return write_block(Frame(frame.name, encode(fields | {"response": Raw(response)})))

    def note_passed_end(self, block: bytes) -> None:
        """Store the response and the number of the event that ended the stream."""
        frame = parse_event(block.rstrip(b"\n"))
        if frame is None or not frame.data.startswith(b"{"):
            return
        with suppress(*DECODE_ERRORS):
            end = _TERMINAL_EVENT.decode(frame.data)
            if end.type in _TERMINAL_TYPES and end.response:
                self._reply = _OBJECT.decode(end.response)
                self._frames.next_number = end.sequence_number + 1

    def fail_passed(self, failed: Failed, passed: int) -> list[bytes]:
        """End the stream with an error; open items stay open, because their content is unknown."""
        written = self.start(Started()) if self._response is None else []
        if passed:
            self._frames.next_number = passed
            written = []
        return [*written, *self._end_failed(failed)]


# The last field of the gateway's own events, and any field of a backend's events.
_SEQUENCE_NUMBER = re.compile(rb'("sequence_number"\s*:\s*)\d+')


class _TerminalEvent(Struct):
    type: str = ""
    response: Raw = MISSING
    sequence_number: int = 0


_TERMINAL_EVENT = msgspec.json.Decoder(_TerminalEvent)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_TERMINAL_TYPES = frozenset(
    ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
)
