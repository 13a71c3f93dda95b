"""Chat Completions: the reply, as a whole and as a stream."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.chat_request import AnyChatToolCall, CalledFunction
from gateway.openapi.common import ApiModel, Opaque, Timestamp

FinishReason = Annotated[
    Literal["stop", "length", "tool_calls", "content_filter", "function_call"],
    Meta(description="Why the output ended. `function_call` belongs to the legacy form."),
]


class PromptTokensDetails(ApiModel):
    """A breakdown of the prompt tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    audio_tokens: int | None = None


class CompletionTokensDetails(ApiModel):
    """A breakdown of the completion tokens."""

    reasoning_tokens: int | None = None
    audio_tokens: int | None = None
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None


class ChatUsage(ApiModel):
    """Token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class ChatReplyMessage(ApiModel):
    """The message of the model, with its tool calls."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    tool_calls: list[AnyChatToolCall] | None = None
    function_call: Annotated[
        CalledFunction | None, Meta(description="The only call, in the legacy form.")
    ] = None
    reasoning_content: Annotated[str | None, Meta(description="Reasoning of the model.")] = None
    annotations: list[Opaque] | None = None
    audio: Opaque | None = None


class ChatLogprobs(ApiModel):
    """Log probabilities of the tokens."""

    content: list[Opaque] | None = None
    refusal: list[Opaque] | None = None


class ChatChoice(ApiModel):
    """One of the alternatives in a reply."""

    index: int
    message: ChatReplyMessage
    finish_reason: FinishReason
    logprobs: ChatLogprobs | None = None


class ChatReply(ApiModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: Timestamp
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    moderation: dict[str, Any] | None = None


# Streams


class FunctionDelta(ApiModel):
    """A piece of a function call: the name first, then the arguments."""

    name: str | None = None
    arguments: str | None = None


class CustomToolDelta(ApiModel):
    """A piece of a custom tool call."""

    name: str | None = None
    input: str | None = None


class ToolCallDelta(ApiModel):
    """A piece of a tool call. The first piece has the id, the type and the name."""

    index: int
    id: str | None = None
    type: Literal["function", "custom"] | None = None
    function: FunctionDelta | None = None
    custom: CustomToolDelta | None = None


class MessageDelta(ApiModel):
    """A piece of the message."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionDelta | None = None
    reasoning_content: str | None = None
    annotations: list[Opaque] | None = None


class ChunkChoice(ApiModel):
    """What a chunk adds to one choice."""

    index: int
    delta: MessageDelta
    finish_reason: FinishReason | None = None
    logprobs: ChatLogprobs | None = None


class ChatChunk(ApiModel):
    """The data of one event of a stream. The last event has the data `[DONE]`.

    An error in the middle of a stream is an event with an error body, and ends the stream.
    """

    id: str
    object: Literal["chat.completion.chunk"]
    created: Timestamp
    model: str
    choices: list[ChunkChoice]
    usage: Annotated[
        ChatUsage | None, Meta(description="In the last chunk, if `include_usage` was set.")
    ] = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    obfuscation: str | None = None
