"""The errors that the adapters raise.

DragomanError
├── InvalidRequestError      a request that is malformed or has a field of a wrong type
├── UnsupportedRequestError  a request that cannot be translated without changing its meaning
├── InvalidReplyError        a reply that cannot be read
└── TransformError           a user's transform that raised an exception or returned invalid values

Each error has an HTTP status and, if one field caused it, the path of this field. An error within a
stream is not raised: it becomes a `Failed` event.
"""

from collections.abc import Iterable
from typing import ClassVar


class DragomanError(Exception):
    """The base class of all errors, with a path and a message for the client."""

    status: ClassVar[int] = 500
    code: str | None = None
    kind: ClassVar[str] = "invalid_request_error"
    # Separates the path and the message.
    separator: ClassVar[str] = ": "

    def __init__(self, path: str | None, message: str, code: str | None = None) -> None:
        super().__init__(f"{path}{self.separator}{message}" if path else message)
        self.path = path
        self.message = message
        if code is not None:
            self.code = code


class InvalidRequestError(DragomanError):
    """A request that cannot be read. Path and message are one sentence: "model is required"."""

    status = 400
    code = "invalid_value"
    separator = " "


def missing_field(path: str) -> InvalidRequestError:
    """Return the error for a required field that is absent."""
    return InvalidRequestError(path, "is required")


def invalid_choice(path: str, value: str, choices: Iterable[str]) -> InvalidRequestError:
    """Return the error for a string that is not one of the valid choices."""
    return InvalidRequestError(path, f"must be one of {', '.join(choices)}, not {value!r}")


class UnsupportedRequestError(DragomanError):
    """A request that the backend's dialect cannot express without changing its meaning."""

    status = 400
    code = "unsupported_value"


class InvalidReplyError(DragomanError):
    """A reply that cannot be read."""

    status = 502
    code = "bad_gateway"
    kind = "server_error"


class TransformError(DragomanError):
    """A transform that raised an exception, its cause, or returned something that is not legal."""

    status = 500
    code = "transform_failed"
    kind = "server_error"
