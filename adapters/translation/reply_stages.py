"""What stands between the reader of an answer and its writer, in the order in which it must.

Each is a stage that takes whole replies too, so that an answer is the same however it comes. Most
answers need only one or two of them.
"""

from typing import get_args

from adapters.capabilities import Capabilities, TextFormat
from adapters.dialect import Dialect, ReplyContext
from adapters.ir.types import CallKind, CustomTool, Request
from adapters.stages.call_filter import call_filters
from adapters.stages.stage import Stage
from adapters.stages.summary_item import PrependItem, SummarizeReply
from adapters.stages.think_tags import ThinkTagParser
from adapters.text_tools.stage import TextToolCallParser
from adapters.tool_emulation import (
    CallDowngrader,
    CallRestorer,
    EmulatedRequest,
)
from adapters.wire.tools import declared_names

# Of a request that nobody knows, the answer is told in full.
UNKNOWN_REQUEST = Request(include_usage=True)

# What an answer is made into in the end, by whoever serves.
Reshaping = SummarizeReply | PrependItem

_ANY_KIND: frozenset[CallKind] = frozenset(get_args(CallKind))


def stages(
    around: ReplyContext,
    told: EmulatedRequest,
    capabilities: Capabilities,
) -> list[Stage]:
    """Give what makes of a backend's answer the answer to what was asked."""
    losses, table = around.losses, told.registry
    collects = capabilities.check_grammars
    return [
        *([ThinkTagParser(losses)] if capabilities.think_tags else []),
        *_text_calls(around, told, capabilities),
        *([CallRestorer(table, losses, collects_inputs=collects)] if table.entries else []),
        *call_filters(around.request, table, losses),
    ]


def text_formats(capabilities: Capabilities) -> tuple[TextFormat, ...]:
    """Give the formats in which a backend writes calls into its text."""
    own = capabilities.text_calls
    return own if capabilities.tools == "native" else ("hermes", *own)


def _text_calls(
    around: ReplyContext, told: EmulatedRequest, capabilities: Capabilities
) -> list[TextToolCallParser]:
    """Give what reads calls from the text, where there may be any."""
    formats, tools = text_formats(capabilities), told.request.tools
    known = bool(declared_names(tools)) or around.request is UNKNOWN_REQUEST
    return (
        [TextToolCallParser(formats, tools, around.mint, around.losses)]
        if formats and known
        else []
    )


def telling(
    around: ReplyContext, told: EmulatedRequest, client: Dialect, backend: Dialect
) -> list[CallDowngrader]:
    """Give what tells calls to a client that does not know all kinds of them."""
    kinds, tools = client.call_kinds, around.request.tools
    if kinds >= _ANY_KIND:
        return []
    if tools and not any(isinstance(tool, CustomTool) for tool in tools):
        # A client that declares no custom tools does not expect their calls.
        kinds -= {"custom"}
    if kinds >= backend.call_kinds and not told.registry.has_emulated:
        return []
    return [CallDowngrader(kinds, around.losses)]
