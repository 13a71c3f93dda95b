"""What all types of the document share.

They describe what passes; nothing is checked against them at run time. A field that is not named
here passes too, so every object is open.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

# An object that passes as it is; only the server that it is meant for looks into it.
Opaque = Annotated[dict[str, Any], Meta(description="Passed on as it is.")]
JsonSchema = Annotated[dict[str, Any], Meta(description="A JSON Schema.")]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]
ServiceTier = str
# Up to 16 pairs.
Metadata = dict[str, str]
# Tool arguments are JSON as text, and stay exactly as the model wrote them.
Arguments = Annotated[str, Meta(description="JSON, as the text that the model wrote.")]


class ApiModel(Struct, omit_defaults=True):
    """An object on the wire."""


class CacheBreakpoint(ApiModel):
    """Where the cached beginning of a prompt may end."""

    mode: str
    ttl: str | None = None


class CacheOptions(ApiModel):
    """How the beginning of a prompt is cached."""

    mode: str | None = None
    ttl: str | None = None
    comparison_response_id: str | None = None
    prewarm: bool | None = None


class ModerationMode(ApiModel):
    """What is done about what moderation finds."""

    mode: str


class ModerationPolicy(ApiModel):
    """Moderation of both directions."""

    input: ModerationMode | None = None
    output: ModerationMode | None = None


class Moderation(ApiModel):
    """Which model moderates, and how strictly."""

    model: str
    policy: ModerationPolicy | None = None


# Errors: one envelope for all dialects.


class ErrorDetails(ApiModel):
    """What went wrong."""

    message: Annotated[str, Meta(description="A sentence for the caller.")]
    type: str
    param: Annotated[str | None, Meta(description="Where in the request, if it is there.")]
    code: Annotated[str | None, Meta(description="For programs, `context_length_exceeded` say.")]


class ErrorEnvelope(ApiModel):
    """An error."""

    error: ErrorDetails


# How the service is.


class Health(Struct, frozen=True):
    """How the service is: `ok`, or `ready`."""

    status: str
