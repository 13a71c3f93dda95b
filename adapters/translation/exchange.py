"""One exchange between a client and a backend: the request one way, the answer the other.

An exchange remembers what the client asked, because the answer depends on it: what a response
repeats, which tools were allowed, how many answers and whether the usage were wanted.

Where both speak the same dialect the bytes pass through as they are, unless what the backend can
take asks for the request to be rewritten.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from adapters.capabilities import GENERIC, Capabilities
from adapters.dialect import DEFAULT, Dialect, ReplyContext, ReplyOptions, translate_error_param
from adapters.errors import DragomanError, InvalidReplyError, InvalidRequestError
from adapters.ids import IdSource
from adapters.ir.accumulator import to_events
from adapters.ir.types import Error, FunctionTool, Reply, Request, Usage
from adapters.losses import Losses, Policy
from adapters.reasoning.capture import CaptureReasoning
from adapters.reasoning.sealed import Sealer
from adapters.stages.stage import Pipeline, Stage
from adapters.tool_emulation import CallRestorer, CustomInput
from adapters.translation.redaction import Redact, redact_errors, redact_text
from adapters.translation.reply_stages import (
    UNKNOWN_REQUEST,
    Reshaping,
    stages,
    telling,
)
from adapters.translation.request import Asking
from adapters.translation.result import Translation
from adapters.translation.streams import (
    PassthroughStream,
    StreamCollector,
    StreamTranslator,
)
from adapters.wire.error_body import (
    CONTEXT_OVERFLOW,
    infer_status,
    is_error,
    read_error,
    read_error_value,
    to_error,
)
from adapters.wire.json_object import JsonObject, read_body


class Exchange:
    """One request and its answer, between two dialects."""

    def __init__(  # noqa: PLR0913 - each says one thing of an exchange, and most have defaults
        self,
        client: Dialect,
        backend: Dialect,
        *,
        mint: IdSource,
        capabilities: Capabilities = GENERIC,
        reply_options: ReplyOptions | None = None,
        policy: Policy = "report",
        asked: Request = UNKNOWN_REQUEST,
        rewrite: bool = False,
        seal: Sealer | None = None,
        stamp: Mapping[str, object] | None = None,
        reshape: Callable[[Losses], Reshaping] | None = None,
        redact: Redact | None = None,
    ) -> None:
        self._client = client
        self._backend = backend
        self._mint = mint
        self._capabilities = capabilities
        self._reply_options = reply_options or DEFAULT
        self._asking = Asking(
            client,
            backend,
            capabilities=capabilities,
            policy=policy,
            asked=asked,
            rewrite=rewrite,
            seal=seal,
            reshapes=reshape is not None,
        )
        # What the answer says of itself, whatever the backend says.
        self._stamp = stamp or {}
        # Makes what the answer goes through in the end, where it is not just the backend's.
        self._reshape = reshape
        # The stages of the reply, once they were made.
        self._made: list[Stage] = []
        # Replaces secrets in what is an error, and in nothing else.
        self._redact = redact

    # The request

    @property
    def asked(self) -> Request:
        """Give what the client asked; once that is sent, all but the conversation."""
        return self._asking.asked

    @property
    def client_streams(self) -> bool:
        """Tell whether the client asked for a stream."""
        return self._asking.client_streams

    @property
    def backend_streams(self) -> bool:
        """Tell whether the backend was asked for a stream: some can do just one of the two."""
        return self._asking.backend_streams

    @property
    def asks_for_seals(self) -> bool:
        """Tell whether the backend was asked to seal its reasoning on our own account."""
        return self._asking.requests_encrypted_reasoning

    @property
    def kept(self) -> Mapping[str, str]:
        """Give what should be kept of the answer for later requests, by the names of calls."""
        stages = (stage for stage in self._made if isinstance(stage, CaptureReasoning))
        return {key: sealed for stage in stages for key, sealed in stage.reasoning.items()}

    @property
    def custom_inputs(self) -> list[CustomInput]:
        """Return the inputs of custom tools to check, if the capabilities ask for that."""
        stages = (stage for stage in self._made if isinstance(stage, CallRestorer))
        return [custom_input for stage in stages for custom_input in stage.custom_inputs]

    def recall(self, body: bytes) -> tuple[str, ...]:
        """Name the calls of a request for which something may have been `kept` of an answer.

        Raises `InvalidInput` if it cannot be read, `Refused` if it cannot be carried.
        """
        return self._asking.recall(body)

    def request(
        self,
        body: bytes,
        *,
        ends_open: bool = False,
        model: str | None = None,
        kept: Mapping[str, str] | None = None,
    ) -> Translation:
        """Translate the client's request for the backend, where the model may have another name.

        An example for training may end with the call that the model should make: then it
        `ends_open`, and no output is put behind that call. `kept` is what was kept of earlier
        answers, by the names of calls (see `recall`).

        Raises `InvalidInput` if it cannot be read, `Refused` if it cannot be carried.
        """
        return self._asking.request(body, ends_open=ends_open, model=model, kept=kept)

    # The answer, whole

    def reply(self, body: bytes) -> Translation:
        """Translate the backend's whole reply for the client.

        Raises `BrokenReply` if it cannot be read.
        """
        body = redact_errors(body, self._redact)
        if self._asking.relays():
            return self._pass_reply(body)
        around = self._surroundings()
        reply = self._read_reply(body, around)
        stages = self._stages(around)
        if stages:
            reply = Pipeline(*stages).reply(reply)
        return self._finish_reply(reply, around)

    def _pass_reply(self, body: bytes) -> Translation:
        """Pass a reply on; one that is just an error gets the status of an error."""
        try:
            fields = read_body(body)
            error = fields.raw("error")
            if error is None or not is_error(error) or fields.has("object"):
                stamped = read_body(body).encode_with(**self._stamp) if self._stamp else body
                return Translation(stamped, usage=self._read_usage(fields))
            return Translation(
                body, status=infer_status(read_error_value(error, None)).status or 500
            )
        except InvalidRequestError as problem:
            raise _broken(problem) from None

    def _read_usage(self, fields: JsonObject) -> Usage | None:
        """Read just what a reply cost."""
        with suppress(InvalidRequestError):
            return self._backend.read_usage(fields.nested("usage"))
        return None

    def _read_reply(self, body: bytes, around: ReplyContext) -> Reply:
        try:
            return self._backend.read_reply(body, self._reading(around))
        except InvalidRequestError as problem:
            raise _broken(problem) from None

    def _finish_reply(self, reply: Reply, around: ReplyContext) -> Translation:
        """Write a reply; one that failed is an error, as over HTTP it must be."""
        if reply.error is not None:
            error = replace(reply.error, param=around.param(reply.error.param))
            body = self._client.write_error(error)
        else:
            body = self._client.write_reply(reply, around)
        return Translation(body, tuple(around.losses), _status(reply), reply.usage)

    def _stages(self, around: ReplyContext) -> list[Stage]:
        """Return the stages between reader and writer, in their order."""
        told = self._asking.told()
        capture = self._asking.reasoning.capture_stage(self.asked)
        self._made = [
            *stages(around, told, self._capabilities),
            *telling(around, told, self._client, self._backend),
            *([] if capture is None else [capture]),
            *([] if self._reshape is None else [self._reshape(around.losses)]),
        ]
        return self._made

    # The answer, streamed

    def stream(self) -> "StreamTranslator | PassthroughStream":
        """Make the machine that translates the backend's stream for the client."""
        around = self._surroundings()
        reader = self._backend.read_stream(self._reading(around))
        writer = self._client.write_stream(around)
        if self._asking.relays():
            return PassthroughStream(reader, writer, self._redact)
        return StreamTranslator(
            reader, [*self._stages(around)], writer, around.losses, self._redact
        )

    def collect(self) -> StreamCollector:
        """Make the machine that gathers the backend's stream into a whole reply for the client."""
        around = self._surroundings()
        reader = self._backend.read_stream(self._reading(around))
        return StreamCollector(reader, [*self._stages(around)], around.losses, self._redact)

    def collected(self, collector: StreamCollector) -> Translation:
        """Give the whole reply that was gathered from a stream."""
        around = replace(self._surroundings(), losses=collector.losses)
        return self._finish_reply(collector.reply(), around)

    def tell(self, body: bytes) -> Translation:
        """Tell the backend's whole reply to a client that wants a stream.

        A reply that failed is an error, with its own status, and no stream (P158).
        """
        around = self._surroundings()
        reply = self._read_reply(redact_errors(body, self._redact), around)
        if reply.error is not None:
            return self._finish_reply(reply, around)
        events = Pipeline(*self._stages(around)).feed_all(list(to_events(reply, around.losses)))
        writer = self._client.write_stream(around)
        body = b"".join(frame for event in events for frame in writer.feed(event))
        return Translation(body, tuple(around.losses), usage=reply.usage)

    def _surroundings(self) -> ReplyContext:
        return ReplyContext(
            self.asked,
            self._mint,
            Losses(None),
            self._reply_options,
            self._translate_param,
            self._stamp,
        )

    def _reading(self, around: ReplyContext) -> ReplyContext:
        """Give what a reader may ask: it knows the tools as its backend does."""
        if self._asking.passes:
            return around
        request = replace(around.request, tools=self._asking.told().request.tools)
        return replace(around, request=request)

    def _translate_param(self, param: str | None) -> str | None:
        moved = not all(isinstance(tool, FunctionTool) for tool in self.asked.tools)
        return translate_error_param(param, self._backend, self._client, tools_moved=moved)

    # Errors

    def error(self, status: int, body: bytes) -> Translation:
        """Translate what the backend answered with an error status."""
        body = redact_text(body, self._redact)
        error = read_error(status, body)
        if self._client is self._backend and _is_envelope(body) and error.code != CONTEXT_OVERFLOW:
            return Translation(body, status=status)
        return replace(self.failure(error), status=status)

    def failure(self, error: Error) -> Translation:
        """Say, as an HTTP error in the client's dialect, why there is no answer."""
        error = infer_status(error)
        told = replace(error, param=self._translate_param(error.param))
        body = redact_text(self._client.write_error(told), self._redact)
        return Translation(body, status=error.status or 500)

    def problem(self, problem: DragomanError) -> Translation:
        """Say one of our own errors in the client's dialect."""
        return Translation(self._client.write_error(to_error(problem)), status=problem.status)


def _broken(problem: InvalidRequestError) -> InvalidReplyError:
    """Say of a problem that it is the backend's: a client must not take it for one of its own."""
    if problem.path is not None:
        return InvalidReplyError(problem.path, problem.why)
    return InvalidReplyError(None, f"the backend's answer cannot be read: {problem.why}")


def _status(reply: Reply) -> int:
    return 200 if reply.error is None else reply.error.status or 500


def _is_envelope(body: bytes) -> bool:
    """Tell whether an error already is what every client expects."""
    try:
        return read_body(body).nested("error") is not None
    except InvalidRequestError:
        return False
