"""The plan of a reply: what its translation depends on."""

from msgspec import Struct
from msgspec.structs import replace

from adapters.capabilities import Capabilities, TextFormat
from adapters.errors import DragomanError
from adapters.ir.types import EMPTY_REQUEST, AllowedToolsChoice, FunctionTool, Request, Tool
from adapters.losses import Losses
from adapters.reasoning.policy import ReasoningPolicy
from adapters.tool_emulation import (
    BackendToolSupport,
    EmulatedRequest,
    ToolRegistry,
    emulate_tools,
)
from adapters.translation.options import TranslationOptions


class ReplyPlan(Struct, frozen=True):
    """What the translation of a reply depends on, without the request's history."""

    options: TranslationOptions
    # The client's request; EMPTY_REQUEST if it is not known.
    request: Request
    # The request after tool emulation, and which of its tools stands for which of the client's.
    emulated: EmulatedRequest
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
    return ReplyPlan(
        options,
        request,
        emulate_leniently(request, options),
        options.reasoning_policy(),
        client_streams,
        client_streams,
        passthrough=options.passes_requests and options.final_stage is None,
    )


def plan_for_request(
    request: Request,
    emulated: EmulatedRequest,
    options: TranslationOptions,
    *,
    client_streams: bool,
    backend_streams: bool,
) -> ReplyPlan:
    """Return the plan for the reply to a translated request."""
    same_streaming = client_streams == backend_streams
    return ReplyPlan(
        options,
        # A long history must not be kept while the reply is streamed.
        replace(request, items=(), paths=()),
        replace(emulated, request=replace(emulated.request, items=(), paths=())),
        options.reasoning_policy(),
        client_streams,
        backend_streams,
        _replies_pass(request, emulated, options, same_streaming=same_streaming),
    )


def _replies_pass(
    request: Request,
    emulated: EmulatedRequest,
    options: TranslationOptions,
    *,
    same_streaming: bool,
) -> bool:
    """Whether replies pass as they are: equal dialects, and nothing in them changes."""
    if options.final_stage is not None:
        return False
    if options.passes_requests or options.client is not options.backend:
        return options.passes_requests
    capabilities = options.capabilities
    if capabilities.think_tags or not same_streaming:
        return False
    if text_formats(capabilities) or emulated.registry.has_emulated:
        return False
    if request.parallel_tool_calls is False and options.backend.has_call_ids:
        # Backends make several calls all the same; those after the first are removed.
        return False
    return capabilities.allowed_tools or not isinstance(request.tool_choice, AllowedToolsChoice)


def text_formats(capabilities: Capabilities) -> tuple[TextFormat, ...]:
    """Return the formats in which a backend writes calls into its text."""
    formats = capabilities.text_calls
    return formats if capabilities.tools == "native" else ("hermes", *formats)


def emulate_leniently(request: Request, options: TranslationOptions) -> EmulatedRequest:
    """Emulate the tools of a request that is not sent; without emulation if that fails."""
    family, support = options.client.family, tool_support(options)
    try:
        return emulate_tools(request, family, support, Losses(None))
    except DragomanError:
        return EmulatedRequest(request, ToolRegistry())


def tool_support(options: TranslationOptions) -> BackendToolSupport:
    """Return which tools the backend can be sent."""
    backend, capabilities = options.backend, options.capabilities
    native = capabilities.tools == "native"
    return BackendToolSupport(
        # In a prompt any function can be described, and nothing else.
        (lambda tool: backend.supports_tool(tool, capabilities)) if native else _is_function,
        backend.longest_name,
        capabilities.strict_tools and backend.has_strict,
        capabilities.max_deferred_tools,
    )


def _is_function(tool: Tool) -> bool:
    return isinstance(tool, FunctionTool)
