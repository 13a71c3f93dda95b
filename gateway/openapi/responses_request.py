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
    Opaque,
    Verbosity,
)
from gateway.openapi.responses_items import HOSTED_TOOL_TYPES, AnyItem, AnyTool, opaque

# Tool choice


class ToolChoice(ApiModel, tag_field="type"):
    """What the model must or may call."""


class FunctionChoice(ToolChoice, tag="function"):
    """The model must call this function."""

    name: str


class CustomToolChoice(ToolChoice, tag="custom"):
    """The model must call this custom tool."""

    name: str


class AllowedToolsChoice(ToolChoice, tag="allowed_tools"):
    """The model may call only these tools, or must call one of them."""

    mode: Literal["auto", "required"]
    tools: list[dict[str, Any]]


KnownToolChoice = FunctionChoice | CustomToolChoice | AllowedToolsChoice
TypeChoice = Annotated[
    Any,
    opaque(
        "The model must use a tool of this type.",
        (
            *HOSTED_TOOL_TYPES,
            "computer",
            "computer_use",
            "computer_use_preview",
            "shell",
            "apply_patch",
        ),
    ),
]
ResponsesToolChoice = Literal["none", "auto", "required"] | KnownToolChoice | TypeChoice


# Settings


class ResponsesSchemaFormat(ApiModel, tag_field="type", tag="json_schema"):
    """The output is JSON that follows a schema."""

    name: str
    schema: JsonSchema
    description: str | None = None
    strict: bool | None = None


class TextSettings(ApiModel):
    """The format of the output text."""

    format: TextFormat | JsonObjectFormat | ResponsesSchemaFormat | None = None
    verbosity: Verbosity | None = None


class ReasoningSettings(ApiModel):
    """How much the model reasons, and how much of it is returned."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    generate_summary: str | None = None
    context: str | None = None
    mode: str | None = None


class ContextManagement(ApiModel):
    """When the conversation is summarized to save context."""

    type: str
    compact_threshold: int | None = None


class ConversationReference(ApiModel):
    """A stored conversation."""

    id: str


class PromptTemplate(ApiModel):
    """A prompt that is stored by the backend."""

    id: str
    variables: dict[str, Any] | None = None
    version: str | None = None


class ResponsesStreamOptions(ApiModel):
    """What a stream contains besides the response."""

    include_obfuscation: bool | None = None


class ResponsesRequest(ApiModel):
    """A request for a response."""

    model: Annotated[str | None, Meta(description="Selects the backend.")] = None
    input: Annotated[str | list[AnyItem] | None, Meta(description="The conversation so far.")] = (
        None
    )
    instructions: Annotated[str | None, Meta(description="Instructions of the developer.")] = None
    stream: Annotated[bool | None, Meta(description="Send the response as a stream of events.")] = (
        None
    )
    stream_options: ResponsesStreamOptions | None = None

    tools: list[AnyTool] | None = None
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

    background: Annotated[
        bool | None, Meta(description="Return at once; the response is retrieved later.")
    ] = None
    conversation: str | ConversationReference | None = None
    previous_response_id: str | None = None
    store: Annotated[
        bool | None, Meta(description="Store the response for later requests; true by default.")
    ] = None
    context_management: list[ContextManagement] | None = None
    prompt: PromptTemplate | None = None

    metadata: Metadata | None = None
    moderation: Moderation | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    user: str | None = None
    image: Opaque | None = None
    access_programs: Opaque | None = None
