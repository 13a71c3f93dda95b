"""A request and its reply between two dialects, with one object for both directions."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

import adapters
from adapters.capabilities import GENERIC
from adapters.dialect import DEFAULT_REPLY_OPTIONS
from adapters.ir.types import Error


class Exchange:
    """A translation of a request and its reply with the same options."""

    def __init__(  # noqa: PLR0913 - the same as `TranslationOptions`
        self,
        client: str | adapters.Dialect,
        backend: str | adapters.Dialect,
        *,
        ids: adapters.IdSource | None = None,
        capabilities: adapters.Capabilities = GENERIC,
        reply_options: adapters.ReplyOptions = DEFAULT_REPLY_OPTIONS,
        policy: adapters.Policy = "report",
        request: adapters.Request = adapters.EMPTY_REQUEST,
        rewrite: bool = False,
        repair: bool = True,
        sealer: adapters.Sealer | None = None,
        keep_reply: bool = False,
        transforms: tuple[adapters.Transform, ...] = (),
    ) -> None:
        self.options = adapters.TranslationOptions(
            adapters.get_dialect(client) if isinstance(client, str) else client,
            adapters.get_dialect(backend) if isinstance(backend, str) else backend,
            ids or adapters.deterministic_ids(),
            capabilities,
            reply_options,
            policy,
            rewrite=rewrite,
            repair=repair,
            sealer=sealer,
            keep_reply=keep_reply,
            transforms=transforms,
        )
        self._request = request
        self._last: adapters.ReplyTranslator | None = None
        self.sent: adapters.BackendRequest | None = None
        self._read: adapters.ClientRequest | None = None

    def reasoning_keys(self, body: bytes) -> tuple[str, ...]:
        """Return the keys under which reasoning for a request may have been stored."""
        self._read = self._read_request(body)
        return self._read.reasoning_keys()

    def _read_request(self, body: bytes) -> adapters.ClientRequest:
        return adapters.read_client_request(adapters.parse_body(body), self.options)

    def request(
        self,
        body: bytes,
        *,
        ends_open: bool = False,
        model: str | None = None,
        stored_reasoning: Mapping[str, str] | None = None,
    ) -> adapters.BackendRequest:
        read = self._read or self._read_request(body)
        self._read = None
        self.sent = adapters.write_backend_request(
            read, model=model, stored_reasoning=stored_reasoning, ends_open=ends_open
        )
        return self.sent

    @property
    def client_streams(self) -> bool:
        return self.plan(streams=False).client_streams

    @property
    def backend_streams(self) -> bool:
        return self.plan(streams=False).backend_streams

    def plan(self, *, streams: bool) -> adapters.ReplyPlan:
        if self.sent is not None:
            return self.sent.reply_plan
        return adapters.plan_reply(self.options, self._request, streams=streams)

    def reply(self, body: bytes) -> adapters.ReplyEnd:
        return self._whole(body, streams=False)

    def reply_as_stream(self, body: bytes) -> adapters.ReplyEnd:
        return self._whole(body, streams=True)

    def _whole(self, body: bytes, *, streams: bool, status: int = 200) -> adapters.ReplyEnd:
        self._last = adapters.ReplyTranslator(self._streaming(streams=streams), status=status)
        self._last.feed(body)
        return self._last.finish()

    def _streaming(self, *, streams: bool) -> adapters.ReplyPlan:
        plan = self.plan(streams=streams)
        return plan if plan.client_streams == streams else replace(plan, client_streams=streams)

    @property
    def custom_inputs(self) -> list[adapters.CustomInput]:
        """The inputs of custom tools in the last reply."""
        return [] if self._last is None else self._last.custom_inputs

    @property
    def reasoning(self) -> Mapping[str, str]:
        """The reasoning of the last reply that is to be stored."""
        return {} if self._last is None else self._last.reasoning

    def stream(self) -> adapters.ReplyTranslator:
        """Return a translator of a stream for a client that streams."""
        self._last = adapters.ReplyTranslator(self._streaming(streams=True), streamed=True)
        return self._last

    def translate_stream(self, chunks: Iterable[bytes]) -> bytes:
        """Return a whole stream for a client that streams."""
        stream = self.stream()
        return b"".join([*map(stream.feed, chunks), stream.finish(started=True).body])

    def collect(self) -> adapters.ReplyTranslator:
        """Return a translator of a stream for a client that does not stream."""
        return adapters.ReplyTranslator(self._streaming(streams=False), streamed=True)

    def error(self, status: int, body: bytes) -> adapters.ReplyEnd:
        return self._whole(body, streams=False, status=status)

    def failure(self, error: Error) -> adapters.ReplyEnd:
        """Return an error in the client's dialect in place of a reply."""
        return adapters.ReplyTranslator(self.plan(streams=False)).fail(error)

    def own_error(self, error: adapters.DragomanError) -> adapters.ReplyEnd:
        """Return one of our own errors in the client's dialect."""
        return adapters.own_error(self.options, error)


def exchange_between(
    client: str, backend: str, *, rewrite: bool = False, **capabilities: object
) -> Exchange:
    """Return an exchange with a backend that has these capabilities."""
    own = replace(GENERIC, **capabilities)
    return Exchange(client, backend, capabilities=own, rewrite=rewrite)
