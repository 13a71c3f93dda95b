"""How one exchange between a client and a backend is translated, and the plan of its reply."""

from collections.abc import Callable, Mapping
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from adapters.capabilities import GENERIC, Capabilities, TextFormat
from adapters.dialect import (
    DEFAULT,
    Dialect,
    ReplyContext,
    ReplyOptions,
    translate_error_param,
)
from adapters.errors import DragomanError
from adapters.ids import IdSource
from adapters.ir.types import (
    EMPTY_REQUEST,
    AllowedToolsChoice,
    CallKind,
    CustomTool,
    Error,
    FunctionTool,
    Request,
    Tool,
)
from adapters.losses import Losses, Policy
from adapters.reasoning.policy import ReasoningPolicy
from adapters.reasoning.sealed import Sealer
from adapters.stages.call_filter import call_filters
from adapters.stages.stage import Stage
from adapters.stages.summary_item import PrependItem, SummarizeReply
from adapters.stages.think_tags import ThinkTagParser
from adapters.text_tools.stage import TextToolCallParser
from adapters.tool_emulation import (
    BackendToolSupport,
    CallDowngrader,
    CallRestorer,
    EmulatedRequest,
    ToolRegistry,
    emulate_tools,
)
from adapters.wire.error_body import Redact
from adapters.wire.tools import declared_names

# The last stage of a reply, chosen by the gateway: a summary of a conversation, or an item that is
# put before the backend's own.
FinalStage = SummarizeReply | PrependItem

_ALL_KINDS: frozenset[CallKind] = frozenset(get_args(CallKind))


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


# The plan


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
    try:
        emulated = emulate_for_backend(request, options, Losses(None))
    except DragomanError:
        # Whether the request makes sense is decided by the backend, to which it was sent as it is.
        emulated = EmulatedRequest(request, ToolRegistry())
    return ReplyPlan(
        options,
        # A long history must not be kept while the reply is streamed.
        replace(request, items=(), paths=()),
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
    if _text_formats(capabilities) or registry.has_emulated:
        return False
    if request.parallel_tool_calls is False and options.backend.has_call_ids:
        # Backends make several calls all the same; those after the first are removed.
        return False
    return capabilities.allowed_tools or not isinstance(request.tool_choice, AllowedToolsChoice)


def _text_formats(capabilities: Capabilities) -> tuple[TextFormat, ...]:
    """Return the formats in which a backend writes calls into its text."""
    formats = capabilities.text_calls
    return formats if capabilities.tools == "native" else ("hermes", *formats)


def error_for_client(error: Error, plan: ReplyPlan) -> Error:
    """Return a backend's error with its parameter named as in the client's request."""
    options = plan.options
    moved = not all(isinstance(tool, FunctionTool) for tool in plan.request.tools)
    param = translate_error_param(error.param, options.backend, options.client, tools_moved=moved)
    return error if param == error.param else replace(error, param=param)


# Stages


def reply_stages(plan: ReplyPlan, context: ReplyContext) -> list[Stage]:
    """Return the stages between the reader of a reply and its writer, in the order they run.

    Most replies need only one or two of them.
    """
    options, request, registry = plan.options, plan.request, plan.registry
    capabilities, losses = options.capabilities, context.losses
    stages: list[Stage] = []
    if capabilities.think_tags:
        stages.append(ThinkTagParser(losses))
    formats = _text_formats(capabilities)
    if formats and (declared_names(plan.backend_tools) or request == EMPTY_REQUEST):
        stages.append(TextToolCallParser(formats, plan.backend_tools, context.ids, losses))
    if registry:
        collects = capabilities.check_grammars
        stages.append(CallRestorer(registry, losses, collects_inputs=collects))
    if request.tool_choice is not None or request.parallel_tool_calls is False:
        stages += call_filters(request, registry, losses)
    known_kinds = options.client.call_kinds
    if not known_kinds >= _ALL_KINDS:
        if request.tools and not any(isinstance(tool, CustomTool) for tool in request.tools):
            # A client that declares no custom tools does not expect their calls.
            known_kinds -= {"custom"}
        if registry.has_emulated or not known_kinds >= options.backend.call_kinds:
            stages.append(CallDowngrader(known_kinds, losses))
    capture = plan.reasoning.capture_stage(request)
    if capture is not None:
        stages.append(capture)
    if options.final_stage is not None:
        stages.append(options.final_stage(losses))
    return stages
