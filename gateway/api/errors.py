"""Converts exceptions raised by handlers into error responses."""

from litestar import Response
from litestar.exceptions import HTTPException, ValidationException

from adapters import DragomanError, InvalidRequestError, dialects_by_path
from adapters.wire.error_body import to_error
from adapters.wire.error_body import write_error as default_writer
from gateway.api.common import JSON, AnyRequest
from gateway.errors import InternalError, UpgradeRequiredError, framework_error
from gateway.observability.logging import LOG


def handle_error(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Return the response for an exception, in the dialect of the path if it has one."""
    dialects = dialects_by_path().get(request.url.path.rstrip("/").removeprefix("/v1"))
    write_error = dialects[0].write_error if dialects else default_writer
    if isinstance(error, ValidationException):
        error = _invalid_parameter(error)
    if isinstance(error, HTTPException):
        message = f"{request.method} {request.url.path}: {error.detail}"
        body = write_error(framework_error(error.status_code, message))
        return Response(body, status_code=error.status_code, headers=error.headers, media_type=JSON)
    if not isinstance(error, DragomanError):
        LOG.error("internal error", path=request.url.path, exc_info=error)
        error = InternalError(None, "internal error; see the gateway's log")
    # RFC 9110 requires a response with status 426 to name the protocol to use.
    headers = {"upgrade": "HTTP/1.1"} if isinstance(error, UpgradeRequiredError) else {}
    body = write_error(to_error(error))
    return Response(body, status_code=error.status, headers=headers, media_type=JSON)


def _invalid_parameter(error: ValidationException) -> Exception:
    """Return the error that names the first invalid parameter."""
    match error.extra:
        case [{"key": str(name), "message": str(message)}, *_]:
            return InvalidRequestError(name, f"is invalid: {message[:1].lower()}{message[1:]}")
        case _:
            return error
