"""Reads the stream of a Responses backend, leniently."""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.dialect import BaseStreamReader, ReplyContext
from adapters.errors import InvalidRequestError
from adapters.ir.events import Channel, Event, Failed, Finished, Started, truncated_stream
from adapters.ir.types import (
    Error,
    Extras,
    Finish,
    Item,
    OpaqueItem,
    Reply,
    ToolCall,
    Usage,
)
from adapters.json_text import DECODE_ERRORS, is_utf8, replace_invalid_text
from adapters.losses import Losses
from adapters.responses.item_reader import read_output_item
from adapters.responses.reply import read_response
from adapters.responses.stream_items import Content, ItemsReader
from adapters.responses.wire import CALLS, PARTS
from adapters.sse import Frame, is_done
from adapters.wire.content import read_annotation, read_logprobs
from adapters.wire.error_body import infer_status, read_error_value
from adapters.wire.json_object import (
    MISSING,
    JsonObject,
    is_present,
    read_body,
    read_fields,
    string_or_raw_json,
)


class WireEvent(Struct, gc=False):
    """One event as servers send it: every field may be missing."""

    type: str = ""
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Raw = MISSING
    text: str | None = None
    refusal: str | None = None
    arguments: Raw = MISSING
    input: str | None = None
    item: Raw = MISSING
    part: Raw = MISSING
    response: Raw = MISSING
    annotation: Raw = MISSING
    logprobs: Raw = MISSING
    error: Raw = MISSING
    code: Raw = MISSING
    message: str | None = None
    param: str | None = None

    def part_index(self) -> int:
        """Give the number of the part, under either of its names."""
        return self.content_index or self.summary_index or 0


class Kind(Struct, gc=False):
    """Just what an event is."""

    type: str = ""


_EVENT = msgspec.json.Decoder(WireEvent)
_KIND = msgspec.json.Decoder(Kind)

Handler = Callable[[WireEvent], list[Event]]


class StreamReader(BaseStreamReader):
    """Frames in, events out."""

    def __init__(self, around: ReplyContext) -> None:
        self._around = around
        self._quiet = replace(around, losses=Losses(None))
        self._items = ItemsReader(around.losses)
        self._started = False
        self._ended = False
        self._handlers = self._make_handlers()

    def _make_handlers(self) -> dict[str, Handler]:
        """Say what is done with each event. What is not here concerns items that come whole."""
        handlers: dict[str, Handler] = {
            "response.created": self._begin,
            "response.queued": self._begin,
            "response.in_progress": self._begin,
            "response.output_item.added": self._add_item,
            "response.output_item.done": self._end_item,
            "response.output_text.annotation.added": self._annotate,
            "response.completed": self._end,
            "response.incomplete": self._end,
            "response.failed": self._end,
            "response.cancelled": self._end,
            "error": self._read_error,
            # The names that Open Responses has for thoughts.
            "response.reasoning.delta": partial(self._fill, "reasoning"),
            "response.reasoning.done": partial(self._complete, "reasoning"),
        }
        # That a part begins, its first text tells.
        for channel, words in PARTS.items():
            handlers[words.delta] = partial(self._fill, channel)
            handlers[words.done] = partial(self._complete, channel)
        for call in CALLS.values():
            handlers[call.delta] = partial(self._fill, "arguments")
            handlers[call.done] = partial(self._complete, "arguments")
        return handlers

    def read(self, frame: Frame) -> list[Event]:
        """Take one frame; raise `InvalidInput` if it cannot be read."""
        if self._ended or is_done(frame):
            return []
        event = self._decode(frame.data)
        if not (frame.whole or event.type or is_present(event.error)):
            return self._read_body(frame.data)
        handler = self._handler(event.type or frame.name.decode("ascii", "replace"), event)
        if handler is None:
            return []
        return handler(event) if self._started else self._begin_with(handler, event)

    def _handler(self, kind: str, event: WireEvent) -> Handler | None:
        if not kind and is_present(event.error):
            # The envelope of an error, bare.
            return self._read_error
        return self._handlers.get(kind)

    def flush(self) -> list[Event]:
        """Learn that the stream is over: without a last event it was cut (P157)."""
        if self._ended:
            return []
        return self.fail(truncated_stream())

    def _decode(self, data: bytes) -> WireEvent:
        """Decode a frame; what is carried as `Raw` must be text, too."""
        if not data.isascii() and not is_utf8(data):
            return self._decode_replaced(data)
        try:
            return _EVENT.decode(data)
        except msgspec.ValidationError as error:
            return self._decode_unknown(data, error)
        except DECODE_ERRORS:
            return self._decode_replaced(data)

    def _decode_replaced(self, data: bytes) -> WireEvent:
        """Decode a frame with something in it that is no character, if that is all."""
        text = replace_invalid_text(data)
        if text == data:
            raise InvalidRequestError(None, "an event of the stream is not JSON")
        event = self._decode(text)
        self._around.losses.changed("stream", "what is no character is replaced")
        return event

    def _decode_unknown(self, data: bytes, error: msgspec.ValidationError) -> WireEvent:
        """Pass over an event whose fields are other than ours, unless it is one of ours (P034)."""
        try:
            kind = _KIND.decode(data).type
        except DECODE_ERRORS:
            kind = ""
        if kind in self._handlers or not kind:
            raise InvalidRequestError(None, f"an event of the stream cannot be read: {error}")
        return WireEvent(kind)

    # The beginning

    def _begin_with(self, handler: Handler, event: WireEvent) -> list[Event]:
        """Begin with whatever comes first."""
        if handler == self._begin:
            return self._begin(event)
        if handler == self._read_error:
            # Nothing has begun: the error stands alone, and may still become one of HTTP.
            return handler(event)
        return [*self._begin(event), *handler(event)]

    def _begin(self, event: WireEvent) -> list[Event]:
        if self._started:
            return []
        fields = _inner(event.response, "response")
        created = fields.number("created_at")
        started = Started(
            fields.string("id") or "",
            fields.string("model") or "",
            None if created is None else int(created),
            fields.string("service_tier"),
        )
        self._started = True
        return [started]

    # Items and their parts

    def _read_item(self, raw: Raw) -> Item:
        def new_call_id(name: str, _arguments: str) -> str:
            self._around.losses.invented(f"call {name}", "the backend gave the call no id")
            return self._around.ids.id("call_")

        return read_output_item(raw, "item", new_call_id)

    def _add_item(self, event: WireEvent) -> list[Event]:
        if not is_present(event.item):
            return []
        item = self._read_item(event.item)
        if isinstance(item, OpaqueItem) or (isinstance(item, ToolCall) and item.kind not in CALLS):
            # Told when it is whole.
            return []
        incoming = self._items.find_item(item, event.output_index)
        return list(self._items.begin(incoming, item))

    def _end_item(self, event: WireEvent) -> list[Event]:
        if not is_present(event.item):
            return []
        item = self._read_item(event.item)
        incoming = self._items.find_item(item, event.output_index)
        return list(self._items.finish(incoming, item))

    def _fill(self, channel: Channel, event: WireEvent) -> list[Event]:
        incoming = self._items.find(event.item_id, event.output_index)
        text = string_or_raw_json(event.delta)
        logprobs = (
            () if not is_present(event.logprobs) else read_logprobs(event.logprobs, "logprobs")
        )
        return self._items.fill(incoming, channel, event.part_index(), text, logprobs)

    def _complete(self, channel: Channel, event: WireEvent) -> list[Event]:
        incoming = self._items.find(event.item_id, event.output_index)
        text = _whole_text(channel, event)
        if text is None or incoming.closed:
            return []
        return list(self._items.complete(incoming, Content(channel, event.part_index(), text)))

    def _annotate(self, event: WireEvent) -> list[Event]:
        if not is_present(event.annotation):
            return []
        incoming = self._items.find(event.item_id, event.output_index)
        found = (read_annotation(event.annotation, "responses"),)
        return self._items.fill(incoming, "text", event.part_index(), "", (), found)

    # The end

    def _read_body(self, body: bytes) -> list[Event]:
        """Read a JSON body, which some servers send where a stream was asked for."""
        fields = read_body(body)
        reply = read_response(fields, self._around)
        if reply.error is not None:
            return self.fail(reply.error, reply.usage)
        self._started = True
        started = Started(reply.id, reply.model, reply.created, reply.service_tier)
        return [started, *self._finish(reply)]

    def _end(self, event: WireEvent) -> list[Event]:
        if not is_present(event.response):
            raise InvalidRequestError("response", "the last event does not say how it ended")
        ended = event.type.removeprefix("response.")
        # Most of it was told before: of what is wrong with it, that has been said.
        reply = read_response(read_fields(event.response, "response"), self._quiet, ended)
        if reply.error is not None:
            return self.fail(reply.error, reply.usage)
        return self._finish(reply)

    def _finish(self, reply: Reply) -> list[Event]:
        (choice,) = reply.choices
        finish = choice.finish or Finish("stop", "")
        self._ended = True
        events: list[Event] = []
        for place, item in enumerate(choice.items):
            if getattr(item, "item_id", None) is None and self._items.find_already_sent(item):
                continue
            incoming = self._items.find_item(item, place)
            events += self._items.finish(incoming, item)
        events += self._items.close_all(cut=finish.reason in ("length", "filter"))
        extras: Extras = reply.extras
        events.append(Finished((finish,), reply.usage, reply.service_tier, extras))
        return events

    def _read_error(self, event: WireEvent) -> list[Event]:
        """Read an error, flat or nested (P126)."""
        if is_present(event.error):
            return self.fail(read_error_value(event.error, None))
        code = string_or_raw_json(event.code) or None
        return self.fail(Error(event.message or "the backend failed", code=code, param=event.param))

    def fail(self, failed: Error | Failed, usage: Usage | None = None) -> list[Event]:
        """End the stream as a failure."""
        self._ended = True
        return [Failed(infer_status(failed), usage) if isinstance(failed, Error) else failed]


def _inner(raw: Raw, path: str) -> JsonObject:
    return read_fields(raw, path) if is_present(raw) else JsonObject({}, path)


def _whole_text(channel: Channel, event: WireEvent) -> str | None:
    """Give the text that a done event repeats."""
    if channel == "arguments":
        return string_or_raw_json(event.arguments) if is_present(event.arguments) else event.input
    return event.refusal if channel == "refusal" else event.text
