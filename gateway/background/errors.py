"""What cannot be done with a response, in the words of OpenAI."""

from adapters import DragomanError
from gateway.errors import OpenAIMessageError
from gateway.store import Status

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
