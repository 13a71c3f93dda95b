"""The Responses API: the request."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.chat_request import JsonObjectFormat, TextFormat
from gateway.openapi.common import (
    ApiModel,
    CacheOptions,
    Effort,
    JsonSchema,
    Metadata,
    Moderation,
    ServiceTier,
    Verbosity,
)
from gateway.openapi.responses_items import (
    AdditionalToolsItem,
    AnyResponsesTool,
    ApplyPatchCallItem,
    ApplyPatchOutputItem,
    CodeInterpreterItem,
    CompactionItem,
    CompactionTriggerItem,
    ComputerCallItem,
    ComputerOutputItem,
    ConfigurationItem,
    CustomCallItem,
    CustomOutputItem,
    FileSearchItem,
    FunctionCallItem,
    FunctionOutputItem,
    ImageItem,
    LocalShellCallItem,
    LocalShellOutputItem,
    McpApprovalItem,
    McpApprovalRequestItem,
    McpCallItem,
    McpListItem,
    MessageItem,
    ProgramItem,
    ProgramOutputItem,
    ReasoningItem,
    ReferenceItem,
    ShellCallItem,
    ShellOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
    WebSearchItem,
)

# The Responses API: which tool to call.


class ToolChoice(ApiModel, tag_field="type"):
    """What must be called, or may be."""


class ChosenFunction(ToolChoice, tag="function"):
    """The one function that must be called."""

    name: str


class ChosenCustom(ToolChoice, tag="custom"):
    """The one custom tool that must be called."""

    name: str


class ChosenMcp(ToolChoice, tag="mcp"):
    """A tool of an MCP server that must be called, or any of its tools."""

    server_label: str
    name: str | None = None


class AllowedChoice(ToolChoice, tag="allowed_tools"):
    """Only these tools may be called, or one of them must be."""

    mode: Literal["auto", "required"]
    tools: list[dict[str, Any]]


# Tools that are forced by their type alone


class ChosenFileSearch(ToolChoice, tag="file_search"):
    """A search in files must be used."""


class ChosenWebSearch(ToolChoice, tag="web_search"):
    """A search of the web must be used."""


class ChosenWebSearchPreview(ToolChoice, tag="web_search_preview"):
    """A search of the web, as it was before must be used."""


class ChosenDatedWebSearchPreview(ToolChoice, tag="web_search_preview_2025_03_11"):
    """The same, in the version of a date."""


class ChosenComputer(ToolChoice, tag="computer"):
    """A computer must be used."""


class ChosenComputerUse(ToolChoice, tag="computer_use"):
    """A computer, by another name must be used."""


class ChosenComputerPreview(ToolChoice, tag="computer_use_preview"):
    """A computer, as it was before must be used."""


class ChosenImageGeneration(ToolChoice, tag="image_generation"):
    """An image must be used."""


class ChosenCodeInterpreter(ToolChoice, tag="code_interpreter"):
    """A program must be used."""


class ChosenApplyPatch(ToolChoice, tag="apply_patch"):
    """A change to files must be used."""


class ChosenShell(ToolChoice, tag="shell"):
    """A shell must be used."""


class ChosenProgram(ToolChoice, tag="programmatic_tool_calling"):
    """A program that calls tools must be used."""


ResponsesToolChoice = (
    Literal["none", "auto", "required"]
    | ChosenFunction
    | ChosenCustom
    | ChosenMcp
    | AllowedChoice
    | ChosenFileSearch
    | ChosenWebSearch
    | ChosenWebSearchPreview
    | ChosenDatedWebSearchPreview
    | ChosenComputer
    | ChosenComputerUse
    | ChosenComputerPreview
    | ChosenImageGeneration
    | ChosenCodeInterpreter
    | ChosenApplyPatch
    | ChosenShell
    | ChosenProgram
)


AnyItem = (
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
    | ConfigurationItem
    | FileSearchItem
    | WebSearchItem
    | ComputerCallItem
    | ComputerOutputItem
    | ImageItem
    | CodeInterpreterItem
    | LocalShellCallItem
    | LocalShellOutputItem
    | ShellCallItem
    | ShellOutputItem
    | ApplyPatchCallItem
    | ApplyPatchOutputItem
    | McpListItem
    | McpApprovalRequestItem
    | McpApprovalItem
    | McpCallItem
    | ProgramItem
    | ProgramOutputItem
)


class ResponsesSchemaFormat(ApiModel, tag_field="type", tag="json_schema"):
    """The answer is JSON that fits a schema."""

    name: str
    schema: JsonSchema
    description: str | None = None
    strict: bool | None = None


class TextSettings(ApiModel):
    """The form of the answer."""

    format: TextFormat | JsonObjectFormat | ResponsesSchemaFormat | None = None
    verbosity: Verbosity | None = None


class ReasoningSettings(ApiModel):
    """How much the model thinks, and what is told of it."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    generate_summary: str | None = None
    context: str | None = None
    mode: str | None = None


class ContextManagement(ApiModel):
    """What is done when the conversation becomes too long."""

    type: str
    compact_threshold: int | None = None


class ConversationReference(ApiModel):
    """A conversation that the server keeps."""

    id: str


class PromptTemplate(ApiModel):
    """A prompt that the server keeps."""

    id: str
    variables: dict[str, Any] | None = None
    version: str | None = None


class ResponsesStreamOptions(ApiModel):
    """What a stream holds besides the answer."""

    include_obfuscation: bool | None = None


class ImageSettings(ApiModel):
    """How images are shortened."""

    context_compression: str | None = None


class AccessPrograms(ApiModel):
    """Programmes that the caller takes part in."""

    cyber: str | None = None


class ResponsesRequest(ApiModel):
    """A request for a response."""

    model: Annotated[str | None, Meta(description="Decides which backend is asked.")] = None
    input: Annotated[str | list[AnyItem] | None, Meta(description="The conversation so far.")] = (
        None
    )
    instructions: Annotated[
        str | None, Meta(description="What the developer says to the model.")
    ] = None
    stream: Annotated[bool | None, Meta(description="Answer event by event.")] = None
    stream_options: ResponsesStreamOptions | None = None

    tools: list[AnyResponsesTool] | None = None
    tool_choice: ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None

    background: bool | None = None
    conversation: str | ConversationReference | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    context_management: list[ContextManagement] | None = None
    prompt: PromptTemplate | None = None

    metadata: Metadata | None = None
    moderation: Moderation | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: ServiceTier | None = None
    user: str | None = None
    image: ImageSettings | None = None
    access_programs: AccessPrograms | None = None
