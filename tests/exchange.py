"""A request and its reply between two dialects, with one object for both directions."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

import adapters
from adapters import (
    EMPTY_REQUEST,
    BackendRequest,
    Capabilities,
    ClientRequest,
    Dialect,
    DragomanError,
    IdSource,
    Policy,
    ReplyEnd,
    ReplyOptions,
    ReplyPlan,
    ReplyTranslator,
    Request,
    Sealer,
    TranslationOptions,
)
from adapters.capabilities import GENERIC
from adapters.dialect import DEFAULT
from adapters.ir.types import Error
from adapters.losses import Losses
from adapters.translation.plan import FinalStage


class Exchange:
    """A translation of a request and its reply with the same options."""

    def __init__(  # noqa: PLR0913 - the same as `TranslationOptions`
        self,
        client: str | Dialect,
        backend: str | Dialect,
        *,
        ids: IdSource | None = None,
        capabilities: Capabilities | None = None,
        reply_options: ReplyOptions | None = None,
        policy: Policy = "report",
        request: Request = EMPTY_REQUEST,
        rewrite: bool = False,
        sealer: Sealer | None = None,
        response_overrides: Mapping[str, object] | None = None,
        final_stage: Callable[[Losses], FinalStage] | None = None,
        keep_reply: bool = False,
    ) -> None:
        self.options = TranslationOptions(
            adapters.get_dialect(client) if isinstance(client, str) else client,
            adapters.get_dialect(backend) if isinstance(backend, str) else backend,
            ids or adapters.deterministic_ids(),
            capabilities or GENERIC,
            reply_options or DEFAULT,
            policy,
            rewrite=rewrite,
            sealer=sealer,
            response_overrides=response_overrides or {},
            final_stage=final_stage,
            keep_reply=keep_reply,
        )
        self._request = request
        self._last: ReplyTranslator | None = None
        self.sent: BackendRequest | None = None
        self._read: ClientRequest | None = None

    def reasoning_keys(self, body: bytes) -> tuple[str, ...]:
        """Return the keys under which reasoning for a request may have been stored."""
        self._read = adapters.read_client_request(adapters.parse_body(body), self.options)
        return self._read.reasoning_keys

    def request(
        self,
        body: bytes,
        *,
        ends_open: bool = False,
        model: str | None = None,
        stored_reasoning: Mapping[str, str] | None = None,
    ) -> BackendRequest:
        """Translate the client's request."""
        read = self._read
        if read is None:
            read = adapters.read_client_request(adapters.parse_body(body), self.options)
        self._read = None
        self.sent = adapters.write_backend_request(
            read, model=model, stored_reasoning=stored_reasoning, ends_open=ends_open
        )
        return self.sent

    @property
    def client_streams(self) -> bool:
        """Whether the client asked for a stream."""
        return self.plan(streams=False).client_streams

    @property
    def backend_streams(self) -> bool:
        """Whether the backend was asked for a stream."""
        return self.plan(streams=False).backend_streams

    def plan(self, *, streams: bool) -> ReplyPlan:
        """Return the plan for the reply."""
        if self.sent is not None:
            return self.sent.reply_plan
        return adapters.plan_reply(self.options, self._request, streams=streams)

    def reply(self, body: bytes) -> ReplyEnd:
        """Translate a whole reply for a client that does not stream."""
        return self._whole(body, streams=False)

    def reply_as_stream(self, body: bytes) -> ReplyEnd:
        """Translate a whole reply for a client that streams."""
        return self._whole(body, streams=True)

    def _whole(self, body: bytes, *, streams: bool, status: int = 200) -> ReplyEnd:
        translator = ReplyTranslator(self._streaming(streams=streams), status=status)
        translator.feed(body)
        end = translator.finish()
        self._last = translator
        return end

    def _streaming(self, *, streams: bool) -> ReplyPlan:
        plan = self.plan(streams=streams)
        if plan.client_streams == streams:
            return plan
        return replace(plan, client_streams=streams)

    @property
    def custom_inputs(self) -> list[adapters.CustomInput]:
        """The inputs of custom tools in the last reply."""
        return [] if self._last is None else self._last.custom_inputs

    @property
    def reasoning(self) -> Mapping[str, str]:
        """The reasoning of the last reply that is to be stored."""
        return {} if self._last is None else self._last.reasoning

    def stream(self) -> ReplyTranslator:
        """Return a translator of a stream for a client that streams."""
        self._last = ReplyTranslator(self._streaming(streams=True), streamed=True)
        return self._last

    def collect(self) -> ReplyTranslator:
        """Return a translator of a stream for a client that does not stream."""
        return ReplyTranslator(self._streaming(streams=False), streamed=True)

    def error(self, status: int, body: bytes) -> ReplyEnd:
        """Translate an HTTP error."""
        return self._whole(body, streams=False, status=status)

    def failure(self, error: Error) -> ReplyEnd:
        """Return an error in the client's dialect in place of a reply."""
        return ReplyTranslator(self.plan(streams=False)).fail(error)

    def own_error(self, error: DragomanError) -> ReplyEnd:
        """Return one of our own errors in the client's dialect."""
        return adapters.own_error(self.options, error)
