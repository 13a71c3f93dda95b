"""Every tool that an agent carries, in the words that a backend has for it, and back.

Agents declare far more than functions: custom tools, namespaces, searches, shells. A backend that
knows only functions is told of each as a function; its calls come back as what they really are. All
of it happens in the hub, between reader and writer, so that every pair of dialects has it.

    lower    a request: what is declared, what was called, what must be called
    Raising  an answer: the calls of functions as the calls that they stand for
    Telling  an answer, for a client that itself knows only functions
"""

from msgspec import Struct
from msgspec.structs import replace

from adapters.ir.normalize import unzip
from adapters.ir.types import Request
from adapters.losses import Losses
from adapters.tool_emulation.declare import declare_tools
from adapters.tool_emulation.downgrade import CallDowngrader, HistoryEmulator
from adapters.tool_emulation.registry import BackendToolSupport, ToolRegistry
from adapters.tool_emulation.restore import CallRestorer, GrammarCheck
from adapters.tool_emulation.tool_choice import emulate_tool_choice

__all__ = [
    "BackendToolSupport",
    "CallDowngrader",
    "CallRestorer",
    "EmulatedRequest",
    "GrammarCheck",
    "ToolRegistry",
    "emulate_tools",
]


class EmulatedRequest(Struct, frozen=True):
    """A request for a backend, and which of its tools is which."""

    request: Request
    registry: ToolRegistry


def emulate_tools(request: Request, target: BackendToolSupport, losses: Losses) -> EmulatedRequest:
    """Give a request that declares and calls only what the backend can be told of.

    Raises `Refused` if two tools would have one name.
    """
    tools, table = declare_tools(request, target, losses)
    told, tool_paths = unzip(tools)
    items, paths = unzip([*HistoryEmulator(table, target, losses).lower(request)])
    lowered = replace(
        request,
        tools=told,
        tool_paths=tool_paths,
        tool_choice=emulate_tool_choice(request.tool_choice, table),
        items=items,
        paths=paths,
    )
    return EmulatedRequest(lowered, table)
