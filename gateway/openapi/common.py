"""Types that several parts of the OpenAPI document share.

All types are only documentation: requests are not validated against them and may have other fields.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Opaque = Annotated[dict[str, Any], Meta(description="Passed through unchanged.")]
JsonSchema = Annotated[dict[str, Any], Meta(description="A JSON Schema.")]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]
Metadata = Annotated[dict[str, str], Meta(description="Up to 16 key-value pairs.")]
Arguments = Annotated[str, Meta(description="JSON text, exactly as the model wrote it.")]
Timestamp = Annotated[int, Meta(description="Unix time in seconds.")]


class ApiModel(Struct, omit_defaults=True):
    """An object in a request or a reply."""


class CacheBreakpoint(ApiModel):
    """Marks the end of a cached prompt prefix."""

    mode: str
    ttl: str | None = None


class CacheOptions(ApiModel):
    """How the prompt prefix is cached."""

    mode: str | None = None
    ttl: str | None = None
    comparison_response_id: str | None = None
    prewarm: bool | None = None


class ModerationMode(ApiModel):
    """What happens to flagged content."""

    mode: str


class ModerationPolicy(ApiModel):
    """Moderation of the input and the output."""

    input: ModerationMode | None = None
    output: ModerationMode | None = None


class Moderation(ApiModel):
    """The moderation model and its policy."""

    model: str
    policy: ModerationPolicy | None = None


class ErrorDetails(ApiModel):
    """What went wrong."""

    message: Annotated[str, Meta(description="A readable description.")]
    type: str
    param: Annotated[str | None, Meta(description="The invalid field or parameter, if any.")]
    code: Annotated[
        str | None, Meta(description="A stable identifier, such as `context_length_exceeded`.")
    ]


class ErrorBody(ApiModel):
    """An error. All endpoints use this form."""

    error: ErrorDetails


class Health(ApiModel):
    """A process that is alive."""

    status: Literal["ok"]


class BackendState(ApiModel):
    """The state of a backend, as its latest requests have shown it."""

    name: str
    state: Annotated[
        Literal["unknown", "up", "down"],
        Meta(description="Whether the latest request reached the backend."),
    ]
    circuit: Annotated[
        Literal["closed", "open", "half_open"],
        Meta(description="While it is open, no requests are sent to the backend."),
    ]
    error: Annotated[str | None, Meta(description="The latest failure, if `state` is `down`.")]
    seconds_since_success: float | None


class Readiness(ApiModel):
    """Whether requests are accepted."""

    status: Literal["ready", "not_ready"]
    reasons: Annotated[list[str], Meta(description="Why requests are not accepted.")]
    backends: list[BackendState]
