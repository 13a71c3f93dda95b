"""Chat Completions: the request, of Chat clients and of legacy clients."""

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
    ServiceTier,
    Verbosity,
)

# Chat Completions: the messages of a conversation.


# Parts of a message


class ChatPart(ApiModel, tag_field="type"):
    """One part of a message."""


class CachedChatPart(ChatPart):
    """A part after which the cached beginning of a prompt may end."""

    prompt_cache_breakpoint: CacheBreakpoint | None = None


class ChatText(CachedChatPart, tag="text", kw_only=True):
    """Text."""

    text: str


class ImageAddress(ApiModel):
    """Where an image is: an address, or the image itself as a data URL."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class ChatImage(CachedChatPart, tag="image_url", kw_only=True):
    """An image."""

    image_url: ImageAddress


class AudioData(ApiModel):
    """Sound, in base64."""

    data: str
    format: Literal["wav", "mp3"]


class ChatAudio(CachedChatPart, tag="input_audio", kw_only=True):
    """Sound."""

    input_audio: AudioData


class FileData(ApiModel):
    """A file: its content, or the id under which the backend has it."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class ChatFile(CachedChatPart, tag="file", kw_only=True):
    """A file."""

    file: FileData


class ChatRefusal(ChatPart, tag="refusal"):
    """A refusal of the model, in history."""

    refusal: str


UserContent = str | list[ChatText | ChatImage | ChatAudio | ChatFile]
TextContent = str | list[ChatText]


# Calls


class CalledFunction(ApiModel):
    """Which function is called, and with what."""

    name: str
    arguments: Arguments


class CalledCustom(ApiModel):
    """Which custom tool is called, and with what text."""

    name: str
    input: str


class ChatCall(ApiModel, tag_field="type"):
    """A call of a tool."""

    id: Annotated[str, Meta(description="Pairs the call with its result.")]


class ChatFunctionCall(ChatCall, tag="function"):
    """A call of a function."""

    function: CalledFunction


class ChatCustomCall(ChatCall, tag="custom"):
    """A call of a custom tool, whose input is plain text."""

    custom: CalledCustom


AnyChatCall = ChatFunctionCall | ChatCustomCall


# Messages


class ChatMessage(ApiModel, tag_field="role"):
    """One message of a conversation."""


class DeveloperMessage(ChatMessage, tag="developer"):
    """What the developer says to the model."""

    content: TextContent
    name: str | None = None


class SystemMessage(ChatMessage, tag="system"):
    """The same, as older models know it."""

    content: TextContent
    name: str | None = None


class UserMessage(ChatMessage, tag="user"):
    """What the user says."""

    content: UserContent
    name: str | None = None


class SpokenAudio(ApiModel):
    """Sound that the model made before."""

    id: str


class AssistantMessage(ChatMessage, tag="assistant"):
    """What the model said before, and what it called."""

    content: str | list[ChatText | ChatRefusal] | None = None
    refusal: str | None = None
    tool_calls: list[AnyChatCall] | None = None
    function_call: Annotated[
        CalledFunction | None, Meta(description="The one call, in the legacy dialect.")
    ] = None
    reasoning_content: Annotated[
        str | None, Meta(description="What the model thought, for servers that want it back.")
    ] = None
    audio: SpokenAudio | None = None
    name: str | None = None


class ToolMessage(ChatMessage, tag="tool"):
    """The result of a call."""

    content: TextContent
    tool_call_id: str


class FunctionMessage(ChatMessage, tag="function"):
    """The result of a call, in the legacy dialect."""

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
