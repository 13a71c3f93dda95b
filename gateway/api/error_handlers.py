"""Says every failure of an address in the envelope that clients of all dialects know."""

from collections.abc import Callable
from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException

from adapters import DragomanError
from gateway.api.paths import AnyRequest
from gateway.errors import (
    InternalError,
    UpgradeRequiredError,
    write_error_body,
    write_message,
)
from gateway.observability.logging import LOG

_JSON = "application/json"


def tell_problem(_: AnyRequest, problem: DragomanError) -> Response[bytes]:
    """Tell one of our own errors."""
    # RFC 9110 wants to hear, with 426, what to speak instead.
    headers = {"upgrade": "HTTP/1.1"} if isinstance(problem, UpgradeRequiredError) else {}
    return Response(
        write_error_body(problem), status_code=problem.status, headers=headers, media_type=_JSON
    )


def tell_framework(request: AnyRequest, problem: HTTPException) -> Response[bytes]:
    """Tell an error of the framework: no such address, the wrong method."""
    method, path = request.method, request.url.path
    message = f"{method} {path}: {problem.detail}"
    return Response(
        write_message(problem.status_code, message),
        status_code=problem.status_code,
        headers=problem.headers,
        media_type=_JSON,
    )


def handle_unexpected(request: AnyRequest, problem: Exception) -> Response[bytes]:
    """Tell that we failed; what exactly, only the log tells."""
    LOG.error("internal error", path=request.url.path, exc_info=problem)
    return tell_problem(request, InternalError(None, "the gateway failed; its log says why"))


# As in `litestar.types`, but with the types that it leaves open.
EXCEPTION_HANDLERS: dict[int | type[Exception], Callable[[AnyRequest, Any], Response[bytes]]] = {
    DragomanError: tell_problem,
    HTTPException: tell_framework,
    Exception: handle_unexpected,
}
