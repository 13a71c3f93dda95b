"""Errors: one envelope for all dialects."""

from typing import Annotated

from msgspec import Meta

from gateway.openapi.common import ApiModel


class ErrorDetails(ApiModel):
    """What went wrong."""

    message: Annotated[str, Meta(description="A sentence for the caller.")]
    type: str
    param: Annotated[str | None, Meta(description="Where in the request, if it is there.")]
    code: Annotated[str | None, Meta(description="For programs, `context_length_exceeded` say.")]


class ErrorEnvelope(ApiModel):
    """An error."""

    error: ErrorDetails
