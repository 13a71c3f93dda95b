"""What the handlers declare about their requests and responses, for the OpenAPI document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from litestar.di import Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIHeader, OpenAPIResponse, Operation, Schema
from litestar.openapi.spec.enums import OpenAPIType

from gateway.openapi.common import ErrorBody

_ERRORS: Final = {
    400: "The request is invalid or cannot be translated for the backend.",
    401: "The API key is missing or unknown.",
    404: "The object does not exist, or no backend serves the model.",
    413: "The request body is too large.",
    415: "The content encoding of the request body is not supported.",
    429: "The backend limits requests. `Retry-After` is passed on if the backend sends it.",
    500: "The backend or the gateway failed.",
    502: "The backend cannot be reached, or its reply is invalid.",
    503: "The gateway's database is not available.",
    504: "The backend timed out.",
}
# Errors of a request that reads a stored object, that sends a body too, and that calls a backend.
STORE_ERRORS: Final = (400, 401, 404, 503)
BODY_ERRORS: Final = (*STORE_ERRORS, 413, 415)
BACKEND_ERRORS: Final = tuple(_ERRORS)

# Litestar takes one media type for each status. A stream is declared under this number, and
# `StreamOperation` adds it to the response with status 200.
_STREAM: Final = 0
_LOSS_HEADER: Final = OpenAPIHeader(
    schema=Schema(type=OpenAPIType.STRING),
    description="Losses of the translation, as a structured-field list (RFC 9651).",
)


def errors(statuses: Sequence[int]) -> dict[int, ResponseSpec]:
    """Return the error responses with these statuses."""
    return {
        status: ResponseSpec(ErrorBody, description=_ERRORS[status], generate_examples=False)
        for status in statuses
    }


def responses(
    reply: type, description: str, statuses: Sequence[int], *, stream: type | None = None
) -> dict[int, ResponseSpec]:
    """Return the responses of a handler that returns bytes: its reply and its errors."""
    declared = {200: ResponseSpec(reply, description=description, generate_examples=False)}
    if stream is not None:
        declared[_STREAM] = ResponseSpec(
            stream, media_type="text/event-stream", generate_examples=False
        )
    return declared | errors(statuses)


def request_body(model: type) -> dict[str, Provide]:
    """Declare the body of a request that the handler reads itself.

    Litestar documents the `data` of every dependency, and decodes it only for dependencies that the
    handler requests. This one is never requested.
    """

    async def declare_body(data: Any) -> None:
        del data

    declare_body.__annotations__["data"] = model
    return {"request_body": Provide(declare_body)}


@dataclass
class StreamOperation(Operation):
    """An operation whose reply is JSON or a stream."""

    def __post_init__(self) -> None:
        """Add the stream to the response with status 200."""
        declared = self.responses or {}
        reply, stream = declared["200"], declared.pop(str(_STREAM))
        if isinstance(reply, OpenAPIResponse) and isinstance(stream, OpenAPIResponse):
            reply.content = (reply.content or {}) | (stream.content or {})


@dataclass
class TranslatedOperation(Operation):
    """An operation whose response reports losses in a header."""

    def __post_init__(self) -> None:
        """Add the header to the response with status 200."""
        reply = (self.responses or {})["200"]
        if isinstance(reply, OpenAPIResponse):
            reply.headers = {"dragoman-loss": _LOSS_HEADER}


@dataclass
class CreateOperation(StreamOperation, TranslatedOperation):
    """An operation that creates a reply through a backend."""

    def __post_init__(self) -> None:
        """Add the stream and the header."""
        StreamOperation.__post_init__(self)
        TranslatedOperation.__post_init__(self)
