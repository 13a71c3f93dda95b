"""The end of a reply, and errors that take the place of a reply."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from adapters.dialect import translate_error_param
from adapters.errors import DragomanError, InvalidReplyError, InvalidRequestError
from adapters.ir.types import Error, FunctionTool, Usage
from adapters.losses import Loss
from adapters.translation.plan import ReplyPlan, TranslationOptions
from adapters.wire.error_body import CONTEXT_OVERFLOW, infer_status, redact_text, to_error
from adapters.wire.json_object import read_body

OK: Final = 200
INTERNAL_ERROR: Final = 500


class ReplyEnd(Struct, frozen=True):
    """The end of a reply: the remaining output, and values that are available only at the end."""

    # The last frames of a stream, or the whole body.
    body: bytes
    status: int = OK
    # Whether `body` ends a stream; otherwise it is a whole JSON body.
    streamed: bool = False
    # Why the reply failed, if it did.
    error: Error | None = None
    # Whether the error was reported by the backend or detected by the gateway.
    error_origin: Literal["backend", "gateway"] | None = None
    usage: Usage | None = None
    losses: tuple[Loss, ...] = ()
    # The reply object sent to the client, if available: always for Responses, for streamed
    # completions only if the options request it.
    client_reply: Mapping[str, object] | None = None
    # Sealed reasoning by call id. It must be stored, because the client does not send it back.
    reasoning: Mapping[str, str] = {}


def error_for_client(error: Error, plan: ReplyPlan) -> Error:
    """Return a backend's error with its parameter named as in the client's request."""
    options = plan.options
    moved = not all(isinstance(tool, FunctionTool) for tool in plan.request.tools)
    param = translate_error_param(error.param, options.backend, options.client, tools_moved=moved)
    return error if param == error.param else replace(error, param=param)


def error_end(error: Error, plan: ReplyPlan) -> ReplyEnd:
    """Return an HTTP error in the client's dialect in place of a reply."""
    error = infer_status(error)
    written = plan.options.client.write_error(error_for_client(error, plan))
    body = redact_text(written, plan.options.redact)
    return ReplyEnd(body, error.status or INTERNAL_ERROR, error=error)


def http_error_end(status: int, body: bytes, plan: ReplyPlan) -> ReplyEnd:
    """Translate the backend's HTTP error."""
    options = plan.options
    body = redact_text(body, options.redact)
    error = options.backend.read_error(status, body)
    same = options.client is options.backend
    if same and _has_error_object(body) and error.code != CONTEXT_OVERFLOW:
        return ReplyEnd(body, status, error=error)
    return replace(error_end(error, plan), status=status)


def _has_error_object(body: bytes) -> bool:
    """Whether an error body contains an `error` object."""
    try:
        return read_body(body).nested("error") is not None
    except InvalidRequestError:
        return False


def own_error(options: TranslationOptions, error: DragomanError) -> ReplyEnd:
    """Return an error raised by the gateway, in the client's dialect."""
    return ReplyEnd(options.client.write_error(to_error(error)), error.status)


def invalid_reply(error: InvalidRequestError) -> InvalidReplyError:
    """Return an error that is attributed to the backend and not to the client's request."""
    invalid = InvalidReplyError(None, f"the backend sent an invalid reply: {error}")
    invalid.path = error.path
    return invalid
