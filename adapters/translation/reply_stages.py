"""The stages between the reader of a reply and its writer, in the order in which they run.

Most replies need only one or two of them.
"""

from typing import get_args

from adapters.capabilities import Capabilities
from adapters.dialect import Dialect, ReplyContext
from adapters.ir.types import EMPTY_REQUEST, CallKind, CustomTool
from adapters.stages.call_filter import call_filters
from adapters.stages.stage import Stage
from adapters.stages.think_tags import ThinkTagParser
from adapters.text_tools.stage import TextToolCallParser
from adapters.tool_emulation import (
    CallDowngrader,
    CallRestorer,
    EmulatedRequest,
)
from adapters.translation.reply_plan import ReplyPlan, text_formats
from adapters.wire.tools import declared_names

_ALL_KINDS: frozenset[CallKind] = frozenset(get_args(CallKind))


def reply_stages(plan: ReplyPlan, context: ReplyContext) -> list[Stage]:
    """Return the stages between reader and writer."""
    options, losses = plan.options, context.losses
    capture = plan.reasoning.capture_stage(plan.request)
    return [
        *_restoring_stages(context, plan.emulated, options.capabilities),
        *_downgrading_stages(context, plan.emulated, options.client, options.backend),
        *(() if capture is None else (capture,)),
        *(() if options.final_stage is None else (options.final_stage(losses),)),
    ]


def _restoring_stages(
    context: ReplyContext,
    emulated: EmulatedRequest,
    capabilities: Capabilities,
) -> list[Stage]:
    """Return the stages that restore what the client's request meant."""
    losses, registry = context.losses, emulated.registry
    collects = capabilities.check_grammars
    return [
        *([ThinkTagParser(losses)] if capabilities.think_tags else []),
        *_text_call_stages(context, emulated, capabilities),
        *([CallRestorer(registry, losses, collects_inputs=collects)] if registry.entries else []),
        *call_filters(context.request, registry, losses),
    ]


def _text_call_stages(
    context: ReplyContext, emulated: EmulatedRequest, capabilities: Capabilities
) -> list[TextToolCallParser]:
    formats, tools = text_formats(capabilities), emulated.request.tools
    expected = bool(declared_names(tools)) or context.request == EMPTY_REQUEST
    if not formats or not expected:
        return []
    return [TextToolCallParser(formats, tools, context.ids, context.losses)]


def _downgrading_stages(
    context: ReplyContext, emulated: EmulatedRequest, client: Dialect, backend: Dialect
) -> list[CallDowngrader]:
    """Return the stage that rewrites kinds of calls that the client does not know."""
    kinds, tools = client.call_kinds, context.request.tools
    if kinds >= _ALL_KINDS:
        return []
    if tools and not any(isinstance(tool, CustomTool) for tool in tools):
        # A client that declares no custom tools does not expect their calls.
        kinds -= {"custom"}
    if kinds >= backend.call_kinds and not emulated.registry.has_emulated:
        return []
    return [CallDowngrader(kinds, context.losses)]
