"""Translate a client's request for a backend, and plan the translation of its reply."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.capabilities import GENERIC, Capabilities, TextFormat
from adapters.dialect import (
    DEFAULT,
    Dialect,
    ReplyOptions,
    translate_error_param,
)
from adapters.errors import DragomanError, InvalidRequestError, missing_field
from adapters.ids import IdSource
from adapters.ir.types import (
    EMPTY_REQUEST,
    AllowedToolsChoice,
    Error,
    FunctionTool,
    ItemReference,
    Request,
    Tool,
)
from adapters.losses import Loss, Losses, Policy
from adapters.reasoning.policy import REMOVED_REASONING_REASON, ReasoningPolicy
from adapters.reasoning.sealed import Sealer
from adapters.stages.summary_item import ItemPrepender, ReplySummarizer
from adapters.tool_emulation import (
    BackendToolSupport,
    EmulatedRequest,
    ToolRegistry,
    emulate_tools,
)
from adapters.translation.fit import fit_to_capabilities, pair_tool_calls
from adapters.wire.error_body import Redact
from adapters.wire.json_object import RequestBody, parse_body

# The last stage of a reply, chosen by the gateway: a summary of a conversation, or an item that is
# put before the backend's own.
FinalStage = ReplySummarizer | ItemPrepender


class TranslationOptions(Struct, frozen=True):
    """Both dialects, what the backend accepts, and how the client wants its reply."""

    client: Dialect
    backend: Dialect
    ids: IdSource
    capabilities: Capabilities = GENERIC
    reply_options: ReplyOptions = DEFAULT
    policy: Policy = "report"
    # Translate between equal dialects too, because the backend's capabilities require it.
    rewrite: bool = False
    # Encrypts reasoning that clients carry for us.
    sealer: Sealer | None = None
    # Fields of a Responses object that the gateway decides, such as the id of a stored response.
    response_overrides: Mapping[str, object] = {}
    # Makes the last stage of the reply.
    final_stage: Callable[[Losses], FinalStage] | None = None
    # Redacts secrets in a backend's errors.
    redact: Redact | None = None
    # Return the whole reply at the end of a stream, for the store.
    keep_reply: bool = False

    @property
    def passes_requests(self) -> bool:
        """Whether the client's request goes to the backend as it is."""
        return self.client is self.backend and not self.rewrite

    def reasoning_policy(self) -> ReasoningPolicy:
        """Return how reasoning travels in this exchange."""
        return ReasoningPolicy(self.sealer, self.client, self.backend, self.capabilities)


def emulate_for_backend(
    request: Request, options: TranslationOptions, losses: Losses
) -> EmulatedRequest:
    """Return a request with only those tools that the backend can be sent."""
    backend, capabilities = options.backend, options.capabilities
    native = capabilities.tools == "native"
    support = BackendToolSupport(
        # In a prompt any function can be described, and nothing else.
        (lambda tool: backend.supports_tool(tool, capabilities)) if native else _is_function,
        backend.longest_name,
        capabilities.strict_tools and backend.has_strict,
        capabilities.max_deferred_tools,
    )
    return emulate_tools(request, options.client.family, support, losses)


def _is_function(tool: Tool) -> bool:
    return isinstance(tool, FunctionTool)


# The plan of a reply


class ReplyPlan(Struct, frozen=True):
    """What the translation of a reply depends on, without the request's history."""

    options: TranslationOptions
    # The client's request; EMPTY_REQUEST if it is not known.
    request: Request
    # The tools that were declared to the backend, and which of the client's they stand for.
    backend_tools: tuple[Tool, ...]
    registry: ToolRegistry
    reasoning: ReasoningPolicy
    client_streams: bool
    backend_streams: bool
    # The reply's bytes pass unchanged.
    passthrough: bool


def plan_reply(
    options: TranslationOptions, request: Request = EMPTY_REQUEST, *, streams: bool | None = None
) -> ReplyPlan:
    """Return the plan for a reply whose request was not translated here."""
    client_streams = bool(request.stream) if streams is None else streams
    emulated = EmulatedRequest(request, ToolRegistry())
    if request is not EMPTY_REQUEST:
        # Whether the request makes sense is decided by the backend, to which it was sent as it is.
        with suppress(DragomanError):
            emulated = emulate_for_backend(request, options, Losses(None))
        # A long history must not be kept while the reply is streamed.
        request = replace(request, items=(), paths=())
    return ReplyPlan(
        options,
        request,
        emulated.request.tools,
        emulated.registry,
        options.reasoning_policy(),
        client_streams,
        client_streams,
        passthrough=options.passes_requests and options.final_stage is None,
    )


def plan_translated(
    options: TranslationOptions,
    request: Request,
    emulated: EmulatedRequest,
    reasoning: ReasoningPolicy,
    *,
    backend_streams: bool,
) -> ReplyPlan:
    """Return the plan for the reply to a client's request that was translated."""
    client_streams = bool(request.stream)
    same = options.client is options.backend and client_streams == backend_streams
    return ReplyPlan(
        options,
        replace(request, items=(), paths=()),
        emulated.request.tools,
        emulated.registry,
        reasoning,
        client_streams,
        backend_streams,
        passthrough=same and _replies_pass(options, request, emulated.registry),
    )


def _replies_pass(options: TranslationOptions, request: Request, registry: ToolRegistry) -> bool:
    """Whether replies in the client's dialect pass as they are, because nothing in them changes."""
    capabilities = options.capabilities
    if options.final_stage is not None or capabilities.think_tags:
        return False
    if text_formats(capabilities) or registry.has_emulated:
        return False
    if request.parallel_tool_calls is False and options.backend.has_call_ids:
        # Backends make several calls all the same; those after the first are removed.
        return False
    return capabilities.allowed_tools or not isinstance(request.tool_choice, AllowedToolsChoice)


def text_formats(capabilities: Capabilities) -> tuple[TextFormat, ...]:
    """Return the formats in which a backend writes calls into its text."""
    formats = capabilities.text_calls
    return formats if capabilities.tools == "native" else ("hermes", *formats)


def error_for_client(error: Error, plan: ReplyPlan) -> Error:
    """Return a backend's error with its parameter named as in the client's request."""
    options = plan.options
    moved = not all(isinstance(tool, FunctionTool) for tool in plan.request.tools)
    param = translate_error_param(error.param, options.backend, options.client, tools_moved=moved)
    return error if param == error.param else replace(error, param=param)


# The request

_TRUE = Raw(b"true")


class ClientRequest(Struct, frozen=True):
    """A client's request: read into the IR, or as it is where it passes through."""

    body: RequestBody
    options: TranslationOptions
    # EMPTY_REQUEST where the request passes through unread.
    request: Request
    losses: Losses
    reasoning: ReasoningPolicy

    def reasoning_keys(self) -> tuple[str, ...]:
        """Return the keys under which the reasoning of earlier calls may have been stored."""
        return self.reasoning.storage_keys(self.request) if self.reasoning.may_have_stored else ()


class BackendRequest(Struct, frozen=True):
    """A request in the backend's dialect."""

    body: bytes
    losses: tuple[Loss, ...]
    reply_plan: ReplyPlan
    # The backend was asked for encrypted reasoning although the client did not ask for it.
    requests_encrypted_reasoning: bool = False


def read_client_request(body: RequestBody, options: TranslationOptions) -> ClientRequest:
    """Read a request into the IR, unless it passes through.

    Raises `InvalidRequestError` if it cannot be read, `UnsupportedRequestError` if it cannot be
    translated.
    """
    losses, reasoning = Losses(options.policy, options.client.names), options.reasoning_policy()
    if options.passes_requests:
        return ClientRequest(body, options, EMPTY_REQUEST, losses, reasoning)
    request = options.client.read_request(body, losses)
    return ClientRequest(body, options, request, losses, reasoning)


def write_backend_request(
    read: ClientRequest,
    *,
    model: str | None = None,
    stored_reasoning: Mapping[str, str] | None = None,
    ends_open: bool = False,
) -> BackendRequest:
    """Write a request for the backend, where the model may have another name.

    `stored_reasoning` is what was stored under `read.reasoning_keys()`. A training example may end
    with the call that the model should make: with `ends_open`, that call gets no output.
    """
    if read.options.passes_requests:
        return _pass_request(read, model)
    options, losses, capabilities = read.options, read.losses, read.options.capabilities
    backend_streams = client_streams = bool(read.request.stream)
    if capabilities.streaming != "both":
        backend_streams = capabilities.streaming == "only"
    if client_streams and not backend_streams:
        losses.changed("stream", "streaming is not supported; the reply is sent at once")
    restored, requested = read.reasoning.restore(read.request, stored_reasoning or {}, losses)
    emulated = emulate_for_backend(restored, options, losses)
    plan = plan_translated(
        options, read.request, emulated, read.reasoning, backend_streams=backend_streams
    )
    request = _with_backend_settings(emulated.request, plan, model)
    same_dialect = options.client is options.backend
    if not (same_dialect and _continues_backend_state(request, options)):
        # A backend may itself remember calls that are not in the request.
        request = pair_tool_calls(
            request,
            losses,
            ends_open=ends_open,
            ids_matter=options.backend.has_call_ids and capabilities.tools == "native",
            call_ids=capabilities.call_id_format,
        )
    if ends_open and capabilities.alternating_roles:
        # The call at the end of a training example is its point.
        capabilities = replace(capabilities, alternating_roles=False)
    if capabilities is not GENERIC:
        request = fit_to_capabilities(request, capabilities, losses)
    written = options.backend.write_request(request, capabilities, losses)
    if not same_dialect:
        # Within one dialect the backend decides what a request must have.
        if not request.items and not request.instructions:
            raise InvalidRequestError(options.client.names["items"], "must not be empty")
        if request.model is None and not ends_open:
            raise missing_field("model")
    return BackendRequest(written, tuple(losses), plan, requested)


def _pass_request(read: ClientRequest, model: str | None) -> BackendRequest:
    """Pass a request on with the backend's model name, without what was sealed for another."""
    body, options = read.body, read.options
    losses: tuple[Loss, ...] = ()
    original = body.encode()
    stripped = read.reasoning.strip(original)
    if stripped is not original:
        body = parse_body(stripped)
        losses = (Loss("dropped", options.client.names["items"], REMOVED_REASONING_REASON),)
    streams = body.fields.get("stream") == _TRUE
    request = EMPTY_REQUEST
    if streams or options.final_stage is not None:
        # Whether it makes sense is decided by the backend, which speaks its dialect.
        with suppress(DragomanError):
            request = options.client.read_request(body, Losses(None))
    written = stripped if model is None else body.encode(model=model)
    return BackendRequest(written, losses, plan_reply(options, request, streams=streams))


def _with_backend_settings(request: Request, plan: ReplyPlan, model: str | None) -> Request:
    """Return the request with what this backend is to be asked for."""
    options, changes = plan.options, dict[str, object]()
    if model is not None:
        changes["model"] = model
    if plan.backend_streams != plan.client_streams:
        changes["stream"] = plan.backend_streams or None
    if plan.backend_streams and options.capabilities.stream_options and not plan.passthrough:
        # Usage is requested wherever possible; the writer decides whether the client gets it.
        changes["include_usage"] = True
    same_dialect = options.client is options.backend
    if plan.request.store is None and same_dialect and options.client.stores_by_default:
        changes["store"] = True
    return replace(request, **changes) if changes else request


def _continues_backend_state(request: Request, options: TranslationOptions) -> bool:
    """Whether the backend itself remembers a part of the conversation."""
    named = any(extra.name in options.client.server_state_fields for extra in request.extras)
    return named or any(isinstance(item, ItemReference) for item in request.items)
