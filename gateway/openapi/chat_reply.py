"""Chat Completions: the answer, whole and piece by piece."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.chat_request import AnyChatCall, CalledFunction
from gateway.openapi.common import ApiModel, Opaque, ServiceTier

FinishReason = Annotated[
    Literal["stop", "length", "tool_calls", "content_filter", "function_call"],
    Meta(description="Why the answer ends; `function_call` in the legacy dialect."),
]


class PromptTokens(ApiModel):
    """What the prompt was made of."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    audio_tokens: int | None = None


class CompletionTokens(ApiModel):
    """What the answer was made of."""

    reasoning_tokens: int | None = None
    audio_tokens: int | None = None
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None


class ChatUsage(ApiModel):
    """How many tokens it took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens | None = None
    completion_tokens_details: CompletionTokens | None = None


class ChatAnswer(ApiModel):
    """What the model says, and what it calls."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    tool_calls: list[AnyChatCall] | None = None
    function_call: Annotated[
        CalledFunction | None, Meta(description="The one call, in the legacy dialect.")
    ] = None
    reasoning_content: Annotated[str | None, Meta(description="What the model thought.")] = None
    annotations: list[Opaque] | None = None
    audio: Opaque | None = None


class ChatLogprobs(ApiModel):
    """How probable each token was."""

    content: list[Opaque] | None = None
    refusal: list[Opaque] | None = None


class ChatChoice(ApiModel):
    """One answer."""

    index: int
    message: ChatAnswer
    finish_reason: FinishReason
    logprobs: ChatLogprobs | None = None


class ChatReply(ApiModel):
    """The answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage | None = None
    service_tier: ServiceTier | None = None
    system_fingerprint: str | None = None
    moderation: dict[str, Any] | None = None


# Piece by piece


class FunctionPiece(ApiModel):
    """A piece of the call of a function: its name first, then its arguments bit by bit."""

    name: str | None = None
    arguments: str | None = None


class CustomPiece(ApiModel):
    """A piece of the call of a custom tool."""

    name: str | None = None
    input: str | None = None


class CallPiece(ApiModel):
    """A piece of a call; the first has the id, the type and the name."""

    index: int
    id: str | None = None
    type: Literal["function", "custom"] | None = None
    function: FunctionPiece | None = None
    custom: CustomPiece | None = None


class AnswerPiece(ApiModel):
    """A piece of the answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: FunctionPiece | None = None
    reasoning_content: str | None = None
    annotations: list[Opaque] | None = None


class ChunkChoice(ApiModel):
    """What is new of one answer."""

    index: int
    delta: AnswerPiece
    finish_reason: FinishReason | None = None
    logprobs: ChatLogprobs | None = None


class ChatChunk(ApiModel):
    """The data of one event of a stream. After the last one comes the event `[DONE]`.

    An error in mid-stream is an event with the error envelope, and the end.
    """

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Annotated[
        ChatUsage | None, Meta(description="In the last chunk, if it was asked for.")
    ] = None
    service_tier: ServiceTier | None = None
    system_fingerprint: str | None = None
    obfuscation: str | None = None
