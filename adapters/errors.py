"""The errors that the adapters raise.

DragomanError
├── InvalidRequestError      the client's bytes cannot be read: malformed, or a wrong type
├── UnsupportedRequestError  they can be read, but not translated without changing their meaning
└── InvalidReplyError        the backend's bytes cannot be read

Each error has the path of the field that is wrong, if there is one, and an HTTP status. What is
wrong within a stream is not raised but becomes a `Failed` event.
"""

from typing import ClassVar


class DragomanError(Exception):
    """The base class of all errors: a path and a message for the client."""

    status: ClassVar[int] = 500
    code: str | None = None
    kind: ClassVar[str] = "invalid_request_error"

    def __init__(self, path: str | None, message: str, code: str | None = None) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message
        if code is not None:
            self.code = code


class InvalidRequestError(DragomanError):
    """A request that cannot be read."""

    status = 400
    code = "invalid_value"


class UnsupportedRequestError(DragomanError):
    """A request that the backend's dialect cannot express without changing its meaning."""

    status = 400
    code = "unsupported_value"


class InvalidReplyError(DragomanError):
    """A reply that cannot be read."""

    status = 502
    code = "bad_gateway"
    kind = "server_error"
