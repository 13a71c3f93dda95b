"""The Responses API: the response, as a whole and as a stream of events."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.common import ApiModel, Arguments, ErrorDetails, Metadata, Opaque
from gateway.openapi.responses_items import (
    AnyItem,
    OutputRefusal,
    OutputText,
    ReasoningText,
    SummaryText,
)
from gateway.openapi.responses_request import ReasoningSettings, ResponsesToolChoice, TextSettings


class InputTokensDetails(ApiModel):
    """A breakdown of the input tokens."""

    cached_tokens: int
    cache_write_tokens: int | None = None


class OutputTokensDetails(ApiModel):
    """A breakdown of the output tokens."""

    reasoning_tokens: int


class ResponsesUsage(ApiModel):
    """Token counts."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseError(ApiModel):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(ApiModel):
    """Why a response is incomplete."""

    reason: str


class ResponsesReply(ApiModel):
    """A response, with the settings of its request."""

    id: str
    object: Literal["response"]
    created_at: float
    status: Literal["completed", "incomplete", "failed", "in_progress", "queued", "cancelled"]
    model: str
    output: Annotated[
        list[AnyItem], Meta(description="Messages, reasoning and tool calls of the model.")
    ]
    error: ResponseError | None
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
    service_tier: str | None = None
    user: str | None = None


EventType = Literal[
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.delta",
    "response.output_text.done",
    "response.output_text.annotation.added",
    "response.refusal.delta",
    "response.refusal.done",
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.image_generation_call.in_progress",
    "response.image_generation_call.generating",
    "response.image_generation_call.completed",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "error",
]


class ResponsesEvent(ApiModel):
    """One event of a stream, with the fields of its type. Backends may send other types.

    `response.in_progress` is repeated as a heartbeat while the backend sends nothing. A tool call
    may be run only after its `response.output_item.done`. `response.failed` follows `error`.
    """

    type: EventType
    sequence_number: int
    response: ResponsesReply | None = None

    output_index: int | None = None
    item: AnyItem | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    part: OutputText | OutputRefusal | ReasoningText | SummaryText | None = None
    annotation_index: int | None = None
    annotation: Opaque | None = None

    delta: Annotated[str | None, Meta(description="The next piece of a text.")] = None
    text: Annotated[str | None, Meta(description="The complete text.")] = None
    refusal: str | None = None
    arguments: Arguments | None = None
    input: str | None = None
    name: str | None = None
    logprobs: list[Opaque] | None = None
    obfuscation: str | None = None

    message: str | None = None
    code: str | None = None
    param: str | None = None
    error: ErrorDetails | None = None
