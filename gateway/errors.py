"""The errors of the service; those of a translation are in `adapters.errors`."""

from http import HTTPStatus

from adapters import DragomanError
from adapters.ir.types import Error
from adapters.wire.error_body import to_error, write_error
from gateway.store import Status

# An error message contains at most this many characters of an id.
_MAX_SHOWN_ID_LENGTH = 100


class GatewayError(DragomanError):
    """An error with an HTTP status, and with a code and a type for the client."""

    # The seconds after which the client may try again.
    retry_after: float | None = None

    def __init_subclass__(
        cls,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        code: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        cls.status, cls.code, cls.kind = status.value, code, kind


class UnauthorizedError(
    GatewayError,
    status=HTTPStatus.UNAUTHORIZED,
    code="invalid_api_key",
    kind="authentication_error",
):
    """The client sent no key, or an unknown one."""


class OriginNotAllowedError(
    GatewayError, status=HTTPStatus.FORBIDDEN, code="origin_not_allowed", kind="permission_error"
):
    """A web page of another site opened a WebSocket, perhaps without its user's knowledge."""


class ModelNotFoundError(GatewayError, status=HTTPStatus.NOT_FOUND, code="model_not_found"):
    """No backend serves this model."""


class NotFoundError(GatewayError, status=HTTPStatus.NOT_FOUND, code="not_found"):
    """No endpoint has this path."""


class RequestTimeoutError(GatewayError, status=HTTPStatus.REQUEST_TIMEOUT, code="request_timeout"):
    """The client did not send the rest of the body in time."""


class RequestTooLargeError(
    GatewayError, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, code="request_too_large"
):
    """The body exceeds the limit."""


class UnsupportedEncodingError(
    GatewayError, status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, code="unsupported_encoding"
):
    """The body is compressed in an unknown format."""


class UpgradeRequiredError(
    GatewayError, status=HTTPStatus.UPGRADE_REQUIRED, code="upgrade_refused"
):
    """The path has no WebSocket; clients fall back to HTTP after this status."""


class InternalError(
    GatewayError,
    status=HTTPStatus.INTERNAL_SERVER_ERROR,
    code="internal_error",
    kind="server_error",
):
    """The gateway has a bug; only the log contains the details."""


class DecryptionError(
    GatewayError,
    status=HTTPStatus.INTERNAL_SERVER_ERROR,
    code="sealing_key_unknown",
    kind="server_error",
):
    """The node does not have the key of a sealed request."""


class BackendUnreachableError(
    GatewayError, status=HTTPStatus.BAD_GATEWAY, code="backend_unreachable", kind="server_error"
):
    """A backend could not be reached, so it has not processed the request."""


class BackendUnavailableError(
    BackendUnreachableError,
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="backend_unavailable",
    kind="server_error",
):
    """No request is sent to a backend for now: it has failed, or all connections are in use."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(None, message)
        self.retry_after = retry_after


class OutOfResourcesError(
    GatewayError,
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="out_of_resources",
    kind="server_error",
):
    """The gateway cannot open another connection, for example without a free file descriptor."""

    retry_after = 1


class BackendDisconnectedError(
    GatewayError, status=HTTPStatus.BAD_GATEWAY, code="backend_broke_off", kind="server_error"
):
    """A backend closed the connection before its response; it may have processed the request."""


class ShuttingDownError(
    GatewayError, status=HTTPStatus.SERVICE_UNAVAILABLE, code="stopping", kind="server_error"
):
    """The service is shutting down."""


class BackendTimeoutError(
    GatewayError, status=HTTPStatus.GATEWAY_TIMEOUT, code="backend_timeout", kind="server_error"
):
    """A backend exceeded a timeout."""


# Limits of a WebSocket connection


class InvalidStreamIdError(GatewayError, code="invalid_stream_id"):
    """The stream id of a message is invalid."""

    separator = " "


class TooManyStreamsError(GatewayError, code="websocket_stream_limit_reached"):
    """The connection has the maximum number of streams."""


class QueueFullError(
    GatewayError,
    status=HTTPStatus.TOO_MANY_REQUESTS,
    code="websocket_queue_limit_reached",
    kind="rate_limit_error",
):
    """Too many messages are waiting."""


class ConnectionExpiredError(GatewayError, code="websocket_connection_limit_reached"):
    """The connection has reached its maximum lifetime; the client can open a new one."""


# Errors with the messages of OpenAI's API


class OpenAIMessageError(GatewayError):
    """An error whose message does not begin with the parameter."""

    def __str__(self) -> str:
        """Return the message alone."""
        return self.message


class ObjectNotFoundError(OpenAIMessageError):
    """An object does not exist, or belongs to another client."""

    def __init__(self, path: str, kind: str, object_id: str) -> None:
        shown = object_id[:_MAX_SHOWN_ID_LENGTH]
        ellipsis = "…" if len(object_id) > _MAX_SHOWN_ID_LENGTH else ""
        super().__init__(path, f"{kind} with id '{shown}{ellipsis}' not found.")


class ResponseNotFoundError(
    ObjectNotFoundError, status=HTTPStatus.NOT_FOUND, code="response_not_found"
):
    """The requested response does not exist."""

    def __init__(self, response_id: str) -> None:
        super().__init__("id", "Response", response_id)


class CompletionNotFoundError(
    ObjectNotFoundError, status=HTTPStatus.NOT_FOUND, code="completion_not_found"
):
    """The requested completion does not exist."""

    def __init__(self, completion_id: str) -> None:
        super().__init__("completion_id", "Chat completion", completion_id)


class ConversationNotFoundError(
    ObjectNotFoundError, status=HTTPStatus.NOT_FOUND, code="conversation_not_found"
):
    """A conversation does not exist."""

    def __init__(self, conversation_id: str, path: str = "conversation") -> None:
        super().__init__(path, "Conversation", conversation_id)


class ItemNotFoundError(ObjectNotFoundError, status=HTTPStatus.NOT_FOUND, code="item_not_found"):
    """An item does not exist."""

    def __init__(self, path: str, item_id: str) -> None:
        super().__init__(path, "Item", item_id)


class PreviousResponseNotFoundError(ObjectNotFoundError, code="previous_response_not_found"):
    """The response that a request continues does not exist."""

    def __init__(self, response_id: str) -> None:
        super().__init__("previous_response_id", "Previous response", response_id)


class PreviousResponseUnfinishedError(OpenAIMessageError, code="previous_response_not_completed"):
    """The response that a request continues is not finished."""

    def __init__(self, response_id: str, status: str) -> None:
        shown = f"Previous response with id '{response_id[:_MAX_SHOWN_ID_LENGTH]}'"
        reason = f"{shown} is still {status}; wait until it has ended."
        super().__init__("previous_response_id", reason)


# The words of OpenAI's messages for a response that has ended.
_ENDED: dict[Status, str] = {
    "completed": "a completed response",
    "failed": "a failed response",
    "incomplete": "an incomplete response",
}


class NotCancellableError(OpenAIMessageError, code="invalid_request_error"):
    """A response has ended, or does not run in the background."""

    def __init__(self, status: Status, *, background: bool) -> None:
        ended = _ENDED.get(status, f"a response that is {status}")
        response = ended if background else "a synchronous response"
        super().__init__("response_id", f"Cannot cancel {response}.")


class NotStreamableError(OpenAIMessageError, code="invalid_mode"):
    """The events of a response were not stored."""

    def __init__(self) -> None:
        reason = "This response cannot be streamed because it was not created with background=true."
        super().__init__("stream", reason)


class ClientDisconnectedError(Exception):
    """The client has disconnected, so that no error can be sent."""


def causes_of(error: BaseException) -> list[BaseException]:
    """Return an error and the errors that caused it, the original one last."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes


def write_error_body(error: DragomanError) -> bytes:
    """Return the body for an error of an endpoint that belongs to no dialect."""
    return write_error(to_error(error))


def framework_error(status: int, message: str) -> Error:
    """Return an error of Litestar or uvicorn."""
    kind = "invalid_request_error" if status < InternalError.status else InternalError.kind
    return Error(message, kind, status=status)


def write_framework_error(status: int, message: str) -> bytes:
    """Return the body for an error of Litestar or uvicorn."""
    return write_error(framework_error(status, message))
