"""The Responses API: the answer as a whole."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.common import ApiModel, Arguments, ErrorDetails, Metadata, Opaque, ServiceTier
from gateway.openapi.responses_items import (
    OutputRefusal,
    OutputText,
    ReasoningText,
    SummaryText,
)
from gateway.openapi.responses_request import (
    AnyItem,
    ReasoningSettings,
    ResponsesToolChoice,
    TextSettings,
)


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


# The Responses API: the answer event by event.
#
# These are the events that tell any answer. A backend that speaks this dialect may send more, of
# its
# own tools, and they pass.


class StreamEvent(ApiModel, tag_field="type"):
    """The data of one event."""

    sequence_number: int


# The response


class ResponseEvent(StreamEvent):
    """The response as it is now."""

    response: ResponsesReply


class CreatedEvent(ResponseEvent, tag="response.created"):
    """It begins."""


class QueuedEvent(ResponseEvent, tag="response.queued"):
    """It waits for its turn."""


class InProgressEvent(ResponseEvent, tag="response.in_progress"):
    """It goes on; repeated while the backend is silent."""


class CompletedEvent(ResponseEvent, tag="response.completed"):
    """It is complete."""


class IncompleteEvent(ResponseEvent, tag="response.incomplete"):
    """It ended before its time."""


class FailedEvent(ResponseEvent, tag="response.failed"):
    """It failed."""


class ErrorEvent(StreamEvent, tag="error"):
    """Something went wrong; `response.failed` follows."""

    message: str
    code: str | None
    param: str | None
    error: ErrorDetails


# Its items


class ItemEvent(StreamEvent):
    """One item as it is now."""

    output_index: int
    item: AnyItem


class ItemAddedEvent(ItemEvent, tag="response.output_item.added"):
    """An item begins."""


class ItemDoneEvent(ItemEvent, tag="response.output_item.done"):
    """An item is done: only now may a call be run."""


class InItemEvent(StreamEvent):
    """Something of one item."""

    item_id: str
    output_index: int


# Their parts


class ContentEvent(InItemEvent):
    """Something of one part of an item."""

    content_index: int


class ContentPartEvent(ContentEvent):
    """One part as it is now."""

    part: OutputText | OutputRefusal | ReasoningText


class ContentPartAddedEvent(ContentPartEvent, tag="response.content_part.added"):
    """A part begins."""


class ContentPartDoneEvent(ContentPartEvent, tag="response.content_part.done"):
    """A part is done."""


class TextDeltaEvent(ContentEvent, tag="response.output_text.delta"):
    """More text."""

    delta: str
    logprobs: list[Opaque] | None = None
    obfuscation: str | None = None


class TextDoneEvent(ContentEvent, tag="response.output_text.done"):
    """The whole text."""

    text: str
    logprobs: list[Opaque] | None = None


class AnnotationEvent(ContentEvent, tag="response.output_text.annotation.added"):
    """A source that the text cites."""

    annotation_index: int
    annotation: Opaque


class RefusalDeltaEvent(ContentEvent, tag="response.refusal.delta"):
    """More of a refusal."""

    delta: str
    obfuscation: str | None = None


class RefusalDoneEvent(ContentEvent, tag="response.refusal.done"):
    """The whole refusal."""

    refusal: str


class ReasoningDeltaEvent(ContentEvent, tag="response.reasoning_text.delta"):
    """More of what the model thinks."""

    delta: str
    obfuscation: str | None = None


class ReasoningDoneEvent(ContentEvent, tag="response.reasoning_text.done"):
    """All that the model thought."""

    text: str


class SummaryEvent(InItemEvent):
    """Something of a summary of what the model thinks."""

    summary_index: int


class SummaryPartAddedEvent(SummaryEvent, tag="response.reasoning_summary_part.added"):
    """A part of a summary begins."""

    part: SummaryText


class SummaryPartDoneEvent(SummaryEvent, tag="response.reasoning_summary_part.done"):
    """A part of a summary is done."""

    part: SummaryText


class SummaryDeltaEvent(SummaryEvent, tag="response.reasoning_summary_text.delta"):
    """More of a summary."""

    delta: str
    obfuscation: str | None = None


class SummaryDoneEvent(SummaryEvent, tag="response.reasoning_summary_text.done"):
    """The whole text of a part of a summary."""

    text: str


# Calls


class ArgumentsDeltaEvent(InItemEvent, tag="response.function_call_arguments.delta"):
    """More of the arguments of a call."""

    delta: str
    obfuscation: str | None = None


class ArgumentsDoneEvent(InItemEvent, tag="response.function_call_arguments.done"):
    """All arguments of a call."""

    arguments: Arguments
    name: str | None = None


class InputDeltaEvent(InItemEvent, tag="response.custom_tool_call_input.delta"):
    """More of the input of a custom tool."""

    delta: str
    obfuscation: str | None = None


class InputDoneEvent(InItemEvent, tag="response.custom_tool_call_input.done"):
    """The whole input of a custom tool."""

    input: str


AnyEvent = (
    CreatedEvent
    | QueuedEvent
    | InProgressEvent
    | CompletedEvent
    | IncompleteEvent
    | FailedEvent
    | ErrorEvent
    | ItemAddedEvent
    | ItemDoneEvent
    | ContentPartAddedEvent
    | ContentPartDoneEvent
    | TextDeltaEvent
    | TextDoneEvent
    | AnnotationEvent
    | RefusalDeltaEvent
    | RefusalDoneEvent
    | ReasoningDeltaEvent
    | ReasoningDoneEvent
    | SummaryPartAddedEvent
    | SummaryPartDoneEvent
    | SummaryDeltaEvent
    | SummaryDoneEvent
    | ArgumentsDeltaEvent
    | ArgumentsDoneEvent
    | InputDeltaEvent
    | InputDoneEvent
)
