"""Chat Completions: the request, of Chat clients and of legacy clients."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.chat_messages import AnyChatMessage, TextContent
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

# Tools


class FunctionDefinition(ApiModel):
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: JsonSchema | None = None
    strict: bool | None = None


class GrammarDefinition(ApiModel):
    """A grammar for the input of a custom tool."""

    definition: str
    syntax: Literal["lark", "regex"]


class ChatTextFormat(ApiModel, tag_field="type", tag="text"):
    """Any text."""


class ChatGrammarFormat(ApiModel, tag_field="type", tag="grammar"):
    """Text that follows a grammar."""

    grammar: GrammarDefinition


class CustomDefinition(ApiModel):
    """A tool whose input is plain text."""

    name: str
    description: str | None = None
    format: ChatTextFormat | ChatGrammarFormat | None = None


class ChatFunctionTool(ApiModel, tag_field="type", tag="function"):
    """A function that the model may call."""

    function: FunctionDefinition


class ChatCustomTool(ApiModel, tag_field="type", tag="custom"):
    """A tool whose input is plain text."""

    custom: CustomDefinition


class LegacyFunction(ApiModel):
    """A function that the model may call, in the legacy dialect."""

    name: str
    description: str | None = None
    parameters: JsonSchema | None = None


# Which tool


class ToolName(ApiModel):
    """A tool, by its name."""

    name: str


class ChatNamedFunction(ApiModel, tag_field="type", tag="function"):
    """The one function that must be called."""

    function: ToolName


class ChatNamedCustom(ApiModel, tag_field="type", tag="custom"):
    """The one custom tool that must be called."""

    custom: ToolName


class AllowedTools(ApiModel):
    """Only these tools may be called, or one of them must be."""

    mode: Literal["auto", "required"]
    tools: list[dict[str, Any]]


class ChatAllowedTools(ApiModel, tag_field="type", tag="allowed_tools"):
    """Only some of the tools may be called."""

    allowed_tools: AllowedTools


ChatToolChoice = (
    Literal["none", "auto", "required"] | ChatNamedFunction | ChatNamedCustom | ChatAllowedTools
)

# The form of the answer


class TextFormat(ApiModel, tag_field="type", tag="text"):
    """The answer is text."""


class JsonObjectFormat(ApiModel, tag_field="type", tag="json_object"):
    """The answer is some JSON object."""


class SchemaDefinition(ApiModel):
    """The schema of the answer."""

    name: str
    description: str | None = None
    schema: JsonSchema | None = None
    strict: bool | None = None


class ChatSchemaFormat(ApiModel, tag_field="type", tag="json_schema"):
    """The answer is JSON that fits a schema."""

    json_schema: SchemaDefinition


# The rest


class ChatStreamOptions(ApiModel):
    """What a stream holds besides the answer."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Prediction(ApiModel, tag_field="type", tag="content"):
    """What much of the answer will be."""

    content: TextContent


class Voice(ApiModel):
    """A voice of one's own."""

    id: str


class AudioOutput(ApiModel):
    """How the model shall speak."""

    format: str
    voice: str | Voice


class PlaceNames(ApiModel):
    """About where the user is."""

    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class ApproximatePlace(ApiModel, tag_field="type", tag="approximate"):
    """About where the user is."""

    approximate: PlaceNames


class ChatWebSearch(ApiModel):
    """How the model searches the web, where it can."""

    search_context_size: Literal["low", "medium", "high"] | None = None
    user_location: ApproximatePlace | None = None


class ChatRequest(ApiModel):
    """A request to continue a conversation.

    With `functions` or `function_call` it is one in the legacy dialect, and is answered in kind.
    """

    messages: Annotated[list[AnyChatMessage], Meta(description="The conversation so far.")]
    model: Annotated[str, Meta(description="Decides which backend is asked.")]
    stream: Annotated[bool | None, Meta(description="Answer piece by piece.")] = None
    stream_options: ChatStreamOptions | None = None

    tools: list[ChatFunctionTool | ChatCustomTool] | None = None
    tool_choice: ChatToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[
        list[LegacyFunction] | None, Meta(description="The tools, in the legacy dialect.")
    ] = None
    function_call: Annotated[
        Literal["none", "auto"] | ToolName | None,
        Meta(description="Which function, in the legacy dialect."),
    ] = None

    max_completion_tokens: int | None = None
    max_tokens: Annotated[int | None, Meta(description="The same, by its old name.")] = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: Annotated[int | None, Meta(description="How many answers.")] = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: TextFormat | JsonObjectFormat | ChatSchemaFormat | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: AudioOutput | None = None
    prediction: Prediction | None = None
    web_search_options: ChatWebSearch | None = None

    metadata: Metadata | None = None
    moderation: Moderation | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: ServiceTier | None = None
    store: bool | None = None
    user: str | None = None
