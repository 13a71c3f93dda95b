"""Translate a client's request for a backend, and plan the translation of its reply."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from msgspec import Raw, Struct
from msgspec.structs import replace

from adapters.capabilities import GENERIC, Capabilities, TextFormat
from adapters.dialect import DEFAULT_REPLY_OPTIONS, Dialect, ReplyOptions, translate_error_param
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
    ToolCall,
)
from adapters.losses import Loss, Losses, Policy
from adapters.reasoning.policy import REMOVED_REASONING_REASON, ReasoningPolicy
from adapters.reasoning.sealed import Sealer
from adapters.stages.summary_item import ItemPrepender, ReplySummarizer
from adapters.tool_emulation import BackendToolSupport, EmulatedRequest, ToolRegistry, emulate_tools
from adapters.transforms.apply import Transforms, begin_exchange, transform_request
from adapters.translation.call_ids import call_id_rule
from adapters.translation.emulated_fields import without_choices, without_stop
from adapters.translation.fit import (
    describe_format,
    fit_to_capabilities,
    join_text_parts,
    pair_tool_calls,
)
from adapters.translation.settings_updates import apply_settings_updates
from adapters.translation.thinking import fit_thinking, is_thinking
from adapters.wire.error_body import Redact
from adapters.wire.extra_body import add_extra_body, missing_fields
from adapters.wire.json_object import RequestBody, parse_body

# The last stage of a reply, which the gateway may add: it turns the reply into a summary of the
# conversation, or adds an item before those of the reply.
FinalStage = ReplySummarizer | ItemPrepender


class TranslationOptions(Struct, frozen=True):
    """The dialects of both sides, the capabilities of the backend, and options of the reply."""

    client: Dialect
    backend: Dialect
    ids: IdSource
    capabilities: Capabilities = GENERIC
    reply_options: ReplyOptions = DEFAULT_REPLY_OPTIONS
    policy: Policy = "report"
    # Translate between equal dialects too, because the backend's capabilities require it.
    rewrite: bool = False
    # Repair replies between equal dialects, instead of forwarding whatever the backend sends.
    repair: bool = True
    # Seals reasoning that clients carry.
    sealer: Sealer | None = None
    # Fields of a response object that the gateway sets, such as the id of a stored response.
    response_overrides: Mapping[str, object] = {}
    # Makes the last stage of the reply.
    final_stage: Callable[[Losses], FinalStage] | None = None
    # Redacts secrets in a backend's errors.
    redact: Redact | None = None
    # Return the whole reply at the end of a stream, for the store.
    keep_reply: bool = False
    # The maximum number of choices for which a request is sent several times, because the backend
    # gives one. By default, requests for several choices are rejected.
    max_choices: int = 1
    # The transforms of the backend, in the order in which requests pass them.
    transforms: Transforms = ()

    @property
    def passes_requests(self) -> bool:
        """Whether requests are forwarded unchanged."""
        return self.client is self.backend and not self.rewrite and not self.transforms_requests

    @property
    def transforms_requests(self) -> bool:
        """Whether a transform changes requests."""
        return bool(self.transforms) and any(one.changes_requests for one in self.transforms)

    @property
    def transforms_replies(self) -> bool:
        """Whether a transform changes replies."""
        return bool(self.transforms) and any(one.changes_replies for one in self.transforms)

    def accepts(self, field: str) -> bool:
        """Whether the backend accepts a field of the IR."""
        name = self.backend.names.get(field, field)
        rejected = self.capabilities.unsupported_fields
        return field not in self.backend.unsupported_fields and name not in rejected

    def without_fields(self, names: Collection[str]) -> "TranslationOptions":
        """Return the options for a backend that rejects some more fields of its dialect."""
        fields = (*self.capabilities.unsupported_fields, *names)
        capabilities = replace(self.capabilities, unsupported_fields=fields)
        return replace(self, capabilities=capabilities, rewrite=True)

    def emulates_stop(self, request: Request) -> bool:
        """Whether the reply is cut at the stop sequences of the request."""
        return bool(request.stop) and not self.passes_requests and not self.accepts("stop")

    @property
    def repairs_replies(self) -> bool:
        """Whether replies are repaired if they are not translated."""
        return self.repair and self.client.repairs

    def repeats(self, request: Request) -> bool:
        """Whether a request is sent once for each of its choices."""
        several = request.choices is not None and request.choices > 1 < self.max_choices
        return several and not self.passes_requests and not self.accepts("choices")

    def reasoning_policy(self) -> ReasoningPolicy:
        """Return the policy for reasoning between these two sides."""
        return ReasoningPolicy(
            self.sealer, self.client, self.backend, self.capabilities, self.reply_options
        )


def emulate_for_backend(
    request: Request, options: TranslationOptions, losses: Losses
) -> EmulatedRequest:
    """Return the request with only such tools as the backend accepts."""
    backend, capabilities = options.backend, options.capabilities
    native = capabilities.tools == "native"
    support = BackendToolSupport(
        # A prompt can describe any function, and no other tool.
        lambda tool: (
            backend.supports_tool(tool, capabilities) if native else isinstance(tool, FunctionTool)
        ),
        backend.max_tool_name_length,
        capabilities.strict_tools and backend.has_strict,
        capabilities.max_deferred_tools,
    )
    return emulate_tools(request, options.client.family, support, losses)


# The plan of a reply


class ReplyPlan(Struct, frozen=True):
    """The values that the translation of a reply depends on, without the request's history."""

    options: TranslationOptions
    # The client's request as the transforms changed it; EMPTY_REQUEST if it is not known.
    request: Request
    # The client's request before that.
    client_request: Request
    # The tools that were declared to the backend, and the client's tools that they emulate.
    backend_tools: tuple[Tool, ...]
    registry: ToolRegistry
    reasoning: ReasoningPolicy
    client_streams: bool
    backend_streams: bool
    # Whether the bytes of the reply are forwarded unchanged.
    passthrough: bool
    # The ids of the calls in the history.
    call_ids: frozenset[str] = frozenset()
    # How often the request is sent; each reply is one choice if it is more than once.
    requests: int = 1


# Requests without emulated tools share it, because nothing is added to it.
_NO_TOOLS = ToolRegistry()


def plan_reply(
    options: TranslationOptions,
    request: Request = EMPTY_REQUEST,
    *,
    streams: bool | None = None,
    reasoning: ReasoningPolicy | None = None,
) -> ReplyPlan:
    """Return the plan for the reply to a request that was not translated."""
    client_streams = bool(request.stream) if streams is None else streams
    options = _begin_exchange(options)
    client_request, transformed = request, _transform(request, options, Losses(None))
    emulated = EmulatedRequest(transformed, _NO_TOOLS)
    if request is not EMPTY_REQUEST:
        if not options.passes_requests:
            # Ignore errors: the backend received the request unchanged and checks it.
            with suppress(DragomanError):
                emulated = emulate_for_backend(transformed, options, Losses(None))
        request, client_request = _without_history(transformed, request)
    return ReplyPlan(
        options,
        request,
        client_request,
        emulated.request.tools,
        emulated.registry,
        reasoning or options.reasoning_policy(),
        client_streams,
        client_streams,
        passthrough=options.passes_requests
        and options.final_stage is None
        and not options.transforms_replies
        and (not options.repairs_replies or _replies_pass(options, request, emulated.registry)),
    )


def _begin_exchange(options: TranslationOptions) -> TranslationOptions:
    """Return the options with the transforms for one exchange."""
    if not options.transforms:
        return options
    return replace(options, transforms=begin_exchange(options.transforms))


def _transform(request: Request, options: TranslationOptions, losses: Losses) -> Request:
    """Return a client's request as the transforms change it, unless it is not known."""
    if not options.transforms or request is EMPTY_REQUEST:
        return request
    return transform_request(request, options.transforms, losses, options.client.names)


def _without_history(request: Request, client_request: Request) -> tuple[Request, Request]:
    """Return a request after and before its transforms, without the memory of a long history."""
    kept = replace(request, items=(), paths=())
    if request is client_request:
        return kept, kept
    return kept, replace(client_request, items=(), paths=())


def _replies_pass(options: TranslationOptions, request: Request, registry: ToolRegistry) -> bool:
    """Whether replies in the client's dialect can be forwarded unchanged."""
    capabilities = options.capabilities
    if options.final_stage is not None or capabilities.think_tags or text_formats(capabilities):
        return False
    emulates = registry.has_emulated or options.emulates_stop(request) or options.repeats(request)
    if emulates or options.transforms_replies:
        return False
    if options.repairs_replies:
        # Calls that the request does not allow are removed.
        return True
    if request.parallel_tool_calls is False and options.backend.has_call_ids:
        # Backends may ignore this field: calls after the first one are removed.
        return False
    if not isinstance(request.tool_choice, AllowedToolsChoice):
        return True
    accepted = capabilities.allowed_tools
    return options.backend.has_allowed_tools if accepted is None else accepted


def text_formats(capabilities: Capabilities) -> tuple[TextFormat, ...]:
    """Return the formats of calls in the text of a backend's reply."""
    formats = capabilities.text_calls
    return formats if capabilities.tools == "native" else ("hermes", *formats)


def error_for_client(error: Error, plan: ReplyPlan) -> Error:
    """Return a backend's error with its parameter named as in the client's request."""
    options = plan.options
    tools = plan.request.tools
    moved = len(tools) != len(plan.client_request.tools) or not all(
        isinstance(tool, FunctionTool) for tool in tools
    )
    param = translate_error_param(error.param, options.backend, options.client, tools_dropped=moved)
    return error if param == error.param else replace(error, param=param)


# The request

_TRUE = Raw(b"true")
_ONLY_STREAMS_REASON = "the backend sends only streams; the reply is sent at once"
_USAGE_REASON = "the gateway requests the usage; the client does not receive it"
_NONE = Raw(b"[]")


class ClientRequest(Struct, frozen=True):
    """A client's request, converted to the IR unless it is forwarded unchanged."""

    body: RequestBody
    options: TranslationOptions
    # The request as the transforms changed it, and before; EMPTY_REQUEST if it is forwarded
    # unchanged.
    request: Request
    client_request: Request
    losses: Losses
    reasoning: ReasoningPolicy

    def reasoning_keys(self) -> tuple[str, ...]:
        """Return the keys under which the reasoning of earlier calls may have been stored."""
        if not self.reasoning.may_have_stored:
            return ()
        if self.options.passes_requests:
            return self.reasoning.passed_keys(self.body)
        return self.reasoning.storage_keys(self.request)


class BackendRequest(Struct, frozen=True):
    """A request in the backend's dialect."""

    body: bytes
    losses: tuple[Loss, ...]
    reply_plan: ReplyPlan
    # Whether only the gateway, and not the client, requested encrypted reasoning.
    requests_encrypted_reasoning: bool = False


def read_client_request(body: RequestBody, options: TranslationOptions) -> ClientRequest:
    """Convert a request to the IR, unless it is forwarded unchanged.

    Raises `InvalidRequestError` if it cannot be read, `UnsupportedRequestError` if it cannot be
    translated.
    """
    options = _begin_exchange(options)
    client, reasoning = options.client, options.reasoning_policy()
    losses = Losses(options.policy, client.loss_names or client.names)
    if options.passes_requests:
        return ClientRequest(body, options, EMPTY_REQUEST, EMPTY_REQUEST, losses, reasoning)
    client_request = client.read_request(body, losses)
    request = _transform(client_request, options, losses)
    if client.family != options.backend.family:
        request = apply_settings_updates(request, losses)
    return ClientRequest(body, options, request, client_request, losses, reasoning)


def write_backend_request(
    read: ClientRequest,
    *,
    model: str | None = None,
    stored_reasoning: Mapping[str, str] | None = None,
    ends_open: bool = False,
) -> BackendRequest:
    """Write a request for the backend; `model` is the backend's name of the model.

    `stored_reasoning` has the values that are stored under `read.reasoning_keys()`. With
    `ends_open`, a call at the end gets no output: in a training example, it is the reply.
    """
    if read.options.passes_requests:
        return _pass_request(read, model, stored_reasoning or {})
    options, losses, capabilities = read.options, read.losses, read.options.capabilities
    backend_streams = bool(read.request.stream)
    if capabilities.streaming != "both":
        backend_streams = _backend_streams(read.request, capabilities, options.backend)
        _report_streaming(read.request, losses, backend_streams=backend_streams)
    restored, requested = read.reasoning.restore(read.request, stored_reasoning or {}, losses)
    emulated = emulate_for_backend(restored, options, losses)
    plan = _plan_translated(read, emulated, backend_streams=backend_streams)
    request = _without_emulated_fields(emulated.request, options, losses)
    request = _with_backend_settings(request, plan, model, losses)
    same_dialect = options.client is options.backend
    # Do not pair outputs with calls if the backend may have stored these calls.
    if not (same_dialect and _continues_backend_state(request, options)):
        request = pair_tool_calls(
            request,
            losses,
            ends_open=ends_open,
            ids_matter=options.backend.has_call_ids and capabilities.tools == "native",
            call_ids=call_id_rule(capabilities.call_id_format, capabilities.min_call_id_length),
        )
    if not same_dialect:
        request, capabilities = _fit_to_other_dialect(request, capabilities, options, losses)
    if ends_open and capabilities.alternating_roles:
        # Keep the assistant message at the end, which alternating roles do not allow.
        capabilities = replace(capabilities, alternating_roles=False)
    written = _write_fitted(request, capabilities, options.backend, losses)
    if not same_dialect:
        # Within one dialect, the backend checks the required fields.
        if not request.items and not request.instructions:
            raise InvalidRequestError(options.client.names["items"], "must not be empty")
        if request.model is None and not ends_open:
            raise missing_field("model")
    return BackendRequest(written, tuple(losses), plan, requested)


def _backend_streams(request: Request, capabilities: Capabilities, backend: Dialect) -> bool:
    """Whether to request a stream of a backend that does not do both."""
    if capabilities.streaming == "only_while_thinking":
        return bool(request.stream) or is_thinking(request, capabilities, backend)
    return capabilities.streaming == "only"


def _report_streaming(request: Request, losses: Losses, *, backend_streams: bool) -> None:
    """Report that a streamed reply is requested as a whole."""
    if request.stream and not backend_streams:
        losses.changed("stream", "streaming is not supported; the reply is sent at once")
        if request.include_obfuscation is not None:
            losses.dropped("include_obfuscation", "the reply is not streamed", "adapted")


def _fit_to_other_dialect(
    request: Request, capabilities: Capabilities, options: TranslationOptions, losses: Losses
) -> tuple[Request, Capabilities]:
    """Leave out what the client's dialect has, and the backend may not accept."""
    backend = options.backend
    if capabilities.text_parts is None and backend.reasoning == "message_field":
        request = join_text_parts(request, losses)
    if backend.predates_tools and capabilities.newer_fields is None:
        capabilities = replace(capabilities, newer_fields=False)
        if request.format is not None and "response_format" not in capabilities.extra_fields:
            reason = "the legacy API may not support this field"
            request = describe_format(request, reason, losses)
    return request, capabilities


def _write_fitted(
    request: Request, capabilities: Capabilities, backend: Dialect, losses: Losses
) -> bytes:
    """Write a request with only such values as the backend accepts, and with its fixed fields."""
    if capabilities is not GENERIC:
        request, capabilities = fit_thinking(request, capabilities, backend, losses)
        request = fit_to_capabilities(request, capabilities, backend, losses)
    written = backend.write_request(request, capabilities, losses)
    if capabilities.extra_body:
        return add_extra_body(written, capabilities.extra_body, losses)
    return written


def _plan_translated(
    read: ClientRequest, emulated: EmulatedRequest, *, backend_streams: bool
) -> ReplyPlan:
    """Return the plan for the reply to a request that was translated."""
    options, request = read.options, read.request
    client_streams = bool(request.stream)
    same = options.client is options.backend and client_streams == backend_streams
    return ReplyPlan(
        options,
        *_without_history(request, read.client_request),
        emulated.request.tools,
        emulated.registry,
        read.reasoning,
        client_streams,
        backend_streams,
        passthrough=same and _replies_pass(options, request, emulated.registry),
        call_ids=frozenset([item.call_id for item in request.items if isinstance(item, ToolCall)]),
        requests=(request.choices or 1) if options.repeats(request) else 1,
    )


def _pass_request(
    read: ClientRequest, model: str | None, stored_reasoning: Mapping[str, str]
) -> BackendRequest:
    """Forward a request with the backend's model name, and only with the backend's reasoning."""
    body, options = read.body, read.options
    losses: tuple[Loss, ...] = ()
    original = body.encode()
    stripped = read.reasoning.strip(original)
    if stripped is not original:
        body = parse_body(stripped)
        losses = (Loss("dropped", options.client.names["items"], REMOVED_REASONING_REASON),)
    body = read.reasoning.put_back(body, stored_reasoning)
    streams = body.fields.get("stream") == _TRUE
    request = _read_for_reply(body, options, streams=streams)
    changes: dict[str, object] = {} if model is None else {"model": model}
    if options.capabilities.extra_body:
        added = Losses()
        changes |= missing_fields(body.fields, options.capabilities.extra_body, added)
        losses += tuple(added)
    written = body.encode(**changes)
    plan = plan_reply(options, request, streams=streams, reasoning=read.reasoning)
    history = body.fields.get(options.client.names["items"], _NONE)
    if body.items is not None:
        history = Raw(b"[%b]" % b",".join(item.raw for item in body.items))
    call_ids = options.client.find_call_ids(history)
    return BackendRequest(written, losses, replace(plan, call_ids=call_ids) if call_ids else plan)


def _read_for_reply(body: RequestBody, options: TranslationOptions, *, streams: bool) -> Request:
    """Read what the reply to a forwarded request depends on, which is not its history."""
    client, fields = options.client, body.fields
    if not streams and options.final_stage is None and not options.transforms_replies:
        if not options.repairs_replies:
            return EMPTY_REQUEST
        if client.reply_fields.isdisjoint(fields):
            return Request(model=body.reader().peek("model"))
    # Ignore errors: the backend has the same dialect and checks the request.
    with suppress(DragomanError):
        without_items = replace(body, fields=fields | {client.names["items"]: _NONE}, items=None)
        return client.read_request(without_items, Losses(None))
    return EMPTY_REQUEST


def _without_emulated_fields(
    request: Request, options: TranslationOptions, losses: Losses
) -> Request:
    """Return the request without the fields whose effect is produced in the reply."""
    if options.repeats(request):
        seeds = options.accepts("seed")
        request = without_choices(request, options.max_choices, losses, seeds=seeds)
    elif request.choices == 1 and not options.accepts("choices"):
        request = replace(request, choices=None)
    return without_stop(request, losses) if options.emulates_stop(request) else request


def _with_backend_settings(
    request: Request, plan: ReplyPlan, model: str | None, losses: Losses
) -> Request:
    """Return the request with the fields that depend on the backend."""
    options, changes = plan.options, dict[str, object]()
    if model is not None:
        changes["model"] = model
    if plan.backend_streams != plan.client_streams:
        changes["stream"] = plan.backend_streams or None
        if plan.backend_streams:
            _report_addition(request.stream, "stream", _ONLY_STREAMS_REASON, losses)
    if plan.backend_streams and _has_stream_options(options) and not plan.passthrough:
        # Request usage wherever possible; the writer sends it only if the client requested it.
        changes["include_usage"] = True
        if not request.include_usage and "include_usage" in _shared_names(options):
            _report_addition(request.include_usage, "include_usage", _USAGE_REASON, losses)
    if _needs_single_call(request, options):
        changes["parallel_tool_calls"] = False
        reason = "the legacy API has at most one call per reply; one is requested"
        losses.invented("parallel_tool_calls", reason, "adapted")
    same_dialect = options.client is options.backend
    stores = same_dialect and options.client.stores_by_default and options.accepts("store")
    if plan.request.store is None and stores:
        changes["store"] = True
    return replace(request, **changes) if changes else request


def _report_addition(given: object, field: str, reason: str, losses: Losses) -> None:
    """Report that a field is set which the client did not set, or set to another value."""
    report = losses.invented if given is None else losses.changed
    report(field, reason, "adapted")


def _shared_names(options: TranslationOptions) -> frozenset[str]:
    """Return the IR fields that both sides have under names of their own."""
    return frozenset(options.client.names.keys() & options.backend.names.keys())


def _has_stream_options(options: TranslationOptions) -> bool:
    """Whether the backend accepts `stream_options`, which are newer than legacy functions."""
    newer = options.capabilities.newer_fields
    if newer is None:
        newer = options.client is options.backend
    known = newer or not options.backend.predates_tools
    return known and options.capabilities.stream_options


def _needs_single_call(request: Request, options: TranslationOptions) -> bool:
    """Whether the backend must be asked for one call, as the client's dialect has no more."""
    supported = options.backend.has_call_ids and options.capabilities.parallel_tool_calls
    unset = request.parallel_tool_calls is None and bool(request.tools)
    return unset and supported and not options.client.has_call_ids


def _continues_backend_state(request: Request, options: TranslationOptions) -> bool:
    """Whether the backend itself has stored a part of the conversation."""
    named = any(extra.name in options.client.server_state_fields for extra in request.extras)
    return named or any(isinstance(item, ItemReference) for item in request.items)
