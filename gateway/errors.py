"""What can go wrong in the service itself, beside what goes wrong in translation.

DragomanError
├── InvalidInput, Refused, BrokenReply   the core's own
├── Said                what OpenAI says, too: see `memory` and `background`
├── Unauthorized        no key, or none that we know
├── NoSuchModel         no backend serves it
├── NotFound            nothing is at this address
├── TooLarge            the body is over the limit
├── BodyTooSlow         the body does not come
├── UnknownEncoding     the body is compressed in a way that we do not know
├── Unreachable         no backend could be reached
├── BrokenOff           a backend hung up before it answered
├── TooSlow             a backend was reached and took too long
├── Stopping            the service is shut down, and this answer took too long to wait for
├── Upgrade             a protocol that is not spoken here
└── Unforeseen          a fault of our own

`ClientGone` is no error to tell anybody: whoever would be told has left.
"""

import msgspec

from adapters import DragomanError
from adapters.wire.error_body import to_error, write_error


class OpenAIMessageError(DragomanError):
    """What OpenAI says, too, and in its words: without the path before the sentence."""

    def __str__(self) -> str:
        """Give just the sentence."""
        return self.why


class UnauthorizedError(DragomanError):
    """The caller did not show a key that we know."""

    status = 401
    code = "invalid_api_key"
    kind = "authentication_error"


class ModelNotFoundError(DragomanError):
    """No backend serves this model."""

    status = 404
    code = "model_not_found"


class NotFoundError(DragomanError):
    """Nothing is at this address."""

    status = 404
    code = "not_found"


class RequestTooLargeError(DragomanError):
    """The body is larger than we take."""

    status = 413
    code = "request_too_large"


class RequestTimeoutError(DragomanError):
    """The client does not send the rest of its body."""

    status = 408
    code = "request_timeout"


class UnsupportedEncodingError(DragomanError):
    """The body is compressed in a way that we do not know."""

    status = 415
    code = "unsupported_encoding"


class BackendUnreachableError(DragomanError):
    """A backend could not be reached: what was asked has surely not been done."""

    status = 502
    code = "backend_unreachable"
    kind = "server_error"


class BackendDisconnectedError(DragomanError):
    """A backend was reached, and hung up before it answered; what it had done, nobody knows."""

    status = 502
    code = "backend_broke_off"
    kind = "server_error"


class BackendTimeoutError(DragomanError):
    """A backend took longer than it may."""

    status = 504
    code = "backend_timeout"
    kind = "server_error"


class ShuttingDownError(DragomanError):
    """The service is being shut down."""

    status = 503
    code = "stopping"
    kind = "server_error"


class UpgradeRequiredError(DragomanError):
    """The caller asked for a protocol that is not spoken here; clients then fall back (P171)."""

    status = 426
    code = "upgrade_refused"


class InternalError(DragomanError):
    """A fault of our own; what exactly, the log tells, not the caller."""

    status = 500
    code = "internal_error"
    kind = "server_error"


class ClientDisconnectedError(Exception):
    """The client hung up; what was done for it is to be ended."""


def write_error_body(problem: DragomanError) -> bytes:
    """Write an error in the envelope that all dialects share."""
    return write_error(to_error(problem))


def write_message(status: int, message: str) -> bytes:
    """Write an error of the framework in that envelope."""
    kind = "invalid_request_error" if status < InternalError.status else InternalError.kind
    return msgspec.json.encode(
        {"error": {"message": message, "type": kind, "param": None, "code": None}}
    )
