"""The Responses API: the response, as a whole and as a stream of events."""

from typing import Annotated, Any, ClassVar, Literal

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


# Events of the response


class StreamEvent(ApiModel, tag_field="type"):
    """The data of one event."""

    sequence_number: int


class ResponseEvent(StreamEvent):
    """A change of the status of the response."""

    response: ResponsesReply


class CreatedEvent(ResponseEvent, tag="response.created"):
    """The response was created."""


class QueuedEvent(ResponseEvent, tag="response.queued"):
    """The response is queued."""


class InProgressEvent(ResponseEvent, tag="response.in_progress"):
    """The response is in progress. Repeated as a heartbeat while the backend sends nothing."""


class CompletedEvent(ResponseEvent, tag="response.completed"):
    """The response is complete."""


class IncompleteEvent(ResponseEvent, tag="response.incomplete"):
    """The response ended early."""


class FailedEvent(ResponseEvent, tag="response.failed"):
    """The response failed."""


class ErrorEvent(StreamEvent, tag="error"):
    """An error. `response.failed` follows."""

    message: str
    code: str | None
    param: str | None
    error: ErrorDetails


# Events of an item


class ItemEvent(StreamEvent):
    """The state of an item."""

    output_index: int
    item: AnyItem


class ItemAddedEvent(ItemEvent, tag="response.output_item.added"):
    """An item begins."""


class ItemDoneEvent(ItemEvent, tag="response.output_item.done"):
    """An item is complete. A tool call may be run only after this event."""


class InItemEvent(StreamEvent):
    """A part of an item."""

    item_id: str
    output_index: int


# Events of a content part


class ContentEvent(InItemEvent):
    """A content part of an item."""

    content_index: int


class ContentPartEvent(ContentEvent):
    """The state of a content part."""

    part: OutputText | OutputRefusal | ReasoningText


class ContentPartAddedEvent(ContentPartEvent, tag="response.content_part.added"):
    """A content part begins."""


class ContentPartDoneEvent(ContentPartEvent, tag="response.content_part.done"):
    """A content part is complete."""


class TextDeltaEvent(ContentEvent, tag="response.output_text.delta"):
    """A piece of text."""

    delta: str
    logprobs: list[Opaque] | None = None
    obfuscation: str | None = None


class TextDoneEvent(ContentEvent, tag="response.output_text.done"):
    """The complete text."""

    text: str
    logprobs: list[Opaque] | None = None


class AnnotationEvent(ContentEvent, tag="response.output_text.annotation.added"):
    """A source that the text cites."""

    annotation_index: int
    annotation: Opaque


class RefusalDeltaEvent(ContentEvent, tag="response.refusal.delta"):
    """A piece of a refusal."""

    delta: str
    obfuscation: str | None = None


class RefusalDoneEvent(ContentEvent, tag="response.refusal.done"):
    """The complete refusal."""

    refusal: str


class ReasoningDeltaEvent(ContentEvent, tag="response.reasoning_text.delta"):
    """A piece of reasoning."""

    delta: str
    obfuscation: str | None = None


class ReasoningDoneEvent(ContentEvent, tag="response.reasoning_text.done"):
    """The complete reasoning."""

    text: str


# Events of a reasoning summary


class SummaryEvent(InItemEvent):
    """A part of a reasoning summary."""

    summary_index: int


class SummaryPartAddedEvent(SummaryEvent, tag="response.reasoning_summary_part.added"):
    """A part of a summary begins."""

    part: SummaryText


class SummaryPartDoneEvent(SummaryEvent, tag="response.reasoning_summary_part.done"):
    """A part of a summary is complete."""

    part: SummaryText


class SummaryDeltaEvent(SummaryEvent, tag="response.reasoning_summary_text.delta"):
    """A piece of a summary."""

    delta: str
    obfuscation: str | None = None


class SummaryDoneEvent(SummaryEvent, tag="response.reasoning_summary_text.done"):
    """The complete text of a part of a summary."""

    text: str


# Events of a tool call


class ArgumentsDeltaEvent(InItemEvent, tag="response.function_call_arguments.delta"):
    """A piece of the arguments of a function call."""

    delta: str
    obfuscation: str | None = None


class ArgumentsDoneEvent(InItemEvent, tag="response.function_call_arguments.done"):
    """The complete arguments of a function call."""

    arguments: Arguments
    name: str | None = None


class InputDeltaEvent(InItemEvent, tag="response.custom_tool_call_input.delta"):
    """A piece of the input of a custom tool call."""

    delta: str
    obfuscation: str | None = None


class InputDoneEvent(InItemEvent, tag="response.custom_tool_call_input.done"):
    """The complete input of a custom tool call."""

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


class ResponsesEvent(ApiModel):
    """One event of a stream. Backends may send others for their own tools."""

    union: ClassVar[object] = AnyEvent
