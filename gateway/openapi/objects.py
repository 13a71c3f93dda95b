"""Stored objects, dry runs, compaction and token counts."""

from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from msgspec import Meta, field

from adapters.losses import Loss, Policy
from gateway.config.schema import DialectName
from gateway.dry_run import Kind
from gateway.openapi.chat_reply import ChatReply
from gateway.openapi.common import ApiModel, Metadata, Opaque, Timestamp
from gateway.openapi.responses_items import AnyItem, AnyTool
from gateway.openapi.responses_reply import ResponsesUsage
from gateway.openapi.responses_request import (
    ConversationReference,
    ReasoningSettings,
    ResponsesToolChoice,
    TextSettings,
)

T = TypeVar("T")


class Deleted(ApiModel):
    """Confirms that an object was deleted."""

    id: str
    object: Annotated[str, Meta(description="The type of the object.")]
    deleted: bool


class ListPage(ApiModel, Generic[T]):
    """One page of a list."""

    object: Literal["list"]
    data: list[T]
    first_id: str | None
    last_id: Annotated[str | None, Meta(description="The value of `after` for the next page.")]
    has_more: bool


class ItemList(ListPage[AnyItem]):
    """One page of a list of items."""


# Conversations

NewItems = Annotated[list[AnyItem], Meta(max_length=20, description="Up to 20 items.")]


class ConversationRequest(ApiModel):
    """The first items and the metadata of a new conversation."""

    items: NewItems | None = None
    metadata: Metadata | None = None


class MetadataRequest(ApiModel):
    """Metadata that replace those of a stored object."""

    metadata: Metadata | None


class ItemsRequest(ApiModel):
    """Items to add to a conversation."""

    items: NewItems


class Conversation(ApiModel):
    """A stored conversation, to which responses add their items."""

    id: str
    object: Literal["conversation"]
    created_at: Timestamp
    metadata: Metadata


class ConversationItem(ApiModel):
    """One item of a conversation."""

    union: ClassVar[object] = AnyItem


# Stored chat completions


class StoredCompletion(ChatReply, kw_only=True):
    """A stored chat completion, with its metadata."""

    metadata: Metadata


class CompletionList(ListPage[StoredCompletion]):
    """One page of a list of chat completions."""


class StoredMessage(ApiModel):
    """A message of the request that led to a completion, with all its other fields."""

    id: str
    role: str
    content: Annotated[Any, Meta(description="The content, unless it is a list of parts.")] = None
    content_parts: Annotated[
        list[Opaque] | None, Meta(description="The content, if it is a list of parts.")
    ] = None


class MessageList(ListPage[StoredMessage]):
    """One page of a list of messages."""


# Compaction and token counts


class CompactRequest(ApiModel):
    """A conversation to summarize."""

    model: str
    input: str | list[AnyItem] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Opaque | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None
    image: Opaque | None = None


class CompactReply(ApiModel):
    """A summarized conversation."""

    id: str
    object: Literal["response.compaction"]
    created_at: Timestamp
    output: Annotated[
        list[AnyItem],
        Meta(description="The next input: the user messages and an encrypted summary."),
    ]
    usage: ResponsesUsage


class InputTokensRequest(ApiModel):
    """A request whose input tokens are counted."""

    model: str | None = None
    input: str | list[AnyItem] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationReference | None = None
    tools: list[AnyTool] | None = None
    tool_choice: ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningSettings | None = None
    text: TextSettings | None = None
    truncation: Literal["auto", "disabled"] | None = None
    personality: str | None = None


class InputTokensReply(ApiModel):
    """The number of input tokens."""

    object: Literal["response.input_tokens"]
    input_tokens: int


# Dry runs


class TranslateRequest(ApiModel, forbid_unknown_fields=True):
    """What to translate: either JSON in `body` or a stream as text in `stream`."""

    source: Annotated[DialectName, Meta(description="The dialect of the input.")] = field(
        name="from"
    )
    target: Annotated[DialectName, Meta(description="The dialect of the output.")] = field(
        name="to"
    )
    kind: Annotated[Kind | None, Meta(description="What the input is. Detected by default.")] = None
    body: Annotated[Any, Meta(description="A request, a reply or an error.")] = None
    stream: Annotated[str | None, Meta(description="A complete stream of events.")] = None
    status: Annotated[int | None, Meta(description="The HTTP status of an error.")] = None
    request: Annotated[
        Any, Meta(description="The request of a reply, in the dialect of the client.")
    ] = None
    profile: Annotated[
        str | None, Meta(description="The profile that lists the capabilities of the backend.")
    ] = None
    transforms_of: Annotated[
        str | None, Meta(description="The configured backend whose transforms are applied.")
    ] = None
    loss_policy: Annotated[
        Policy, Meta(description="Whether losses are reported or the request is rejected.")
    ] = "report"
    deterministic: Annotated[bool, Meta(description="Number ids from 1 and use a fixed time.")] = (
        False
    )


class TranslateReply(ApiModel):
    """The translation and its losses."""

    kind: Kind
    status: Annotated[int, Meta(description="The HTTP status that belongs to the translation.")]
    losses: list[Loss]
    body: Annotated[Any, Meta(description="A translated request, reply or error.")] = None
    stream: Annotated[str | None, Meta(description="A translated stream.")] = None
