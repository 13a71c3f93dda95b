"""Chat Completions: the messages of a conversation."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.openapi.common import ApiModel, Arguments, CacheBreakpoint

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
