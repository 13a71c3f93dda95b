"""The request of one exchange: read, made fit for its backend, and remembered.

Where both sides speak the same dialect it passes as it is, and is read only if somebody wants to
know what it asks.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from adapters.capabilities import Capabilities
from adapters.dialect import Dialect
from adapters.errors import DragomanError, InvalidRequestError
from adapters.ir.types import AllowedToolsChoice, FunctionTool, ItemReference, Request, Tool
from adapters.losses import Loss, Losses, Policy
from adapters.reasoning.policy import ReasoningPolicy
from adapters.reasoning.sealed import Sealer
from adapters.reasoning.strip import NOT_FOR_THIS
from adapters.tool_emulation import (
    BackendToolSupport,
    EmulatedRequest,
    ToolRegistry,
    emulate_tools,
)
from adapters.translation.fit import fit_to_capabilities
from adapters.translation.pairing import pair_tool_calls
from adapters.translation.reply_stages import UNKNOWN_REQUEST, text_formats
from adapters.translation.result import Translation
from adapters.wire.json_object import read_body


class Asking:
    """What a client asks, and how its backend is asked it."""

    def __init__(  # noqa: PLR0913 - each says one thing of a request
        self,
        client: Dialect,
        backend: Dialect,
        *,
        capabilities: Capabilities,
        policy: Policy,
        asked: Request,
        rewrite: bool,
        seal: Sealer | None,
        reshapes: bool,
    ) -> None:
        self._client = client
        self._backend = backend
        self._capabilities = capabilities
        self._policy: Policy = policy
        # Nothing is read and written anew where both speak alike, unless that is asked for.
        self.passes = client is backend and not rewrite
        # What the client asked: known from the request, or given by who knows it.
        self._asked = asked
        # A request that was passed on unread; it is read only if somebody wants to know.
        self._unread: bytes | None = None
        self._client_streams = bool(asked.stream)
        self.reasoning = ReasoningPolicy(seal, client, backend, capabilities)
        # Whether the backend was asked for encrypted reasoning on our own account.
        self.requests_encrypted_reasoning = False
        # Whether the answer is made into something else in the end.
        self._reshapes = reshapes
        # What was lost of a request that was read before it was sent.
        self._read_losses: Losses | None = None
        # What the client asked in words that the backend has, once somebody needs it.
        self._lowered: EmulatedRequest | None = None

    @property
    def asked(self) -> Request:
        """Give what the client asked; once that is sent, all but the conversation."""
        if self._unread is not None:
            body, self._unread = self._unread, None
            try:
                self._asked = self._client.read_request(body, Losses(None))
            except DragomanError:
                # Whether it makes sense, the server of its own dialect decides.
                self._asked = UNKNOWN_REQUEST
        return self._asked

    def recall(self, body: bytes) -> tuple[str, ...]:
        """Name the calls for which something may have been kept (see `Exchange.recall`)."""
        if self.passes or not self.reasoning.may_have_stored:
            return ()
        self._read_losses = self._read(body)
        return self.reasoning.storage_keys(self._asked)

    def _read(self, body: bytes) -> Losses:
        losses = Losses(self._policy, self._client.names)
        self._asked = self._client.read_request(body, losses)
        self._client_streams = bool(self._asked.stream)
        return losses

    def request(
        self,
        body: bytes,
        *,
        ends_open: bool = False,
        model: str | None = None,
        kept: Mapping[str, str] | None = None,
    ) -> Translation:
        """Translate it (see `Exchange.request`)."""
        if self.passes:
            return self._pass_request(body, model)
        losses = self._read(body) if self._read_losses is None else self._read_losses
        addressed, self.requests_encrypted_reasoning = self.reasoning.restore(
            self._addressed(model, losses), kept or {}, losses
        )
        self._lowered = emulate_tools(addressed, self._client.family, self._target(), losses)
        request = self._paired(self._lowered.request, losses, ends_open=ends_open)
        capabilities = self._capabilities
        if ends_open and capabilities.alternating_roles:
            # What an example for training ends with is its point.
            capabilities = replace(capabilities, alternating_roles=False)
        written = self._backend.write_request(
            fit_to_capabilities(request, capabilities, losses), capabilities, losses
        )
        if self._client is not self._backend:
            self._refuse_nothing(request, ends_open=ends_open)
        self._forget_history()
        return Translation(written, tuple(losses))

    def _paired(self, request: Request, losses: Losses, *, ends_open: bool) -> Request:
        """Give each call its output, unless its own server remembers calls that are not here."""
        if self._goes_on(request):
            return request
        return pair_tool_calls(
            request,
            losses,
            ends_open=ends_open,
            ids_matter=self._backend.has_call_ids and self._capabilities.tools == "native",
            call_ids=self._capabilities.call_id_format,
        )

    def _forget_history(self) -> None:
        """Keep of a request what its answer depends on: a long history must not wait with it."""
        self._asked = replace(self._asked, items=(), paths=())
        if self._lowered is not None:
            request = replace(self._lowered.request, items=(), paths=())
            self._lowered = replace(self._lowered, request=request)

    def _pass_request(self, body: bytes, model: str | None) -> Translation:
        """Pass a request on, all but the name of the model and what was sealed for another."""
        fields = read_body(body)
        losses: tuple[Loss, ...] = ()
        stripped = self.reasoning.strip(body)
        if stripped is not body:
            body, fields = stripped, read_body(stripped)
            losses = (Loss("dropped", self._client.names["items"], NOT_FOR_THIS),)
        self._unread = body
        if model is not None:
            body = fields.encode_with(model=model)
        stream = fields.raw("stream")
        self._client_streams = stream is not None and bytes(stream) == b"true"
        return Translation(body, losses)

    def _addressed(self, model: str | None, losses: Losses) -> Request:
        """Give what was asked as this backend is to be asked."""
        streams = self.backend_streams
        changes: dict[str, object] = {}
        if model is not None:
            changes["model"] = model
        if streams != self.client_streams:
            changes["stream"] = streams or None
            if not streams:
                why = "the backend does not stream; the answer comes in one piece"
                losses.changed("stream", why)
        if streams and self._capabilities.stream_options and not self.relays():
            # Asked for wherever it can be: whoever writes the answer decides whether to show it.
            changes["include_usage"] = True
        if self._keeps_answers(self._asked):
            changes["store"] = True
        return replace(self._asked, **changes) if changes else self._asked

    def _target(self) -> BackendToolSupport:
        """Give what the backend can be told of tools."""
        backend, capabilities = self._backend, self._capabilities
        knows_tools = capabilities.tools == "native"
        return BackendToolSupport(
            # In words any function can be told, and nothing else.
            (lambda tool: backend.supports_tool(tool, capabilities))
            if knows_tools
            else _is_function,
            backend.longest_name,
            capabilities.strict_tools and backend.has_strict,
            capabilities.max_deferred_tools,
        )

    def told(self) -> EmulatedRequest:
        """Give what the backend was told; where the bytes pass, that is what was asked."""
        if self._lowered is None:
            try:
                self._lowered = emulate_tools(
                    self.asked, self._client.family, self._target(), Losses(None)
                )
            except DragomanError:
                self._lowered = EmulatedRequest(self.asked, ToolRegistry())
        return self._lowered

    def _keeps_answers(self, asked: Request) -> bool:
        """Tell whether silence about `store` is a yes, and goes to a server that means it so."""
        silent = asked.store is None
        return silent and self._client.stores_by_default and self._client is self._backend

    def _goes_on(self, request: Request) -> bool:
        """Tell whether a request goes on with what its own server remembers, calls among it."""
        if self._client is not self._backend:
            return False
        named = any(extra.name in self._client.server_state_fields for extra in request.extras)
        return named or any(isinstance(item, ItemReference) for item in request.items)

    def _refuse_nothing(self, request: Request, *, ends_open: bool) -> None:
        """Refuse what asks nothing; within one dialect its own server decides."""
        if not request.items and not request.instructions:
            raise InvalidRequestError(self._client.names["items"], "there is nothing to answer")
        if request.model is None and not ends_open:
            raise InvalidRequestError("model", "it is missing")

    @property
    def client_streams(self) -> bool:
        """Tell whether the client asked for a stream."""
        return self._client_streams

    @property
    def backend_streams(self) -> bool:
        """Tell whether the backend was asked for a stream: some can do just one of the two."""
        streaming = "both" if self.passes else self._capabilities.streaming
        return self._client_streams if streaming == "both" else streaming == "only"

    def relays(self) -> bool:
        """Tell whether an answer passes as it is: both speak alike, and nothing in it changes."""
        if self._reshapes:
            return False
        if self.passes or self._client is not self._backend:
            return self.passes
        capabilities = self._capabilities
        if capabilities.think_tags or self.backend_streams != self._client_streams:
            return False
        if text_formats(capabilities) or self.told().registry.has_emulated:
            return False
        if self._asked.parallel_tool_calls is False and self._backend.has_call_ids:
            # Calls beyond the first are not for the client, and backends make them all the same.
            return False
        return capabilities.allowed_tools or not isinstance(
            self._asked.tool_choice, AllowedToolsChoice
        )


def _is_function(tool: Tool) -> bool:
    return isinstance(tool, FunctionTool)
