"""The Responses API: the answer as a whole."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.common import ApiModel, Metadata, Opaque, ServiceTier
from gateway.openapi.responses_choice import ResponsesToolChoice
from gateway.openapi.responses_request import AnyItem, ReasoningSettings, TextSettings


class InputTokens(ApiModel):
    """What the input was made of."""

    cached_tokens: int
    cache_write_tokens: int | None = None


class OutputTokens(ApiModel):
    """What the output was made of."""

    reasoning_tokens: int


class ResponsesUsage(ApiModel):
    """How many tokens it took."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int


class ResponsesFailure(ApiModel):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(ApiModel):
    """Why a response is incomplete."""

    reason: str


class ResponsesReply(ApiModel):
    """A response: what was asked, and what came of it."""

    id: str
    object: Literal["response"]
    created_at: float
    status: Literal["completed", "incomplete", "failed", "in_progress", "queued", "cancelled"]
    model: str
    output: Annotated[list[AnyItem], Meta(description="What the model said and called.")]
    error: ResponsesFailure | None
    incomplete_details: IncompleteDetails | None
    usage: ResponsesUsage | None = None
    completed_at: float | None = None

    instructions: str | list[dict[str, Any]] | None = None
    tools: list[Opaque] | None = None
    tool_choice: ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    truncation: str | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Opaque | None = None
    store: bool | None = None
    metadata: Metadata | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: ServiceTier | None = None
    user: str | None = None
