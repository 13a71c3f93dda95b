"""Chat Completions: the request, in the current and in the legacy form."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.common import (
    ApiModel,
    Arguments,
    CacheBreakpoint,
    CacheOptions,
    Effort,
    JsonSchema,
    Metadata,
    Moderation,
    Opaque,
    Verbosity,
)

# Content parts


class ChatPart(ApiModel, tag_field="type"):
    """One part of a message."""


class InputPart(ChatPart):
    """A part of a user message."""

    prompt_cache_breakpoint: CacheBreakpoint | None = None


class ChatText(InputPart, tag="text", kw_only=True):
    """Text."""

    text: str


class ImageUrl(ApiModel):
    """A URL or a data URL of an image."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class ChatImage(InputPart, tag="image_url", kw_only=True):
    """An image."""

    image_url: ImageUrl


class AudioData(ApiModel):
    """Audio in base64."""

    data: str
    format: Literal["wav", "mp3"]


class ChatAudio(InputPart, tag="input_audio", kw_only=True):
    """Audio."""

    input_audio: AudioData


class FileData(ApiModel):
    """A file, by its content or by the id of an upload to the backend."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class ChatFile(InputPart, tag="file", kw_only=True):
    """A file."""

    file: FileData


class ChatRefusal(ChatPart, tag="refusal"):
    """An earlier refusal of the model."""

    refusal: str


TextContent = str | list[ChatText]


# Tool calls


class CalledFunction(ApiModel):
    """The name and the arguments of a function call."""

    name: str
    arguments: Arguments


class CalledCustomTool(ApiModel):
    """The name and the input of a custom tool call."""

    name: str
    input: str


class ChatToolCall(ApiModel, tag_field="type"):
    """A tool call."""

    id: Annotated[str, Meta(description="Links the call to its output.")]


class ChatFunctionCall(ChatToolCall, tag="function"):
    """A call of a function."""

    function: CalledFunction


class ChatCustomCall(ChatToolCall, tag="custom"):
    """A call of a custom tool, whose input is plain text."""

    custom: CalledCustomTool


AnyChatToolCall = ChatFunctionCall | ChatCustomCall


# Messages


class ChatMessage(ApiModel, tag_field="role"):
    """One message of the conversation."""


class DeveloperMessage(ChatMessage, tag="developer"):
    """Instructions of the developer."""

    content: TextContent
    name: str | None = None


class SystemMessage(ChatMessage, tag="system"):
    """Instructions of the developer, for older models."""

    content: TextContent
    name: str | None = None


class UserMessage(ChatMessage, tag="user"):
    """A message of the user."""

    content: str | list[ChatText | ChatImage | ChatAudio | ChatFile]
    name: str | None = None


class AssistantMessage(ChatMessage, tag="assistant"):
    """An earlier message of the model, with its tool calls."""

    content: str | list[ChatText | ChatRefusal] | None = None
    refusal: str | None = None
    tool_calls: list[AnyChatToolCall] | None = None
    function_call: Annotated[
        CalledFunction | None, Meta(description="The only call, in the legacy form.")
    ] = None
    reasoning_content: Annotated[
        str | None, Meta(description="Reasoning, for backends that expect it back.")
    ] = None
    audio: Annotated[
        Opaque | None, Meta(description="The `id` of audio that the model produced earlier.")
    ] = None
    name: str | None = None


class ToolMessage(ChatMessage, tag="tool"):
    """The output of a tool call."""

    content: TextContent
    tool_call_id: str


class FunctionMessage(ChatMessage, tag="function"):
    """The output of a function call, in the legacy form."""

    name: str
    content: str | None = None


AnyChatMessage = (
    DeveloperMessage
    | SystemMessage
    | UserMessage
    | AssistantMessage
    | ToolMessage
    | FunctionMessage
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


class CustomToolDefinition(ApiModel):
    """A tool whose input is plain text."""

    name: str
    description: str | None = None
    format: ChatTextFormat | ChatGrammarFormat | None = None


class ChatFunctionTool(ApiModel, tag_field="type", tag="function"):
    """A function that the model may call."""

    function: FunctionDefinition


class ChatCustomTool(ApiModel, tag_field="type", tag="custom"):
    """A tool whose input is plain text."""

    custom: CustomToolDefinition


class LegacyFunction(ApiModel):
    """A function that the model may call, in the legacy form."""

    name: str
    description: str | None = None
    parameters: JsonSchema | None = None


# Tool choice


class ToolName(ApiModel):
    """The name of a tool."""

    name: str


class ChatFunctionChoice(ApiModel, tag_field="type", tag="function"):
    """The model must call this function."""

    function: ToolName


class ChatCustomChoice(ApiModel, tag_field="type", tag="custom"):
    """The model must call this custom tool."""

    custom: ToolName


class AllowedTools(ApiModel):
    """The tools that the model may call, or one of which it must call."""

    mode: Literal["auto", "required"]
    tools: list[dict[str, Any]]


class ChatAllowedTools(ApiModel, tag_field="type", tag="allowed_tools"):
    """The model may call only some of the tools."""

    allowed_tools: AllowedTools


ChatToolChoice = (
    Literal["none", "auto", "required"] | ChatFunctionChoice | ChatCustomChoice | ChatAllowedTools
)


# Output format


class TextFormat(ApiModel, tag_field="type", tag="text"):
    """The output is text."""


class JsonObjectFormat(ApiModel, tag_field="type", tag="json_object"):
    """The output is a JSON object."""


class SchemaDefinition(ApiModel):
    """A named JSON Schema for the output."""

    name: str
    description: str | None = None
    schema: JsonSchema | None = None
    strict: bool | None = None


class ChatSchemaFormat(ApiModel, tag_field="type", tag="json_schema"):
    """The output is JSON that follows a schema."""

    json_schema: SchemaDefinition


class ChatStreamOptions(ApiModel):
    """What a stream contains besides the reply."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatRequest(ApiModel):
    """A request for a chat completion.

    A request with `functions` or `function_call` is in the legacy form, and so is its reply.
    """

    messages: Annotated[list[AnyChatMessage], Meta(description="The conversation so far.")]
    model: Annotated[str, Meta(description="Selects the backend.")]
    stream: Annotated[bool | None, Meta(description="Send the reply as a stream of chunks.")] = None
    stream_options: ChatStreamOptions | None = None

    tools: list[ChatFunctionTool | ChatCustomTool] | None = None
    tool_choice: ChatToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[
        list[LegacyFunction] | None, Meta(description="The tools, in the legacy form.")
    ] = None
    function_call: Annotated[
        Literal["none", "auto"] | ToolName | None,
        Meta(description="The tool choice, in the legacy form."),
    ] = None

    max_completion_tokens: int | None = None
    max_tokens: Annotated[
        int | None, Meta(description="The older name of `max_completion_tokens`.")
    ] = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: Annotated[int | None, Meta(description="The number of choices.")] = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: TextFormat | JsonObjectFormat | ChatSchemaFormat | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: Annotated[Opaque | None, Meta(description="Format and voice of audio output.")] = None
    prediction: Annotated[
        Opaque | None, Meta(description="Text that much of the output is expected to repeat.")
    ] = None
    web_search_options: Annotated[
        Opaque | None, Meta(description="Settings of the backend's web search.")
    ] = None

    metadata: Metadata | None = None
    moderation: Moderation | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    store: Annotated[bool | None, Meta(description="Store the completion for later retrieval.")] = (
        None
    )
    user: str | None = None
