"""Stored chat completions, as they are told."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.openapi.chat_reply import ChatReply
from gateway.openapi.common import ApiModel, Metadata, Opaque


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
