"""The Responses API: items of tools that only some servers or clients have.

They go unchanged to a backend that speaks this dialect. Any other backend either gets them in a
form that it knows, or they are reported as lost.
"""

from typing import Any

from gateway.openapi.common import Arguments, Opaque
from gateway.openapi.responses_items import CallId, Item


class FileSearchItem(Item, tag="file_search_call", kw_only=True):
    """A search in files."""

    queries: list[str]
    results: list[Opaque] | None = None


class WebSearchItem(Item, tag="web_search_call", kw_only=True):
    """A search of the web."""

    action: Opaque | None = None


class ComputerCallItem(Item, tag="computer_call", kw_only=True):
    """Something to do on a computer."""

    call_id: CallId
    pending_safety_checks: list[Opaque]
    action: Opaque | None = None
    actions: list[Opaque] | None = None


class ComputerOutputItem(Item, tag="computer_call_output", kw_only=True):
    """What is then seen on it."""

    call_id: CallId
    output: Opaque
    acknowledged_safety_checks: list[Opaque] | None = None


class ImageItem(Item, tag="image_generation_call", kw_only=True):
    """An image that the server made."""

    result: str | None = None
    action: str | None = None
    background: str | None = None
    error: Opaque | None = None
    output_format: str | None = None
    quality: str | None = None
    revised_prompt: str | None = None
    size: str | None = None
    svg_usage: Opaque | None = None


class CodeInterpreterItem(Item, tag="code_interpreter_call", kw_only=True):
    """A program that the server ran."""

    container_id: str
    code: str | None = None
    outputs: list[Opaque] | None = None


class LocalShellCallItem(Item, tag="local_shell_call", kw_only=True):
    """A command for the client's shell, as it was before."""

    call_id: CallId
    action: Opaque


class LocalShellOutputItem(Item, tag="local_shell_call_output", kw_only=True):
    """What that command gave."""

    output: str


class ShellCallItem(Item, tag="shell_call", kw_only=True):
    """Commands for a shell."""

    call_id: CallId
    action: Opaque
    caller: Opaque | None = None
    environment: Opaque | None = None


class ShellOutputItem(Item, tag="shell_call_output", kw_only=True):
    """What those commands gave."""

    call_id: CallId
    output: list[Opaque]
    max_output_length: int | None = None
    caller: Opaque | None = None


class ApplyPatchCallItem(Item, tag="apply_patch_call", kw_only=True):
    """A change to a file."""

    call_id: CallId
    operation: Opaque
    caller: Opaque | None = None


class ApplyPatchOutputItem(Item, tag="apply_patch_call_output", kw_only=True):
    """How the change went."""

    call_id: CallId
    output: str | None = None
    caller: Opaque | None = None


class McpListItem(Item, tag="mcp_list_tools", kw_only=True):
    """The tools of an MCP server."""

    server_label: str
    tools: list[Opaque]
    error: str | None = None


class McpApprovalRequestItem(Item, tag="mcp_approval_request", kw_only=True):
    """A question whether a tool of an MCP server may be called."""

    server_label: str
    name: str
    arguments: Arguments


class McpApprovalItem(Item, tag="mcp_approval_response", kw_only=True):
    """The answer to that."""

    approval_request_id: str
    approve: bool
    reason: str | None = None


class McpCallItem(Item, tag="mcp_call", kw_only=True):
    """A call of a tool of an MCP server."""

    server_label: str
    name: str
    arguments: Arguments
    approval_request_id: str | None = None
    error: str | dict[str, Any] | None = None
    output: str | None = None


class ProgramItem(Item, tag="program", kw_only=True):
    """A program of the model that calls tools."""

    call_id: CallId
    code: str
    fingerprint: str | None = None


class ProgramOutputItem(Item, tag="program_output", kw_only=True):
    """What that program gave."""

    call_id: CallId
    result: Any
