"""Translate a backend's reply for the client, whole or streamed on either side."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from adapters.dialect import COMMENT, ReplyContext, translate_error_param
from adapters.errors import DragomanError, InvalidReplyError, InvalidRequestError
from adapters.ir.accumulator import ReplyAccumulator, to_events
from adapters.ir.events import Delta, Event, Failed, Finished, Started, undecodable_stream
from adapters.ir.types import EMPTY_REQUEST, Error, FunctionTool, Reply, Request, Usage
from adapters.json_text import is_complete_json, is_utf8
from adapters.losses import Loss, Losses
from adapters.reasoning.capture import CaptureReasoning
from adapters.sse import (
    BYTE_ORDER_MARK,
    Decoder,
    Frame,
    encode,
    is_done,
    is_stream,
    parse_event,
    write_block,
)
from adapters.stages.stage import Pipeline, Stage
from adapters.tool_emulation import (
    CallRestorer,
    CustomInput,
    EmulatedRequest,
    ToolRegistry,
    emulate_tools,
)
from adapters.translation.options import TranslationOptions
from adapters.translation.redaction import redact_errors, redact_frame, redact_text
from adapters.translation.reply_stages import downgrade_stages, reply_stages
from adapters.translation.request import ReplyPlan, tool_support
from adapters.wire.error_body import (
    CONTEXT_OVERFLOW,
    infer_status,
    is_error,
    read_error,
    read_error_value,
    to_error,
)
from adapters.wire.json_object import JsonObject, read_body

_OK: Final = 200
_FIRST_ERROR: Final = 400
_INTERNAL_ERROR: Final = 500
# This much of a body's beginning tells a stream from JSON.
_SNIFFED_BYTES: Final = 64
_LAST: Final = (Finished, Failed)

_IN_STORED_REPLY: Final = "in the completion that is kept"


class ReplyEnd(Struct, frozen=True):
    """The end of a reply: what is still to be sent, and what is known only now."""

    # The last frames of a stream, or the whole body.
    body: bytes
    status: int = _OK
    # Whether `body` ends a stream; otherwise it is a whole JSON body.
    streamed: bool = False
    # Why the reply failed, if it did.
    error: Error | None = None
    # Whether the backend reported the error, or the gateway found it.
    error_origin: Literal["backend", "gateway"] | None = None
    usage: Usage | None = None
    losses: tuple[Loss, ...] = ()
    # The reply object that the client gets, if it is known: Responses objects always, a streamed
    # completion where the options ask for it.
    client_reply: Mapping[str, object] | None = None
    # Sealed reasoning by call id, for the store: the client does not carry it.
    reasoning: Mapping[str, str] = {}


def plan_reply(
    options: TranslationOptions, request: Request = EMPTY_REQUEST, *, streams: bool | None = None
) -> ReplyPlan:
    """Return the plan for a reply whose request was not translated here."""
    try:
        emulated = emulate_tools(
            request, options.client.family, tool_support(options), Losses(None)
        )
    except DragomanError:
        emulated = EmulatedRequest(request, ToolRegistry())
    client_streams = bool(request.stream) if streams is None else streams
    return ReplyPlan(
        options,
        request,
        emulated,
        options.reasoning_policy(),
        client_streams,
        client_streams,
        passthrough=options.passes_requests and options.final_stage is None,
    )


class ReplyTranslator:
    """Bytes of a backend's reply in, bytes of the client's reply out.

    Whether either side streams is decided by the plan (the client) and by what the backend really
    sends. Everything that one `feed` brought comes out in one piece, except the end of the reply,
    which `finish` returns: the caller may have to store the reply before the client sees its end.
    """

    def __init__(self, plan: ReplyPlan, *, status: int = _OK, streamed: bool = False) -> None:
        self.plan = plan
        self.losses = Losses(None)
        # Whether anything of the reply itself has arrived. A stream that fails before can still
        # be answered with an HTTP error.
        self.has_content = False
        # The stages of the reply, once they were made.
        self._stages: list[Stage] = []
        self._options = plan.options
        self._status = status
        self._context = ReplyContext(
            plan.request,
            self._options.ids,
            self.losses,
            self._options.reply_options,
            self._options.response_overrides,
        )
        # A whole body, or the beginning of one that may be a stream.
        self._body: list[bytes] | None = None if streamed and status < _FIRST_ERROR else []
        self._stream: _TranslatedStream | _PassedStream | _CollectedStream | None = None
        if self._body is None:
            self._open_stream()

    # Feeding

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; return what to send now."""
        if self._stream is not None:
            sent = self._stream.feed(data)
            self.has_content = self._stream.has_content
            return sent
        if self._body is None:
            raise AssertionError("a reply is either a body or a stream")
        self._body.append(data)
        if len(self._body) == 1 and self._status < _FIRST_ERROR:
            return self._switch_if_stream(data)
        return b""

    def _switch_if_stream(self, data: bytes) -> bytes:
        """Read a body as a stream if it begins like one, whatever its content type."""
        if not is_stream(data[:_SNIFFED_BYTES]):
            return b""
        self._body = None
        return self._open_stream().feed(data)

    def _open_stream(self) -> "_TranslatedStream | _PassedStream | _CollectedStream":
        if not self.plan.client_streams:
            self._stream = _CollectedStream(self)
        elif self.plan.passthrough:
            self._stream = _PassedStream(self)
        else:
            self._stream = _TranslatedStream(self)
        return self._stream

    def note_truncated(self) -> None:
        """Note that the body broke off; a stream decides itself whether it was complete.

        Raises `InvalidReplyError` for a whole reply. Of an HTTP error the status is enough.
        """
        if self._body is None:
            return
        if self._status < _FIRST_ERROR:
            raise InvalidReplyError(None, "the backend's answer was cut off")
        self._body.clear()

    @property
    def is_stream(self) -> bool:
        """Whether the client gets a stream from here on, unless nothing has arrived yet."""
        return self._stream is not None and self.plan.client_streams

    @property
    def finished(self) -> bool:
        """True once the reply is complete; usage and the end of the stream may still follow."""
        return self._stream is not None and self._stream.finished

    @property
    def ended(self) -> bool:
        """True once nothing more is expected."""
        return self._stream is not None and self._stream.ended

    def heartbeat(self) -> bytes:
        """Return what to send while the backend is silent, in a form that clients count."""
        return b"" if self._stream is None else self._stream.heartbeat()

    # The end

    def finish(self, *, started: bool = False) -> ReplyEnd:
        """Return the end of the reply, after the last byte of the backend's.

        `started` is true if the client's stream has begun: then its status cannot change.
        """
        if self._stream is not None:
            self._stream.flush()
            self.has_content = self._stream.has_content
            return self._stream.end(started=started)
        body = b"".join(self._body or ()).removeprefix(BYTE_ORDER_MARK)
        if self._status >= _FIRST_ERROR:
            return self._error_end(body)
        return self._whole_end(redact_errors(body, self._options.redact))

    def fail(self, error: Error, *, started: bool = False) -> ReplyEnd:
        """Return the end of a reply that cannot be completed."""
        if self._stream is not None and self.plan.client_streams and started:
            self._stream.fail(error)
            return self._stream.end(started=True)
        if self._status >= _FIRST_ERROR:
            # The backend's status is known, only its message is missing.
            return self._error_end(b"")
        return self.error_end(error)

    def fail_to_store(self, end: ReplyEnd, error: Error, *, started: bool = False) -> ReplyEnd:
        """Return the end of a reply that could not be stored, in place of `end`."""
        if end.streamed and self._stream is not None:
            body = b"".join(self._stream.fail_after_end(error))
        elif end.streamed:
            writer = self._options.client.write_stream(self._context)
            body = b"".join(writer.fail_after_end([end.body], error))
        else:
            return self.error_end(error)
        del started
        return replace(end, body=body, error=error)

    # Errors

    def _error_end(self, body: bytes) -> ReplyEnd:
        """Translate the body of an HTTP error."""
        body = redact_text(body, self._options.redact)
        error = read_error(self._status, body)
        same = self._options.client is self._options.backend
        if same and _has_error_object(body) and error.code != CONTEXT_OVERFLOW:
            return ReplyEnd(body, self._status, error=error)
        return replace(self.error_end(error), status=self._status)

    def error_end(self, error: Error) -> ReplyEnd:
        """Return an HTTP error in the client's dialect in place of a reply."""
        error = infer_status(error)
        written = self._options.client.write_error(self.for_client(error))
        body = redact_text(written, self._options.redact)
        return ReplyEnd(body, error.status or _INTERNAL_ERROR, error=error)

    def for_client(self, error: Error) -> Error:
        """Return an error whose parameter is named as in the client's request."""
        options = self._options
        moved = not all(isinstance(tool, FunctionTool) for tool in self.plan.request.tools)
        param = translate_error_param(
            error.param, options.backend, options.client, tools_moved=moved
        )
        return error if param == error.param else replace(error, param=param)

    # Whole replies

    def _whole_end(self, body: bytes) -> ReplyEnd:
        if not self.plan.client_streams and self.plan.passthrough:
            return self._passed_end(body)
        try:
            reply = self._options.backend.read_reply(body, self.reader_context())
        except InvalidRequestError as error:
            raise invalid_reply(error) from None
        if self.plan.client_streams and reply.error is None:
            return self._streamed_end(reply)
        stages = self.stages()
        if stages:
            reply = Pipeline(*stages).reply(reply)
        return self.reply_end(reply)

    def _passed_end(self, body: bytes) -> ReplyEnd:
        """Pass a reply on; one that is just an error gets the status of an error."""
        overrides = self._options.response_overrides
        try:
            fields = read_body(body).take_all()
            reader = JsonObject(dict(fields))
            raw = reader.raw("error")
            if raw is not None and is_error(raw) and not reader.has("object"):
                error = infer_status(read_error_value(raw, None))
                return ReplyEnd(body, error.status or _INTERNAL_ERROR, error=error)
        except InvalidRequestError as error:
            raise invalid_reply(error) from None
        reply: dict[str, object] = {**fields, **overrides}
        written = encode(reply) if overrides else body
        return ReplyEnd(written, usage=self._read_usage(reader), client_reply=reply)

    def _read_usage(self, fields: JsonObject) -> Usage | None:
        with suppress(InvalidRequestError):
            return self._options.backend.read_usage(fields.nested("usage"))
        return None

    def _streamed_end(self, reply: Reply) -> ReplyEnd:
        """Write a whole reply as a stream."""
        stream = _TranslatedStream(self)
        self._stream = stream
        stream.write_whole(list(to_events(reply, self.losses)))
        self.has_content = True
        end = stream.end(started=True)
        return replace(end, usage=reply.usage)

    def reply_end(self, reply: Reply) -> ReplyEnd:
        """Write a whole reply; one that failed becomes an HTTP error."""
        if reply.error is not None:
            error = self.for_client(reply.error)
            body = self._options.client.write_error(error)
            status = reply.error.status or _INTERNAL_ERROR
            return ReplyEnd(body, status, error=error, usage=reply.usage, losses=tuple(self.losses))
        written = self._options.client.write_reply(reply, self._context)
        return ReplyEnd(
            encode(written),
            usage=reply.usage,
            losses=tuple(self.losses),
            client_reply=written,
            reasoning=self.reasoning,
        )

    # Parts

    def stages(self) -> list[Stage]:
        """Return the stages between reader and writer, in the order in which they run."""
        plan, options = self.plan, self._options
        capture = plan.reasoning.capture_stage(plan.request)
        self._stages = [
            *reply_stages(self._context, plan.emulated, options.capabilities),
            *downgrade_stages(self._context, plan.emulated, options.client, options.backend),
            *(() if capture is None else (capture,)),
            *(() if options.final_stage is None else (options.final_stage(self.losses),)),
        ]
        return self._stages

    @property
    def custom_inputs(self) -> list[CustomInput]:
        """The inputs of custom tools that are to be checked after the reply."""
        stages = (stage for stage in self._stages if isinstance(stage, CallRestorer))
        return [custom_input for stage in stages for custom_input in stage.custom_inputs]

    @property
    def reasoning(self) -> dict[str, str]:
        """Sealed reasoning by call, which the client does not carry."""
        stages = (stage for stage in self._stages if isinstance(stage, CaptureReasoning))
        return {key: sealed for stage in stages for key, sealed in stage.reasoning.items()}

    @property
    def context(self) -> ReplyContext:
        """What the client's writer needs besides events."""
        return self._context

    def reader_context(self) -> ReplyContext:
        """Return what the backend's reader needs: it knows the tools by the backend's names."""
        if self._options.passes_requests:
            return self._context
        tools = self.plan.emulated.request.tools
        return replace(self._context, request=replace(self.plan.request, tools=tools))


class _TranslatedStream:
    """A stream in another dialect."""

    def __init__(self, translator: ReplyTranslator) -> None:
        options = translator.plan.options
        self._translator = translator
        self._redact = options.redact
        self._decoder = Decoder()
        self._reader = options.backend.read_stream(translator.reader_context())
        self._stages = translator.stages()
        self._pipeline = Pipeline(*self._stages)
        self._writer = options.client.write_stream(translator.context)
        # Whether deltas go straight from the reader to the writer, until another event comes.
        self._direct = not self._stages
        self._recorder = _ReplyRecorder(translator) if options.keep_reply else None
        self.has_content = False
        # How the stream ended, as the client sees it, and the frames that end it.
        self._outcome: Finished | Failed | None = None
        self._last: list[bytes] = []
        # Frames before the end that were written too late to be sent on their own.
        self._unsent: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; return the frames for it, without those of the end."""
        if self._outcome is not None:
            return b""
        try:
            frames = self._decoder.feed(data)
        except InvalidReplyError as error:
            return b"".join(self.write([_failed(error)]))
        return b"".join(self._write_frames(frames))

    def _write_frames(self, frames: list[Frame]) -> list[bytes]:
        """Write frame after frame, so that ids do not depend on how the bytes were split."""
        read, write = self._reader.feed, self.write
        if self._redact is not None:
            frames = [redact_frame(frame, self._redact) for frame in frames]
        return [written for frame in frames for written in write(read(frame))]

    def write(self, events: list[Event]) -> list[bytes]:
        """Write some events; keep back the frames that end the stream."""
        if not events:
            return []
        if not self.has_content:
            self.has_content = _have_content(events)
        if self._direct and events[-1].__class__ is Delta and len(events) == 1:
            # The usual case.
            written = self._writer.feed(events[-1])
        else:
            written = self._write_all(self._pipeline.feed_all(events))
            self._direct = self._pipeline.passes_deltas
        if self._recorder is not None:
            self._recorder.feed(written)
        return written

    def _write_all(self, events: list[Event]) -> list[bytes]:
        last = events[-1] if events else None
        if isinstance(last, _LAST) and self._outcome is None:
            self._outcome = last
            if isinstance(last, Failed):
                last = replace(last, error=self._translator.for_client(last.error))
            written = [frame for event in events[:-1] for frame in self._writer.feed(event)]
            self._last = self._writer.feed(last)
            return written
        return [frame for event in events for frame in self._writer.feed(event)]

    @property
    def finished(self) -> bool:
        """True once the reply is complete."""
        return self._outcome is not None or self._reader.finished

    @property
    def ended(self) -> bool:
        """True once the last event was read."""
        return self._outcome is not None

    def heartbeat(self) -> bytes:
        """Return what to send while the backend is silent."""
        return b"" if self._outcome is not None else b"".join(self._writer.keep_alive())

    def flush(self) -> None:
        """End the stream, because the backend's has ended."""
        if self._outcome is None:
            before = self._write_frames(self._decoder.flush())
            before += self.write(self._reader.flush())
            self._unsent += before

    def write_whole(self, events: list[Event]) -> None:
        """Write all events of a whole reply; nothing of it is sent before its end."""
        self._unsent += self.write(events)

    def fail(self, error: Error) -> None:
        """End the stream, because the backend's cannot go on."""
        if self._outcome is None:
            self._unsent += self.write(self._reader.fail(Failed(error, origin="gateway")))

    def fail_after_end(self, error: Error) -> list[bytes]:
        """Return the last frames with a failure in place of the end."""
        return [*self._unsent, *self._writer.fail_after_end(self._last, error)]

    def end(self, *, started: bool) -> ReplyEnd:
        """Return the end of the stream, or an HTTP error if nothing was sent."""
        outcome, translator = self._outcome, self._translator
        failed = outcome if isinstance(outcome, Failed) else None
        losses = tuple(translator.losses)
        reasoning = translator.reasoning
        if failed is not None and not started and not self.has_content:
            end = translator.error_end(failed.error)
            return replace(end, usage=failed.usage, losses=losses)
        reply: Mapping[str, object] | None = self._writer.reply
        lost: tuple[Loss, ...] = ()
        if self._recorder is not None and failed is None:
            self._recorder.feed(self._last)
            reply, lost = self._recorder.reply(None if outcome is None else outcome.usage)
        return ReplyEnd(
            b"".join([*self._unsent, *self._last]),
            streamed=True,
            error=None if failed is None else failed.error,
            error_origin=None if failed is None else failed.origin,
            usage=None if outcome is None else outcome.usage,
            losses=losses + lost,
            client_reply=reply,
            reasoning=reasoning,
        )


class _CollectedStream:
    """A stream that becomes a whole reply, for a client that does not stream."""

    def __init__(self, translator: ReplyTranslator) -> None:
        options = translator.plan.options
        self._translator = translator
        self._redact = options.redact
        self._decoder = Decoder()
        self._reader = options.backend.read_stream(translator.reader_context())
        self._pipeline = Pipeline(*translator.stages())
        self._accumulator = ReplyAccumulator()
        self._replies: list[Reply] = []
        self.has_content = False

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; nothing is sent before the end."""
        if not self._replies:
            try:
                self._read(self._decoder.feed(data))
            except InvalidReplyError as error:
                self._replies.append(Reply(error=_failed(error).error))
        return b""

    def _read(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._accumulate(self._reader.feed(redact_frame(frame, self._redact)))

    def _accumulate(self, events: list[Event]) -> None:
        for event in self._pipeline.feed_all(events):
            self._replies += self._accumulator.feed(event)

    @property
    def finished(self) -> bool:
        """True once the reply is complete; usage may still follow."""
        return self.ended or self._reader.finished

    @property
    def ended(self) -> bool:
        """True once the last event was read."""
        return bool(self._replies)

    def heartbeat(self) -> bytes:
        """Return nothing: a whole reply has no heartbeat."""
        return b""

    def flush(self) -> None:
        """Complete the reply, because the backend's stream has ended."""
        if not self._replies:
            self._read(self._decoder.flush())
        if not self._replies:
            self._accumulate(self._reader.flush())

    def fail(self, error: Error) -> None:
        """Fail the reply."""
        self._replies = [Reply(error=error)]

    def fail_after_end(self, error: Error) -> list[bytes]:
        """Return the error body in place of the reply."""
        return [self._translator.error_end(error).body]

    def end(self, *, started: bool) -> ReplyEnd:
        """Return the whole reply."""
        del started
        return self._translator.reply_end(self._replies[0])


class _PassedStream:
    """A stream passed on event by event, and ended where its backend does not.

    The stream is read all the same: one that was cut, or that turns to noise, must not look
    complete. The writer follows it, so that it can end the stream from where it stands.
    """

    def __init__(self, translator: ReplyTranslator) -> None:
        options = translator.plan.options
        self._translator = translator
        self._redact = options.redact
        self._decoder = Decoder()
        self._reader = options.backend.read_stream(translator.reader_context())
        self._writer = options.client.write_stream(translator.context)
        self._recorder = _ReplyRecorder(translator) if options.keep_reply else None
        # The number of events passed on.
        self._passed = 0
        # Nothing more is passed on: we have ended the stream ourselves.
        self._over = False
        self._end_sent = False
        # The backend's own heartbeat, repeated while it is silent.
        self._pulse = b""
        self.has_content = False
        self._outcome: Finished | Failed | None = None
        self._last: list[bytes] = []
        # Frames before the end that were written too late to be sent on their own.
        self._unsent: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; return the events in it, without those of the end."""
        if self._over:
            return b""
        try:
            blocks = self._decoder.feed_raw(data)
        except InvalidReplyError as error:
            self._last += self._track([_failed(error)])
            return b""
        return self._pass(blocks)

    def _pass(self, blocks: list[bytes]) -> bytes:
        passed: list[bytes] = []
        for block in self._forward(blocks):
            # Until `end` was called, the end is kept back together with what follows it.
            (passed if self._outcome is None or self._end_sent else self._last).append(block)
        if self._recorder is not None:
            self._recorder.feed(passed)
        return b"".join(passed)

    def _forward(self, blocks: list[bytes]) -> Iterator[bytes]:
        for given in blocks:
            block, frame = self._redacted(given)
            ending = [] if frame is None else self._inspect(frame)
            if ending:
                yield from ending
                return
            if frame is not None:
                yield self._forwarded(block, frame)
            elif is_utf8(block):
                yield block + b"\n\n"

    def _redacted(self, block: bytes) -> tuple[bytes, Frame | None]:
        """Parse an event; write it anew if it is an error that contains a secret."""
        frame = parse_event(block)
        if frame is None or self._redact is None:
            return block, frame
        clean = redact_frame(frame, self._redact)
        return (block if clean is frame else write_block(clean)), clean

    def _forwarded(self, block: bytes, frame: Frame) -> bytes:
        self._passed += 1
        passed = self._writer.override_response_fields(block) + b"\n\n"
        if not self.has_content and self._writer.is_heartbeat(frame):
            self._pulse = passed
        if self._outcome is not None:
            self._writer.note_relayed_end(passed)
        return passed

    def _inspect(self, frame: Frame) -> list[bytes]:
        """Read an event; return the frames that end the stream if it cannot go on.

        An event that is JSON but unknown passes: its own dialect may know what it means.
        """
        try:
            return self._track(self._reader.read(frame))
        except InvalidRequestError as error:
            if frame.data.startswith(b"{") and is_complete_json(frame.data):
                self.has_content = True
                return []
            return self._track([undecodable_stream(str(error))])

    def _track(self, events: list[Event]) -> list[bytes]:
        """Note what was read; end the stream for a failure that the backend did not report."""
        if not self.has_content:
            self.has_content = _have_content(events)
        for event in events:
            if isinstance(event, _LAST):
                self._outcome = event
            if isinstance(event, Failed) and event.origin == "gateway":
                self._over = True
                failed = replace(event, error=self._translator.for_client(event.error))
                return self._writer.fail_relayed(failed, self._passed)
            if isinstance(event, Started):
                # The writer needs the identity of the reply that it may have to end. The items
                # are not remembered: that would fill the memory.
                self._writer.feed(event)
        return []

    @property
    def finished(self) -> bool:
        """True once the reply is complete."""
        return self._outcome is not None or self._reader.finished

    @property
    def ended(self) -> bool:
        """True once the last event was read."""
        return self._outcome is not None

    def heartbeat(self) -> bytes:
        """Return what to send while the backend is silent; numbers and ids are its own."""
        if self._over or self._outcome is not None:
            return b""
        if not self._pulse:
            return COMMENT
        return self._writer.renumber_heartbeat(self._pulse, self._passed)

    def flush(self) -> None:
        """End the stream if the backend's ended without doing so."""
        if self._over or self._outcome is not None:
            # What follows the end is passed on as it comes, so the decoder keeps its beginning.
            return
        rest = self._decoder.rest()
        if rest and rest[0].lstrip().startswith(b"{"):
            self._write_json_body(rest[0])
            return
        # An event that lacks only its empty line is complete; anything less was cut.
        complete = [block for block in rest if _is_complete(parse_event(block))]
        before = self._pass(complete)
        ending = self._track(self._reader.flush())
        self._unsent += [before] if before else []
        self._last += ending

    def _write_json_body(self, body: bytes) -> None:
        """Write a JSON body, which some backends send in place of a stream, as a stream."""
        frame = Frame(b"", redact_errors(body, self._redact), whole=False)
        events = [*self._reader.feed(frame), *self._reader.flush()]
        self.has_content = _have_content(events)
        self._outcome = next((event for event in events if isinstance(event, _LAST)), None)
        self._last = [written for event in events for written in self._writer.feed(event)]

    def fail(self, error: Error) -> None:
        """End the stream, because the backend's cannot go on."""
        if not self._over and self._outcome is None:
            self._last = self._track([Failed(error, origin="gateway")])

    def fail_after_end(self, error: Error) -> list[bytes]:
        """Return the last frames with a failure in place of the end."""
        return [*self._unsent, *self._writer.fail_after_end(self._last, error)]

    def end(self, *, started: bool) -> ReplyEnd:
        """Return the end of the stream, or an HTTP error if nothing was sent."""
        self._end_sent = True
        outcome = self._outcome
        failed = outcome if isinstance(outcome, Failed) else None
        if failed is not None and not started and not self.has_content:
            return replace(self._translator.error_end(failed.error), usage=failed.usage)
        reply: Mapping[str, object] | None = self._writer.reply
        losses: tuple[Loss, ...] = ()
        if self._recorder is not None and failed is None:
            self._recorder.feed(self._last)
            reply, losses = self._recorder.reply(None if outcome is None else outcome.usage)
        return ReplyEnd(
            b"".join([*self._unsent, *self._last]),
            streamed=True,
            error=None if failed is None else failed.error,
            error_origin=None if failed is None else failed.origin,
            usage=None if outcome is None else outcome.usage,
            losses=losses,
            client_reply=reply,
        )


class _ReplyRecorder:
    """Builds, from the frames that a client gets, the whole reply that they make."""

    def __init__(self, translator: ReplyTranslator) -> None:
        self._client = translator.plan.options.client
        self._losses = Losses(None)
        self._context = replace(translator.context, losses=self._losses)
        self._decoder = Decoder()
        self._reader = self._client.read_stream(self._context)
        self._accumulator = ReplyAccumulator()
        self._replies: list[Reply] = []

    def feed(self, frames: list[bytes]) -> None:
        """Take some frames."""
        if not self._replies:
            for frame in self._decoder.feed(b"".join(frames)):
                self._accumulate(self._reader.feed(frame))

    def _accumulate(self, events: list[Event]) -> None:
        for event in events:
            self._replies += self._accumulator.feed(event)

    def reply(self, usage: Usage | None) -> tuple[Mapping[str, object] | None, tuple[Loss, ...]]:
        """Return the whole reply, and what of the stream is not in it.

        It has its usage even if a client that streams does not get it.
        """
        if not self._replies:
            self._accumulate(self._reader.flush())
        reply = self._replies[0]
        if reply.error is not None:
            return None, ()
        if reply.usage is None:
            reply = replace(reply, usage=usage)
        written = self._client.write_reply(reply, self._context)
        losses = (
            replace(loss, reason=f"{_IN_STORED_REPLY}: {loss.reason}") for loss in self._losses
        )
        return written, tuple(losses)


def _have_content(events: list[Event]) -> bool:
    """Whether some events hold more than the beginning of a reply, or its failure."""
    return not all(isinstance(event, Started | Failed) for event in events)


def _failed(error: InvalidReplyError) -> Failed:
    return Failed(Error(str(error), error.kind, error.code, status=error.status), origin="gateway")


def _is_complete(frame: Frame | None) -> bool:
    """Whether a frame holds one JSON object, or the marker that ends a stream."""
    return frame is not None and (is_done(frame) or is_complete_json(frame.data))


def invalid_reply(error: InvalidRequestError) -> InvalidReplyError:
    """Return an error that blames the backend: a client must not take it for its own."""
    if error.path is not None:
        return InvalidReplyError(error.path, error.message)
    return InvalidReplyError(None, f"the backend's answer cannot be read: {error.message}")


def _has_error_object(body: bytes) -> bool:
    """Whether an error body already has the form that every client expects."""
    try:
        return read_body(body).nested("error") is not None
    except InvalidRequestError:
        return False


def own_error(options: TranslationOptions, error: DragomanError) -> ReplyEnd:
    """Return one of our own errors in the client's dialect."""
    return ReplyEnd(options.client.write_error(to_error(error)), error.status)
