"""Everything that this package raises.

DragomanError
├── InvalidInput     the caller's bytes cannot be read: malformed, wrong type, unknown dialect
├── Refused          they were read, and cannot be said in the other dialect without lying
└── BrokenReply      the backend's bytes cannot be read

Each error knows the path of what is wrong and the HTTP status that fits it. On a stream nothing is
raised for what a backend sends: there the same facts travel as a `Failed` event.
"""

from typing import ClassVar


class DragomanError(Exception):
    """The base of every error of this package: a path, and a sentence for the caller."""

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
    """What the caller sent cannot be read."""

    status = 400
    code = "invalid_value"


class UnsupportedRequestError(DragomanError):
    """What the caller asks cannot be carried to the other dialect, and leaving it out would lie."""

    status = 400
    code = "unsupported_value"


class InvalidReplyError(DragomanError):
    """What the backend answered cannot be read."""

    status = 502
    code = "bad_gateway"
    kind = "server_error"
