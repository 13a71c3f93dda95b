"""Answers about stored things."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.openapi.common import ApiModel
from gateway.openapi.responses_request import AnyItem


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
