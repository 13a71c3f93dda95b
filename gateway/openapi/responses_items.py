"""The Responses API: content parts, tools and items.

Functions, custom tools and other tools that clients run work with every backend. Tools that a
backend runs are forwarded to Responses backends, and reported as a loss for other backends.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from gateway.openapi.common import ApiModel, Arguments, CacheBreakpoint, JsonSchema, Opaque

HOSTED_TOOL_TYPES: Final = (
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "file_search",
    "mcp",
    "code_interpreter",
    "image_generation",
    "programmatic_tool_calling",
)
HOSTED_ITEM_TYPES: Final = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "program",
    "program_output",
    "configuration_update",
)


def opaque(description: str, types: tuple[str, ...]) -> Meta:
    """Describe objects by the values of `type`, without their other fields."""
    properties = {"type": {"enum": list(types)}}
    schema = {"type": "object", "properties": properties, "required": ["type"]}
    return Meta(description=description, extra_json_schema=schema)


HostedTool = Annotated[Any, opaque("A tool that the backend runs.", HOSTED_TOOL_TYPES)]
HostedItem = Annotated[Any, opaque("An item that only the Responses API has.", HOSTED_ITEM_TYPES)]

# Content parts


class ResponsesPart(ApiModel, tag_field="type"):
    """One part of a message or of a tool output."""


class InputText(ResponsesPart, tag="input_text"):
    """Text for the model."""

    text: str
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputImage(ResponsesPart, tag="input_image"):
    """An image for the model: a URL, a data URL or the id of a file."""

    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class InputFile(ResponsesPart, tag="input_file"):
    """A file for the model: its content, its URL or its id."""

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
    """A summary of the model's reasoning."""

    text: str


class ReasoningText(ResponsesPart, tag="reasoning_text"):
    """Reasoning of the model."""

    text: str


# Tools


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
    """A group of tools under one name."""

    name: str
    tools: list[FunctionTool | CustomTool]
    description: str | None = None


class ToolSearchTool(ResponsesTool, tag="tool_search"):
    """A search for tools whose loading is deferred."""

    execution: Literal["server", "client"] | None = None
    description: str | None = None
    parameters: JsonSchema | None = None


class ComputerTool(ResponsesTool, tag="computer"):
    """A computer that the model controls, run by the client."""


class ComputerPreviewTool(ResponsesTool, tag="computer_use_preview"):
    """The older form of `computer`."""

    display_height: int
    display_width: int
    environment: str


class ShellTool(ResponsesTool, tag="shell"):
    """A shell, run by the client or by the backend."""

    environment: Opaque | None = None
    allowed_callers: list[str] | None = None


class LocalShellTool(ResponsesTool, tag="local_shell"):
    """The older form of `shell`, run by the client."""


class ApplyPatchTool(ResponsesTool, tag="apply_patch"):
    """Changes to files, applied by the client."""

    allowed_callers: list[str] | None = None


KnownTool = (
    FunctionTool
    | CustomTool
    | NamespaceTool
    | ToolSearchTool
    | ComputerTool
    | ComputerPreviewTool
    | ShellTool
    | LocalShellTool
    | ApplyPatchTool
)
AnyTool = KnownTool | HostedTool


# Items

CallId = Annotated[str, Meta(description="Links a call to its output.")]
ToolOutput = str | list[InputText | InputImage | InputFile]


class Item(ApiModel, tag_field="type"):
    """One item of a conversation."""

    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete", "failed"] | None = None


class MessageItem(Item, tag="message", kw_only=True):
    """A message. `type` may be omitted."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputText | InputImage | InputFile | OutputText | OutputRefusal]
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
    """The output of a function, linked to its call by `call_id` or else by `name`."""

    output: ToolOutput
    call_id: CallId | None = None
    name: str | None = None
    namespace: str | None = None
    caller: Opaque | None = None


class CustomCallItem(Item, tag="custom_tool_call", kw_only=True):
    """A call of a custom tool."""

    call_id: CallId
    name: str
    input: str
    namespace: str | None = None
    caller: Opaque | None = None
    is_async: bool | None = field(default=None, name="async")


class CustomOutputItem(Item, tag="custom_tool_call_output", kw_only=True):
    """The output of a custom tool."""

    call_id: CallId
    output: ToolOutput
    caller: Opaque | None = None


class ReasoningItem(Item, tag="reasoning", kw_only=True):
    """Reasoning of the model."""

    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None


class ReferenceItem(Item, tag="item_reference", kw_only=True):
    """A reference to a stored item by its `id`. `type` may be omitted."""


class CompactionItem(Item, tag="compaction", kw_only=True):
    """An encrypted summary of the conversation before it."""

    encrypted_content: str


class CompactionTriggerItem(Item, tag="compaction_trigger"):
    """A request for a summary of the conversation before it."""


class ToolSearchCallItem(Item, tag="tool_search_call", kw_only=True):
    """A search for tools."""

    arguments: Any
    call_id: CallId | None = None
    execution: Literal["server", "client"] | None = None


class ToolSearchOutputItem(Item, tag="tool_search_output", kw_only=True):
    """The tools that a search found."""

    tools: list[AnyTool]
    call_id: CallId | None = None
    execution: Literal["server", "client"] | None = None


class AdditionalToolsItem(Item, tag="additional_tools", kw_only=True):
    """Tools that are declared in the middle of a conversation."""

    role: str
    tools: list[AnyTool]


class ComputerCallItem(Item, tag="computer_call", kw_only=True):
    """An action on a computer."""

    call_id: CallId
    pending_safety_checks: list[Opaque]
    action: Opaque | None = None
    actions: list[Opaque] | None = None


class ComputerOutputItem(Item, tag="computer_call_output", kw_only=True):
    """A screenshot after an action on a computer."""

    call_id: CallId
    output: Opaque
    acknowledged_safety_checks: list[Opaque] | None = None


class LocalShellCallItem(Item, tag="local_shell_call", kw_only=True):
    """A command for the `local_shell` tool."""

    call_id: CallId
    action: Opaque


class LocalShellOutputItem(Item, tag="local_shell_call_output", kw_only=True):
    """The output of a `local_shell` command."""

    output: str


class ShellCallItem(Item, tag="shell_call", kw_only=True):
    """Commands for a shell."""

    call_id: CallId
    action: Opaque
    caller: Opaque | None = None
    environment: Opaque | None = None


class ShellOutputItem(Item, tag="shell_call_output", kw_only=True):
    """The output of shell commands."""

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
    """The result of a change to a file."""

    call_id: CallId
    output: str | None = None
    caller: Opaque | None = None


KnownItem = (
    MessageItem
    | FunctionCallItem
    | FunctionOutputItem
    | CustomCallItem
    | CustomOutputItem
    | ReasoningItem
    | ReferenceItem
    | CompactionItem
    | CompactionTriggerItem
    | ToolSearchCallItem
    | ToolSearchOutputItem
    | AdditionalToolsItem
    | ComputerCallItem
    | ComputerOutputItem
    | LocalShellCallItem
    | LocalShellOutputItem
    | ShellCallItem
    | ShellOutputItem
    | ApplyPatchCallItem
    | ApplyPatchOutputItem
)
AnyItem = KnownItem | HostedItem
