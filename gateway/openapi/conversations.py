"""Conversations: what is asked of them, and what is told."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.openapi.common import ApiModel, Metadata
from gateway.openapi.responses_request import AnyItem

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
