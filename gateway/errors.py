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
from gateway.store import Status


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


# What can be missing from the memory.
#
# What belongs to somebody else, what was never there and what is no longer there are told alike.


# So much of a name is repeated to whoever asked for it.
_SHOWN = 100


class ObjectNotFoundError(OpenAIMessageError):
    """Something is not there; its name stands in the sentence."""

    status = 404

    def __init__(self, path: str, kind: str, name: str) -> None:
        shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
        super().__init__(path, f"{kind} with id '{shown}' not found.")


class ResponseNotFoundError(ObjectNotFoundError):
    """A response that was asked for is not there."""

    code = "response_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("id", "Response", name)


class CompletionNotFoundError(ObjectNotFoundError):
    """A stored completion that was asked for is not there."""

    code = "completion_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("completion_id", "Chat completion", name)


class PreviousResponseNotFoundError(ObjectNotFoundError):
    """The response that a request continues is not there."""

    status = 400
    code = "previous_response_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("previous_response_id", "Previous response", name)


class PreviousResponseUnfinishedError(OpenAIMessageError):
    """The response that a request continues is still being made."""

    status = 400
    code = "previous_response_not_completed"

    def __init__(self, name: str, status: str) -> None:
        shown = f"Previous response with id '{name[:_SHOWN]}' is still {status}"
        super().__init__("previous_response_id", f"{shown}; it can be continued when it has ended.")


class ConversationNotFoundError(ObjectNotFoundError):
    """The conversation that a request goes on with is not there."""

    code = "conversation_not_found"

    def __init__(self, name: str, path: str = "conversation") -> None:
        super().__init__(path, "Conversation", name)


class ItemNotFoundError(ObjectNotFoundError):
    """An item that a request refers to is not there."""

    code = "item_not_found"

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path, "Item", name)


# What cannot be done with a response, in the words of OpenAI.


# How OpenAI speaks of a response that has ended.
_ENDED: dict[Status, str] = {
    "completed": "a completed response",
    "failed": "a failed response",
    "incomplete": "an incomplete response",
}


class NotCancellableError(OpenAIMessageError):
    """A response that is over, or that was never made in the background."""

    status = 400
    code = "invalid_request_error"

    def __init__(self, status: Status, *, background: bool) -> None:
        kind = _ENDED.get(status, f"a response that is {status}")
        what = kind if background else "a synchronous response"
        super().__init__("response_id", f"Cannot cancel {what}.")


class NotStreamableError(OpenAIMessageError):
    """A response whose events were not kept."""

    status = 400
    code = "invalid_mode"

    def __init__(self) -> None:
        super().__init__(
            "stream",
            "This response cannot be streamed because it was not created with background=true.",
        )


class DecryptionError(DragomanError):
    """What authorises a request cannot be read on this node."""

    status = 500
    code = "sealing_key_unknown"
    kind = "server_error"


# What can go wrong on a socket, beside what goes wrong with any request.


class OriginNotAllowedError(DragomanError):
    """A page of another site wants a socket, of which its user may know nothing."""

    status = 403
    code = "origin_not_allowed"
    kind = "permission_error"


class InvalidStreamIdError(DragomanError):
    """The name of a lane is none."""

    status = 400
    code = "invalid_stream_id"


class TooManyStreamsError(DragomanError):
    """The connection has as many lanes as it may have."""

    status = 400
    code = "websocket_stream_limit_reached"


class QueueFullError(DragomanError):
    """So much is waiting already that no more is taken."""

    status = 429
    code = "websocket_queue_limit_reached"
    kind = "rate_limit_error"


class ConnectionExpiredError(DragomanError):
    """The connection is as old as it may become; a new one can be opened at once."""

    status = 400
    code = "websocket_connection_limit_reached"
