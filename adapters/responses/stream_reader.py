"""Reader of the stream of a Responses backend."""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from adapters.dialect import BaseStreamReader, ReplyContext, decode_event
from adapters.errors import InvalidRequestError, missing_field
from adapters.ir.events import Channel, Event, Failed, Finished, Started, truncated_stream
from adapters.ir.types import Error, Finish, Item, OpaqueItem, Reply, ToolCall, Usage
from adapters.json_text import DECODE_ERRORS
from adapters.losses import Losses
from adapters.responses.item_stream_reader import ItemStreamReader
from adapters.responses.reply_reader import read_output_item, read_response
from adapters.responses.stream_event import (
    EVENT,
    EVENT_TYPE,
    LENIENT_EVENT,
    EventType,
    WireEvent,
)
from adapters.responses.streamed_items import Content
from adapters.responses.wire import CALLS, FAMILY, PARTS
from adapters.sse import Frame, is_done
from adapters.wire.content import read_annotation, read_streamed_logprobs
from adapters.wire.error_body import infer_status, read_error_value
from adapters.wire.json_object import (
    JsonObject,
    decode,
    is_present,
    read_body,
    read_fields,
    string_or_raw_json,
)
from adapters.wire.malformed_values import read_or_drop, read_tolerantly

_EMPTY_OBJECT = Raw(b"{}")
_RUNNING = (Raw(b'"queued"'), Raw(b'"in_progress"'))

_EventReader = Callable[[WireEvent], list[Event]]


class StreamReader(BaseStreamReader):
    """Converts the frames of a Responses stream to IR events."""

    def __init__(self, context: ReplyContext, details: Losses | None = None) -> None:
        self._context = context
        # Where losses of details are reported.
        self._losses = context.losses if details is None else details
        self._items = ItemStreamReader(context.losses, context.call_ids)
        self._started = False
        self._ended = False
        self._readers = self._make_readers()

    def _make_readers(self) -> dict[str, _EventReader]:
        """Return the reader of each type of event; events of other types are ignored."""
        readers: dict[str, _EventReader] = {
            "response.created": self._start,
            "response.queued": self._start,
            "response.in_progress": self._start,
            "response.output_item.added": self._add_item,
            "response.output_item.done": self._end_item,
            "response.output_text.annotation.added": self._read_annotation,
            "response.completed": self._end,
            "response.incomplete": self._end,
            "response.failed": self._end,
            "response.cancelled": self._end,
            "error": self._read_error,
            # The names of `response.reasoning_text` in Open Responses.
            "response.reasoning.delta": partial(self._read_delta, "reasoning"),
            "response.reasoning.done": partial(self._read_text, "reasoning"),
        }
        # The events of parts are not needed, because a part begins with its first text.
        for channel, part in PARTS.items():
            readers[f"response.{part.text_event}.delta"] = partial(self._read_delta, channel)
            readers[f"response.{part.text_event}.done"] = partial(self._read_text, channel)
        for call in CALLS.values():
            readers[f"response.{call.event}.delta"] = partial(self._read_delta, "arguments")
            readers[f"response.{call.event}.done"] = partial(self._read_text, "arguments")
        return readers

    def read(self, frame: Frame) -> list[Event]:
        """Read one frame; raise `InvalidRequestError` if it cannot be read."""
        return [] if self._ended or is_done(frame) else self._read_event(frame)[1]

    def _read_event(self, frame: Frame) -> tuple[WireEvent, list[Event]]:
        try:
            event = self._decode(frame.data)
        except InvalidRequestError:
            if frame.whole or b'"output"' not in frame.data:
                raise
            # A whole reply has fields with the names of those of events, and other types.
            event = WireEvent()
        return event, self._convert(event, frame)

    def _convert(self, event: WireEvent, frame: Frame) -> list[Event]:
        kind = event.type
        if not kind:
            # Some servers send a JSON body instead of a stream, or an error without a type.
            has_error = is_present(event.error)
            if not (frame.whole or has_error):
                return self._read_body(frame.data)
            kind = frame.name.decode("ascii", "replace") or ("error" if has_error else "")
        reader = self._readers.get(kind)
        if reader is None:
            return []
        # Do not start the reply for an error, which may still become an HTTP error.
        if self._started or reader in (self._start, self._read_error):
            return reader(event)
        return self._start(event) + reader(event)

    def flush(self) -> list[Event]:
        """Read the end of the stream; a reply without a final event is truncated."""
        return [] if self._ended else self.fail(truncated_stream())

    def _decode(self, data: bytes, error: msgspec.ValidationError | None = None) -> WireEvent:
        """Decode an event; ignore the fields of an unknown event, which may have other types.

        It must not end the stream (https://github.com/experientiallabs/experiential/issues/792).
        """
        if error is None:
            return decode_event(data, EVENT, self._decode, self._losses)
        try:
            other = EVENT_TYPE.decode(data)
        except DECODE_ERRORS:
            other = EventType()
        if other.type not in self._readers and other.type:
            return WireEvent(other.type, other.sequence_number)
        try:
            return read_tolerantly(
                lambda raw: decode(raw, LENIENT_EVENT, ""), Raw(data), "", self._losses
            )
        except InvalidRequestError as invalid:
            reason = f"an event of the stream is invalid: {invalid}"
            raise InvalidRequestError(None, reason) from None

    def _start(self, event: WireEvent) -> list[Event]:
        if self._started:
            return []
        self._started = True
        given = event.response if is_present(event.response) else _EMPTY_OBJECT
        started = read_or_drop(_read_started, given, "response", self._losses)
        return [Started() if started is None else started]

    # Items and their parts

    def _add_item(self, event: WireEvent) -> list[Event]:
        if not is_present(event.item):
            return []
        item = self._read_item(event)
        if isinstance(item, OpaqueItem) or (isinstance(item, ToolCall) and item.kind not in CALLS):
            return self._begin_opaque(item, event)
        return self._items.begin(item, event.output_index)

    def _begin_opaque(self, _item: Item, _event: WireEvent) -> list[Event]:
        """Return no events: the item is not streamed, and is read when it is complete."""
        return []

    def _read_item(self, event: WireEvent) -> Item:
        path = event.item_path()
        return read_tolerantly(
            lambda raw: read_output_item(raw, path, self._context), event.item, path, self._losses
        )

    def _end_item(self, event: WireEvent) -> list[Event]:
        if not is_present(event.item):
            return []
        item = self._read_item(event)
        return self._items.end(item, event.output_index)

    def _read_delta(self, channel: Channel, event: WireEvent) -> list[Event]:
        item = self._items.find(event.item_id, event.output_index, channel)
        text = string_or_raw_json(event.delta)
        given = event.logprobs
        logprobs = (
            read_streamed_logprobs(given, "logprobs", self._losses) if is_present(given) else ()
        )
        return self._items.add(item, channel, event.part_index(), text, logprobs)

    def _read_text(self, channel: Channel, event: WireEvent) -> list[Event]:
        """Read the complete text of a part or a call."""
        item = self._items.find(event.item_id, event.output_index, channel)
        text = event.refusal if channel == "refusal" else event.text
        if channel == "arguments":
            given = is_present(event.arguments)
            text = string_or_raw_json(event.arguments) if given else event.input
        if text is None or item.closed:
            return []
        events = self._items.complete(item, Content(channel, event.part_index(), text))
        return events + self._items.end_arguments(item) if channel == "arguments" else events

    def _read_annotation(self, event: WireEvent) -> list[Event]:
        if not is_present(event.annotation):
            return []
        item = self._items.find(event.item_id, event.output_index, "text")
        read = partial(read_annotation, family=FAMILY, path="annotation")
        annotation = read_or_drop(read, event.annotation, "annotation", self._losses)
        if annotation is None:
            return []
        return self._items.annotate(item, event.part_index(), annotation)

    # The end

    def _read_body(self, body: bytes) -> list[Event]:
        """Read a complete reply that the backend sent instead of a stream."""
        reply = read_response(read_body(body), self._context)
        if reply.error is not None:
            return self.fail(reply.error, reply.usage)
        self._started = True
        started = Started(reply.id, reply.model, reply.created, reply.service_tier)
        return [started, *self._finish(reply)]

    def _end(self, event: WireEvent) -> list[Event]:
        if not is_present(event.response):
            raise missing_field("response")
        # Do not report losses again: the items were already read from the stream.
        context = replace(self._context, losses=Losses(None))
        malformed = Losses(None)
        status = event.type.removeprefix("response.")
        reply = read_tolerantly(
            lambda raw: read_response(self._response_fields(raw), context, status),
            event.response,
            "response",
            malformed,
        )
        for loss in malformed:
            if not loss.path.startswith("response.output["):
                self._losses.dropped(loss.path, loss.reason, loss.severity)
        if reply.error is not None:
            return self.fail(reply.error, reply.usage)
        return self._finish(reply)

    def _finish(self, reply: Reply) -> list[Event]:
        [choice] = reply.choices
        finish = choice.finish or Finish("stop", "")
        self._ended = True
        events: list[Event] = []
        for index, item in enumerate(choice.items):
            events += self._items.end_finally(item, index)
        events += self._items.close_all(truncated=finish.reason in ("length", "filter"))
        events.append(Finished((finish,), reply.usage, reply.service_tier, reply.extras))
        return events

    def _response_fields(self, raw: Raw) -> JsonObject:
        """Return the fields of the final response that are read."""
        fields = read_fields(raw, "response").take_all()
        if fields.get("status") in _RUNNING:
            # The type of the event is right.
            del fields["status"]
        return JsonObject(fields, "response")

    def _read_error(self, event: WireEvent) -> list[Event]:
        """Read an error, whose fields are flat for OpenAI and nested for Open Responses."""
        if is_present(event.error):
            return self.fail(read_error_value(event.error, None))
        code = string_or_raw_json(event.code) or None
        return self.fail(Error(event.message or "the backend failed", code=code, param=event.param))

    def fail(self, failed: Error | Failed, usage: Usage | None = None) -> list[Event]:
        """End the stream with an error."""
        self._ended = True
        return [Failed(infer_status(failed), usage) if isinstance(failed, Error) else failed]


def _read_started(raw: Raw) -> Started:
    """Read the first response object of a stream."""
    fields = read_fields(raw, "response")
    created = fields.number("created_at")
    return Started(
        fields.string("id") or "",
        fields.string("model") or "",
        None if created is None else int(created),
        fields.string("service_tier"),
    )
