"""The Responses API: the items of a conversation that every backend can take part in."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from gateway.openapi.common import ApiModel, Arguments, CacheBreakpoint, JsonSchema, Opaque

# The Responses API: the parts of messages and of tool outputs.


class ResponsesPart(ApiModel, tag_field="type"):
    """One part of a message or of a tool's output."""


class InputText(ResponsesPart, tag="input_text"):
    """Text for the model."""

    text: str
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputImage(ResponsesPart, tag="input_image"):
    """An image for the model: an address or data URL, or the id of a file."""

    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputFile(ResponsesPart, tag="input_file"):
    """A file for the model: its content, its address or its id."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    detail: str | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class OutputText(ResponsesPart, tag="output_text"):
    """Text of the model."""

    text: str
    annotations: Annotated[
        list[Opaque] | None, Meta(description="Sources that the text cites.")
    ] = None
    logprobs: list[Opaque] | None = None


class OutputRefusal(ResponsesPart, tag="refusal"):
    """A refusal of the model."""

    refusal: str


class SummaryText(ResponsesPart, tag="summary_text"):
    """What the model thought, in short."""

    text: str


class ReasoningText(ResponsesPart, tag="reasoning_text"):
    """What the model thought."""

    text: str


InputPart = InputText | InputImage | InputFile
OutputPart = OutputText | OutputRefusal
MessagePart = InputText | InputImage | InputFile | OutputText | OutputRefusal


# The Responses API: tools.
#
# Functions and custom tools work with every backend. What only some servers have is passed on to
# them, and reported as a loss by any other.


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


CallId = Annotated[str, Meta(description="Pairs a call with its output.")]
Status = Literal["in_progress", "completed", "incomplete", "failed"]
ToolOutput = str | list[InputPart]


class Item(ApiModel, tag_field="type"):
    """One item of a conversation."""

    id: str | None = None
    status: Status | None = None


class MessageItem(Item, tag="message", kw_only=True):
    """A message. The `type` may be left out."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[MessagePart]
    phase: str | None = None


class FunctionCallItem(Item, tag="function_call", kw_only=True):
    """A call of a function."""

    call_id: CallId
    name: str
    arguments: Arguments
    namespace: str | None = None
    caller: Opaque | None = None
    is_async: bool | None = field(default=None, name="async")


class FunctionOutputItem(Item, tag="function_call_output", kw_only=True):
    """What a function gave back; the call is known by its id, or else by its name."""

    output: ToolOutput
    call_id: CallId | None = None
    name: str | None = None
    namespace: str | None = None
    caller: Opaque | None = None


class CustomCallItem(Item, tag="custom_tool_call", kw_only=True):
    """A call of a custom tool, with plain text."""

    call_id: CallId
    name: str
    input: str
    namespace: str | None = None
    caller: Opaque | None = None
    is_async: bool | None = field(default=None, name="async")


class CustomOutputItem(Item, tag="custom_tool_call_output", kw_only=True):
    """What a custom tool gave back."""

    call_id: CallId
    output: ToolOutput
    caller: Opaque | None = None


class ReasoningItem(Item, tag="reasoning", kw_only=True):
    """What the model thought."""

    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None


class ReferenceItem(Item, tag="item_reference", kw_only=True):
    """An item that the server keeps. The `type` may be left out."""


class CompactionItem(Item, tag="compaction", kw_only=True):
    """A conversation in short, sealed by the server that made it."""

    encrypted_content: str


class CompactionTriggerItem(Item, tag="compaction_trigger"):
    """Asks for the conversation in short."""


class ToolSearchCallItem(Item, tag="tool_search_call", kw_only=True):
    """A search for tools."""

    arguments: Any
    call_id: CallId | None = None
    execution: Literal["server", "client"] | None = None


class ToolSearchOutputItem(Item, tag="tool_search_output", kw_only=True):
    """The tools that were found."""

    tools: list[AnyResponsesTool]
    call_id: CallId | None = None
    execution: Literal["server", "client"] | None = None


class AdditionalToolsItem(Item, tag="additional_tools", kw_only=True):
    """Tools that are declared in mid-conversation."""

    role: str
    tools: list[AnyResponsesTool]


class ConfigurationItem(Item, tag="configuration_update", kw_only=True):
    """Settings that change in mid-conversation."""

    reasoning: Opaque | None = None
    text: Opaque | None = None


# The Responses API: items of tools that only some servers or clients have.
#
# They go unchanged to a backend that speaks this dialect. Any other backend either gets them in a
# form that it knows, or they are reported as lost.


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
