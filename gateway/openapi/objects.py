"""Answers about stored things."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from adapters.losses import Loss, Policy
from gateway.config.schema import DialectName
from gateway.dry_run import Kind
from gateway.openapi.chat_reply import ChatReply
from gateway.openapi.common import ApiModel, Metadata, Opaque, ServiceTier
from gateway.openapi.responses_items import AnyResponsesTool
from gateway.openapi.responses_reply import ResponsesUsage
from gateway.openapi.responses_request import (
    AnyItem,
    ReasoningSettings,
    ResponsesToolChoice,
    TextSettings,
)


class Deleted(ApiModel):
    """That something is no longer there."""

    id: str
    object: Annotated[str, Meta(description="What kind of thing it was.")]
    deleted: Literal[True]


class ItemList(ApiModel):
    """A part of a list of items."""

    object: Literal["list"]
    data: list[AnyItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


# The dry run of a translation.


class TranslateRequest(ApiModel, forbid_unknown_fields=True):
    """What to translate: a `body` of JSON, or a `stream` as text."""

    source: Annotated[DialectName, Meta(description="The dialect it is in.")] = field(name="from")
    target: Annotated[DialectName, Meta(description="The dialect to write.")] = field(name="to")
    kind: Annotated[Kind | None, Meta(description="What it is; left out, it is guessed.")] = None
    body: Annotated[Any, Meta(description="A request, a reply or an error.")] = None
    stream: Annotated[str | None, Meta(description="A whole stream of events.")] = None
    status: Annotated[int | None, Meta(description="The HTTP status that an error came with.")] = (
        None
    )
    asked: Annotated[
        Any,
        Meta(description="The request that a reply answers, in the dialect of who gets the reply."),
    ] = None
    profile: Annotated[
        str | None, Meta(description="What the backend takes: the name of a profile.")
    ] = None
    loss: Annotated[Policy, Meta(description="Report what the target cannot do, or refuse it.")] = (
        "report"
    )
    deterministic: Annotated[
        bool, Meta(description="Count ids from 1 and let the clock stand still.")
    ] = False


class TranslateReply(ApiModel):
    """The translation, and what was lost on the way."""

    kind: Kind
    status: Annotated[int, Meta(description="The HTTP status that goes with it.")]
    losses: list[Loss]
    body: Annotated[Any, Meta(description="Of a request, a reply or an error.")] = None
    stream: Annotated[str | None, Meta(description="Of a stream.")] = None


# Conversations: what is asked of them, and what is told.


NewItems = Annotated[list[AnyItem], Meta(max_length=20, description="Up to 20 at a time.")]


class ConversationRequest(ApiModel):
    """What a conversation begins with."""

    items: NewItems | None = None
    metadata: Metadata | None = None


class MetadataRequest(ApiModel):
    """Other metadata for something that is stored."""

    metadata: Metadata | None


class ItemsRequest(ApiModel):
    """Items to add to a conversation."""

    items: NewItems


class Conversation(ApiModel):
    """A history that responses are added to."""

    id: str
    object: Literal["conversation"]
    created_at: Annotated[int, Meta(description="Seconds since 1970.")]
    metadata: Metadata


# How long a conversation is, and the same in short.


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


# Stored chat completions, as they are told.


class StoredCompletion(ChatReply, kw_only=True):
    """A completion as it was told, and its metadata."""

    metadata: Metadata


class CompletionList(ApiModel):
    """A part of a list of completions."""

    object: Literal["list"]
    data: list[StoredCompletion]
    first_id: str | None
    last_id: str | None
    has_more: bool


class StoredMessage(ApiModel):
    """A message of the request that a completion answers; what else it says is there too."""

    id: str
    role: str
    content: Annotated[Any, Meta(description="The text, if it was no list of parts.")] = None
    content_parts: Annotated[
        list[Opaque] | None, Meta(description="The parts, if it was a list of them.")
    ] = None


class MessageList(ApiModel):
    """A part of a list of messages."""

    object: Literal["list"]
    data: list[StoredMessage]
    first_id: str | None
    last_id: str | None
    has_more: bool
