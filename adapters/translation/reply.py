"""Translate a backend's reply for the client, whole or streamed on either side."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from adapters.capabilities import TextFormat
from adapters.dialect import BaseStreamWriter, ReplyContext
from adapters.errors import (
    DragomanError,
    InvalidReplyError,
    InvalidRequestError,
    TransformError,
)
from adapters.ir.accumulator import to_events
from adapters.ir.events import Event, Failed
from adapters.ir.types import EMPTY_REQUEST, CallKind, CustomTool, Error, Reply, Usage
from adapters.losses import Loss, Losses, ReplyLosses
from adapters.reasoning.capture import ReasoningCapture
from adapters.reasoning.passed import may_have_reasoning
from adapters.sse import BYTE_ORDER_MARK, encode, is_stream
from adapters.stages.block_order import BlockSequencer
from adapters.stages.call_filter import call_filters
from adapters.stages.hidden_reasoning import ReasoningHider
from adapters.stages.stage import Pipeline, Stage
from adapters.stages.stop_sequences import StopSequenceCutter
from adapters.stages.think_tags import ThinkTagParser
from adapters.text_tools.formats import formats_with_channels
from adapters.text_tools.reasoning_stage import ReasoningCallFinder
from adapters.text_tools.stage import TextToolCallParser
from adapters.tool_emulation import CallDowngrader, CallRestorer, CustomInput
from adapters.transforms.apply import TransformStage, transform_stages
from adapters.translation.choice_streams import ChoicesStream
from adapters.translation.repair import RepairedStream
from adapters.translation.request import (
    ReplyPlan,
    TranslationOptions,
    error_for_client,
    text_formats,
)
from adapters.translation.streams import (
    PassedStream,
    ReplyCollector,
    ReplyRecorder,
    ReplyStream,
    TranslatedStream,
)
from adapters.wire.error_body import (
    CONTEXT_OVERFLOW,
    infer_status,
    is_error,
    redact_errors,
    redact_text,
    to_error,
)
from adapters.wire.json_object import JsonObject, read_body
from adapters.wire.tools import declared_names

# The end of a reply, and errors instead of a reply

OK: Final = 200
INTERNAL_ERROR: Final = 500


class ReplyEnd(Struct, frozen=True):
    """The end of a reply: the remaining output, and values that are available only at the end."""

    # The last frames of a stream, or the whole body.
    body: bytes
    status: int = OK
    # Whether `body` ends a stream; otherwise it is a whole JSON body.
    streamed: bool = False
    # The error of a failed reply.
    error: Error | None = None
    # Whether the error was reported by the backend or detected by the gateway.
    error_origin: Literal["backend", "gateway"] | None = None
    usage: Usage | None = None
    losses: tuple[Loss, ...] = ()
    # The reply object sent to the client, if available: always for Responses, for streamed
    # completions only if the options request it.
    client_reply: Mapping[str, object] | None = None
    # Sealed reasoning by call id, to be stored because the client does not return it.
    reasoning: Mapping[str, str] = {}


def error_end(error: Error, plan: ReplyPlan) -> ReplyEnd:
    """Return an HTTP error in the client's dialect instead of a reply."""
    error = infer_status(error)
    written = plan.options.client.write_error(error_for_client(error, plan))
    body = redact_text(written, plan.options.redact)
    return ReplyEnd(body, error.status or INTERNAL_ERROR, error=error)


def http_error_end(status: int, body: bytes, plan: ReplyPlan) -> ReplyEnd:
    """Translate the backend's HTTP error."""
    options = plan.options
    body = redact_text(body, options.redact)
    error = options.backend.read_error(status, body)
    same = options.client is options.backend
    if same and _has_error_object(body) and error.code != CONTEXT_OVERFLOW:
        return ReplyEnd(body, status, error=error)
    return replace(error_end(error, plan), status=status)


def _has_error_object(body: bytes) -> bool:
    try:
        return read_body(body).nested("error") is not None
    except InvalidRequestError:
        return False


def own_error(options: TranslationOptions, error: DragomanError) -> ReplyEnd:
    """Return an error raised by the gateway, in the client's dialect."""
    return ReplyEnd(options.client.write_error(to_error(error)), error.status)


def invalid_reply(error: InvalidRequestError) -> InvalidReplyError:
    """Return an error that is attributed to the backend and not to the client's request."""
    invalid = InvalidReplyError(None, f"the backend sent an invalid reply: {error}")
    invalid.path = error.path
    return invalid


_FIRST_ERROR: Final = 400
_WHOLE_REPLY_REASON: Final = "the backend sent a whole reply; it is sent as a stream"
# The fields without which a body is no reply.
_CONTENT_FIELDS: Final = ("choices", "output")
# In the names of all fields with calls.
_CALLS: Final = b"_call"


class ReplyTranslator:
    """Translates the bytes of a backend's reply to those of the client's reply.

    The plan decides whether the client receives a stream, and the received bytes decide whether the
    backend sends one. `finish` returns the end of the reply, and `feed` everything before, so that
    the gateway can store the reply before the client receives its end.
    """

    def __init__(self, plan: ReplyPlan, *, status: int = OK, streamed: bool = False) -> None:
        self.plan = plan
        self.losses = ReplyLosses(plan.options.client.reply_names)
        self._options = options = plan.options
        self._status = status
        self._context = self._reader_context = ReplyContext(
            plan.client_request,
            options.ids,
            self.losses,
            options.reply_options,
            options.response_overrides,
            call_ids=plan.call_ids,
            keeps_reasoning_field=options.client is options.backend,
        )
        request = plan.request
        if plan.backend_tools is not plan.request.tools and not options.passes_requests:
            # The reader needs the tools that were declared to the backend.
            request = replace(plan.request, tools=plan.backend_tools)
        if request is not plan.client_request:
            self._reader_context = replace(self._context, request=request)
        # The received bytes of a body that is not a stream.
        self._body: list[bytes] = []
        # The backend's stream, and the objects that make a stream or a whole reply of it.
        self._stream: ReplyStream | ChoicesStream | None = None
        self._writer: BaseStreamWriter | None = None
        self._collector: ReplyCollector | None = None
        self._recorder: ReplyRecorder | None = None
        # Whether the client receives a stream; set when the backend's stream begins.
        self.is_stream = False
        # The inputs of custom tools, to be checked after the reply.
        self._custom_inputs: list[CustomInput] = []
        # Sealed reasoning by call, which the client does not carry.
        self.reasoning: dict[str, str] = {}
        # The faults of transforms, each with its cause; the reply ends with an error.
        self.faults: list[TransformError] = []
        if streamed and status < _FIRST_ERROR:
            self._open_stream()

    # Feeding

    def feed(self, data: bytes) -> bytes:
        """Translate the bytes of one read; return the bytes to send now."""
        if self._stream is not None:
            sent = self._stream.feed(data)
            if self._recorder is not None:
                self._recorder.feed(sent)
            return sent
        if not self._body and self._status < _FIRST_ERROR and is_stream(data):
            # The content type is not reliable, so the first bytes decide.
            self._open_stream()
            return self.feed(data)
        self._body.append(data)
        return b""

    def _open_stream(self) -> None:
        if not (self.plan.passthrough and self.plan.client_streams):
            self._open_translated()
        elif self._options.repairs_replies:
            self._open_repaired(self._make_stages(), self.losses)
        else:
            # Do not report the losses of the reader and the writer: bytes are forwarded unchanged.
            context = replace(self._context, losses=Losses(None))
            reader_context = replace(self._reader_context, losses=Losses(None))
            self._stream = PassedStream(
                self.plan, reader_context, self._open_writer(context), self._open_recorder()
            )

    def _open_repaired(self, stages: list[Stage], losses: Losses) -> RepairedStream:
        reader_context = replace(self._reader_context, losses=losses, repairs=True)
        writer = self._open_writer(replace(self._context, losses=losses, repairs=True))
        stream = RepairedStream(self.plan, reader_context, writer, stages, losses)
        self._stream = stream
        return stream

    def _open_recorder(self) -> ReasoningCapture | None:
        """Return the stage that records the reasoning of a reply that is forwarded unchanged."""
        recorder = self.plan.reasoning.capture_stage(self.plan.request)
        if recorder is not None:
            self.reasoning = recorder.sealed_by_call
        return recorder

    def _open_translated(self) -> TranslatedStream:
        writer: BaseStreamWriter | ReplyCollector
        if self.plan.client_streams:
            writer = self._open_writer(self._context)
        else:
            writer = self._collector = ReplyCollector()
        stages = self._make_stages()
        if self.plan.client_streams:
            stages.append(BlockSequencer(self._context.request))
        self._stream = stream = TranslatedStream(self.plan, self._reader_context, stages, writer)
        return stream

    def _open_writer(self, context: ReplyContext) -> BaseStreamWriter:
        self.is_stream = True
        if self._options.keep_reply:
            self._recorder = ReplyRecorder(self._options.client, replace(context, repairs=False))
        self._writer = self._options.client.write_stream(context)
        return self._writer

    def _make_stages(self) -> list[Stage]:
        return self._collect_results(reply_stages(self.plan, self._context))

    def _collect_results(self, stages: list[Stage]) -> list[Stage]:
        """Return stages, which add what they find to that of this translator."""
        for stage in stages:
            if isinstance(stage, CallRestorer):
                stage.custom_inputs = self._custom_inputs
            elif isinstance(stage, ReasoningCapture):
                stage.sealed_by_call = self.reasoning
            elif isinstance(stage, TransformStage):
                stage.faults = self.faults
        return stages

    @property
    def custom_inputs(self) -> list[CustomInput]:
        """The inputs of custom tools, with their paths in the client's reply."""
        return [
            replace(given, path=self.losses.client_path(given.path))
            for given in self._custom_inputs
        ]

    @property
    def has_content(self) -> bool:
        """Whether the stream has begun; a failure before that can become an HTTP error."""
        return self._stream is not None and self._stream.has_content

    @property
    def finished(self) -> bool:
        """Whether the reply is complete; usage and the end of the stream may still follow."""
        stream = self._stream
        return stream is not None and stream.finished

    @property
    def ended(self) -> bool:
        """Whether the backend's stream has ended, including its usage."""
        return self._stream is not None and self._stream.outcome is not None

    @property
    def cut(self) -> bool:
        """Whether the reply ended before the backend's, which must not be read further."""
        return self._stream is not None and self._stream.cut

    def heartbeat(self) -> bytes:
        """Return a heartbeat, which is sent while the backend is silent."""
        return b"" if self._stream is None else self._stream.heartbeat()

    def note_truncated(self) -> None:
        """Discard a truncated HTTP error; raise `InvalidReplyError` for a truncated whole reply.

        Streams are not affected: `finish` checks whether they are complete.
        """
        if self._stream is not None:
            return
        if self._status < _FIRST_ERROR:
            raise InvalidReplyError(None, "the backend's reply ended before it was complete")
        self._body.clear()

    # The end

    def finish(self, *, started: bool = False) -> ReplyEnd:
        """Return the end of the reply, after the last byte of the backend's reply.

        `started` is true if the client's stream has begun: then its status cannot change.
        """
        stream = self._stream
        if isinstance(stream, RepairedStream) and (whole := stream.whole_body()):
            whole = redact_errors(whole, self._options.redact)
            return self._streamed_end(whole, started=started)
        if stream is not None:
            stream.flush()
            return self._stream_end(stream, started=started)
        body = b"".join(self._body).removeprefix(BYTE_ORDER_MARK)
        if self._status >= _FIRST_ERROR:
            return http_error_end(self._status, body, self.plan)
        body = redact_errors(body, self._options.redact)
        if self.plan.passthrough and not self.plan.client_streams:
            return self._passed_end(body)
        if self.plan.passthrough and self._options.repairs_replies:
            return self._streamed_end(body, started=started)
        return self._translated_end(body)

    def fail(self, error: Error, *, started: bool = False) -> ReplyEnd:
        """Return the end of a reply that cannot be completed."""
        if self._stream is not None and self.plan.client_streams and started:
            self._stream.fail(error)
            return self._stream_end(self._stream, started=True)
        if self._status >= _FIRST_ERROR:
            # The status of the backend's error is known, only its message is missing.
            return http_error_end(self._status, b"", self.plan)
        return error_end(error, self.plan)

    def fail_to_store(self, end: ReplyEnd, error: Error) -> ReplyEnd:
        """Return the end of a reply that could not be stored, instead of `end`."""
        stream, writer = self._stream, self._writer
        if stream is None or writer is None or not end.streamed:
            return error_end(error, self.plan)
        frames = [*stream.unsent, *writer.fail_after_end(stream.last, error)]
        return replace(end, body=b"".join(frames), error=error)

    # Streams

    def _stream_end(self, stream: ReplyStream | ChoicesStream, *, started: bool) -> ReplyEnd:
        """Return the end of a stream, or an HTTP error if nothing was sent."""
        if self._collector is not None and self._collector.reply is not None:
            return self._reply_end(self._collector.reply)
        outcome = stream.outcome
        failed = outcome if isinstance(outcome, Failed) else None
        usage = None if outcome is None else outcome.usage
        if failed is not None and not started and not stream.has_content:
            end = error_end(failed.error, self.plan)
            return replace(end, usage=usage, losses=tuple(self.losses))
        stream.end_sent = True
        end = ReplyEnd(
            b"".join([*stream.unsent, *stream.last]),
            streamed=True,
            error=None if failed is None else failed.error,
            error_origin=None if failed is None else failed.origin,
            usage=usage,
            losses=tuple(self.losses),
            client_reply=None if self._writer is None else self._writer.reply,
            reasoning=self.reasoning,
        )
        if self._recorder is None or failed is not None:
            return end
        self._recorder.feed(end.body)
        reply, losses = self._recorder.reply(usage)
        return replace(end, client_reply=reply, losses=end.losses + losses)

    # Whole replies

    def _translated_end(self, body: bytes) -> ReplyEnd:
        try:
            reply = self._options.backend.read_reply(body, self._reader_context)
        except InvalidRequestError as error:
            raise invalid_reply(error) from None
        if reply.error is not None:
            reply = replace(reply, error=error_for_client(reply.error, self.plan))
        elif self.plan.client_streams:
            stream = self._open_translated()
            stream.write_whole(list(to_events(reply, self.losses)))
            return replace(self._stream_end(stream, started=True), usage=reply.usage)
        return self._reply_end(Pipeline(*self._make_stages()).reply(reply))

    def _reply_end(self, reply: Reply) -> ReplyEnd:
        """Write a whole reply; one that failed becomes an HTTP error."""
        client, error = self._options.client, reply.error
        if error is not None:
            body, losses = client.write_error(error), tuple(self.losses)
            status = error.status or INTERNAL_ERROR
            return ReplyEnd(body, status, error=error, usage=reply.usage, losses=losses)
        return self._written_end(client.write_reply(reply, self._context), reply)

    def _written_end(self, written: dict[str, object], reply: Reply) -> ReplyEnd:
        return ReplyEnd(
            encode(written),
            usage=reply.usage,
            losses=tuple(self.losses),
            client_reply=written,
            reasoning=self.reasoning,
        )

    def _passed_end(self, body: bytes) -> ReplyEnd:
        """Forward a reply; a body that is only an error gets the status of the error."""
        overrides = self._options.response_overrides
        try:
            fields = read_body(body).take_all()
            reader = JsonObject(dict(fields))
            raw = reader.raw("error")
            if raw is not None and is_error(raw) and not reader.has("object"):
                error = infer_status(self._options.backend.read_error(None, body))
                return ReplyEnd(body, error.status or INTERNAL_ERROR, error=error)
        except InvalidRequestError as error:
            raise invalid_reply(error) from None
        options = self._options
        if options.repairs_replies:
            repaired = self._repaired_end(body)
            if repaired is not None:
                return repaired
        reply: dict[str, object] = {**fields, **overrides}
        written = encode(reply) if overrides else body
        backend, usage = self._options.backend, None
        with suppress(InvalidRequestError):
            usage = backend.read_usage(reader.nested(backend.names.get("usage", "usage")))
        if not options.repairs_replies and may_have_reasoning(body):
            self._record_reasoning(body)
        return ReplyEnd(written, usage=usage, client_reply=reply, reasoning=self.reasoning)

    def _streamed_end(self, body: bytes, *, started: bool) -> ReplyEnd:
        """Send a whole reply in the client's dialect as a stream, with all of its fields."""
        whole = self._passed_end(body)
        if whole.error is not None and not started:
            return whole
        events: list[Event] = []
        if whole.error is not None:
            events.append(Failed(whole.error))
        else:
            self.losses.changed("stream", _WHOLE_REPLY_REASON)
            events += to_events(self._read_repaired(whole.body), self.losses)
        # What had to be repaired was reported.
        stream = self._open_repaired([], Losses(None))
        stream.write_whole(whole.body, events)
        return replace(self._stream_end(stream, started=True), usage=whole.usage)

    def _read_repaired(self, body: bytes) -> Reply:
        context = replace(self._reader_context, losses=Losses(None), repairs=True)
        try:
            return self._options.client.read_reply(body, context)
        except InvalidRequestError as error:
            raise invalid_reply(error) from None

    def _record_reasoning(self, body: bytes) -> None:
        """Record the reasoning of a whole reply that is forwarded unchanged."""
        recorder = self._open_recorder()
        if recorder is not None:
            context = replace(self._reader_context, losses=Losses(None))
            with suppress(InvalidRequestError):
                recorder.reply(self._options.backend.read_reply(body, context))

    def _repaired_end(self, body: bytes) -> ReplyEnd | None:
        """Return a reply in a form that the client can receive; None if it has one already."""
        client = self._options.client
        found = Losses(None)
        passes = client.check_reply(body, replace(self._context, losses=found))
        if passes and _CALLS not in body:
            # The stages change and record only calls.
            return None
        stages = self._make_stages()
        if passes and not stages:
            return None
        # What the reader changes matters only if the reply is written.
        losses = Losses(None) if passes else found
        try:
            read = client.read_reply(
                body, replace(self._reader_context, losses=losses, repairs=True)
            )
        except InvalidRequestError as error:
            if error.path in _CONTENT_FIELDS:
                raise invalid_reply(error) from None
            # The client may be able to read it.
            return None
        self.losses.extend(found)
        reply = Pipeline(*stages).reply(read) if read.error is None else read
        if passes and reply == read:
            return None
        if reply.error is not None:
            failure = error_for_client(reply.error, self.plan)
            return self._reply_end(replace(reply, error=failure))
        context = replace(self._context, repairs=True)
        written = client.keep_reply_fields(body, client.write_reply(reply, context), context)
        return self._written_end(written | dict(self._options.response_overrides), reply)


# Stages

_ALL_KINDS: frozenset[CallKind] = frozenset(get_args(CallKind))


def reply_stages(plan: ReplyPlan, context: ReplyContext) -> list[Stage]:
    """Return the stages between the reader of a reply and its writer, in their order.

    Most replies need only one or two of them.
    """
    options, request, registry = plan.options, plan.request, plan.registry
    capabilities, losses = options.capabilities, context.losses
    stages = _text_stages(plan, context)
    if registry:
        stages.append(CallRestorer(registry, losses, collects_inputs=capabilities.check_grammars))
    if request.tool_choice is not None or request.parallel_tool_calls is False:
        stages += call_filters(request, registry, losses)
    known_kinds = options.client.call_kinds
    # In their own dialect, backends know which kinds of calls the client knows.
    if not known_kinds >= _ALL_KINDS and not plan.passthrough:
        if request.tools and not any(isinstance(tool, CustomTool) for tool in request.tools):
            # A client without custom tools does not expect their calls.
            known_kinds -= {"custom"}
        if registry.has_emulated or not known_kinds >= options.backend.call_kinds:
            stages.append(CallDowngrader(known_kinds, losses))
    capture = plan.reasoning.capture_stage(plan.client_request)
    if capture is not None:
        stages.append(capture)
    if plan.reasoning.hides_text(plan.client_request):
        stages.append(ReasoningHider(losses))
    if options.transforms:
        stages += transform_stages(options.transforms, losses)
    if options.final_stage is not None:
        stages.append(options.final_stage(losses))
    return stages


def _text_stages(plan: ReplyPlan, context: ReplyContext) -> list[Stage]:
    """Return the stages that change the text of a reply."""
    options, request = plan.options, plan.request
    stages: list[Stage] = []
    if options.capabilities.think_tags:
        stages.append(ThinkTagParser(context.losses))
    if formats := text_formats(options.capabilities):
        stages += _call_stages(plan, context, formats)
    if options.emulates_stop(request):
        stages.append(StopSequenceCutter(request.stop, request.choices or 1))
    return stages


def _call_stages(
    plan: ReplyPlan, context: ReplyContext, formats: tuple[TextFormat, ...]
) -> list[Stage]:
    """Return the stages that read calls in these formats from the text of a reply."""
    options, losses = plan.options, context.losses
    may_call = bool(declared_names(plan.backend_tools)) or plan.request == EMPTY_REQUEST
    if not may_call:
        formats = formats_with_channels(formats)
    if not formats:
        return []
    parser = TextToolCallParser(formats, plan.backend_tools, context.ids, losses)
    if not may_call:
        return [parser]
    returns_calls = options.capabilities.calls_in_reasoning
    return [ReasoningCallFinder(parser, losses, returns_calls=returns_calls), parser]
