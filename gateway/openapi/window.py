"""How long a conversation is, and the same in short."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.common import ApiModel, Opaque, ServiceTier
from gateway.openapi.responses_choice import ResponsesToolChoice
from gateway.openapi.responses_reply import ResponsesUsage
from gateway.openapi.responses_request import AnyItem, ReasoningSettings, TextSettings
from gateway.openapi.responses_tools import AnyResponsesTool


class CompactRequest(ApiModel):
    """A conversation that is to be summed up."""

    model: str
    input: str | list[AnyItem] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Opaque | None = None
    prompt_cache_retention: str | None = None
    service_tier: ServiceTier | None = None
    image: Opaque | None = None


class CompactReply(ApiModel):
    """A conversation in short."""

    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: Annotated[
        list[AnyItem],
        Meta(description="What to go on from, whole: what users said, and one sealed summary."),
    ]
    usage: ResponsesUsage


class InputTokensRequest(ApiModel):
    """A request whose tokens are to be counted."""

    model: str | None = None
    input: str | list[AnyItem] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    tools: list[AnyResponsesTool] | None = None
    tool_choice: ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningSettings | None = None
    text: TextSettings | None = None
    truncation: Literal["auto", "disabled"] | None = None
    personality: str | None = None


class InputTokensReply(ApiModel):
    """How many tokens a request has."""

    object: Literal["response.input_tokens"]
    input_tokens: int
