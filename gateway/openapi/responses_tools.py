"""The Responses API: tools.

Functions and custom tools work with every backend. What only some servers have is passed on to
them, and reported as a loss by any other.
"""

from typing import Any, Literal

from msgspec import field

from gateway.openapi.common import ApiModel, JsonSchema, Opaque


class ResponsesTool(ApiModel, tag_field="type"):
    """A tool that the model may use."""


class FunctionTool(ResponsesTool, tag="function"):
    """A function that the model may call."""

    name: str
    parameters: JsonSchema | None = None
    strict: bool | None = None
    description: str | None = None
    output_schema: JsonSchema | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    is_async: bool | None = field(default=None, name="async")


class ResponsesTextFormat(ApiModel, tag_field="type", tag="text"):
    """Any text."""


class ResponsesGrammarFormat(ApiModel, tag_field="type", tag="grammar"):
    """Text that follows a grammar."""

    definition: str
    syntax: Literal["lark", "regex"]


class CustomTool(ResponsesTool, tag="custom"):
    """A tool whose input is plain text."""

    name: str
    description: str | None = None
    format: ResponsesTextFormat | ResponsesGrammarFormat | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    is_async: bool | None = field(default=None, name="async")


class NamespaceTool(ResponsesTool, tag="namespace"):
    """Several tools under one name."""

    name: str
    tools: list[FunctionTool | CustomTool]
    description: str | None = None


class ToolSearchTool(ResponsesTool, tag="tool_search"):
    """A search for tools that are not told in full."""

    execution: Literal["server", "client"] | None = None
    description: str | None = None
    parameters: JsonSchema | None = None


class UserPlace(ApiModel):
    """About where the user is."""

    type: Literal["approximate"] | None = None
    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class SearchFilters(ApiModel):
    """Where to search."""

    allowed_domains: list[str] | None = None


class WebSearchTool(ResponsesTool, tag="web_search"):
    """A search of the web, by the server."""

    filters: SearchFilters | None = None
    search_context_size: Literal["low", "medium", "high"] | None = None
    user_location: UserPlace | None = None
    external_web_access: bool | None = None


class DatedWebSearchTool(WebSearchTool, tag="web_search_2025_08_26"):
    """The same, in the version of a date."""


class WebSearchPreviewTool(ResponsesTool, tag="web_search_preview"):
    """A search of the web, by the server, as it was before."""

    search_context_size: Literal["low", "medium", "high"] | None = None
    search_content_types: list[str] | None = None
    user_location: UserPlace | None = None


class DatedWebSearchPreviewTool(WebSearchPreviewTool, tag="web_search_preview_2025_03_11"):
    """The same, in the version of a date."""


class FileSearchTool(ResponsesTool, tag="file_search"):
    """A search in files that the server keeps."""

    vector_store_ids: list[str]
    filters: Opaque | None = None
    max_num_results: int | None = None
    ranking_options: Opaque | None = None


class McpTool(ResponsesTool, tag="mcp"):
    """The tools of an MCP server, called by the server."""

    server_label: str
    server_url: str | None = None
    server_description: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | dict[str, Any] | None = None
    require_approval: Literal["always", "never"] | dict[str, Any] | None = None
    allowed_callers: list[str] | None = None
    defer_loading: bool | None = None


class CodeInterpreterTool(ResponsesTool, tag="code_interpreter"):
    """A place where the server runs programs of the model."""

    container: str | dict[str, Any]
    allowed_callers: list[str] | None = None


class ImageGenerationTool(ResponsesTool, tag="image_generation"):
    """Images that the server makes."""

    model: str | None = None
    action: str | None = None
    background: str | None = None
    complexity: str | None = None
    frame_count: int | None = None
    frame_duration_ms: int | None = None
    input_fidelity: str | None = None
    input_image_mask: Opaque | None = None
    moderation: str | None = None
    output_compression: int | None = None
    output_format: str | None = None
    partial_images: int | None = None
    quality: str | None = None
    size: str | None = None
    svg: Opaque | None = None


class ComputerTool(ResponsesTool, tag="computer"):
    """A computer to look at and to click on."""


class ComputerPreviewTool(ResponsesTool, tag="computer_use_preview"):
    """The same, as it was before."""

    display_height: int
    display_width: int
    environment: str


class ShellTool(ResponsesTool, tag="shell"):
    """A shell, of the client or of the server."""

    environment: Opaque | None = None
    allowed_callers: list[str] | None = None


class LocalShellTool(ResponsesTool, tag="local_shell"):
    """A shell of the client, as it was before."""


class ApplyPatchTool(ResponsesTool, tag="apply_patch"):
    """Changes to files, which the client makes."""

    allowed_callers: list[str] | None = None


class ProgramTool(ResponsesTool, tag="programmatic_tool_calling"):
    """Calls that a program of the model makes."""


AnyResponsesTool = (
    FunctionTool
    | CustomTool
    | NamespaceTool
    | ToolSearchTool
    | WebSearchTool
    | DatedWebSearchTool
    | WebSearchPreviewTool
    | DatedWebSearchPreviewTool
    | FileSearchTool
    | McpTool
    | CodeInterpreterTool
    | ImageGenerationTool
    | ComputerTool
    | ComputerPreviewTool
    | ShellTool
    | LocalShellTool
    | ApplyPatchTool
    | ProgramTool
)
