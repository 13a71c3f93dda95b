"""Functions that endpoints share: dependencies, request bodies, lists, responses, errors."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Final, Literal

import msgspec
from litestar import Request, Response, WebSocket
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException, NotFoundException, ValidationException
from litestar.params import QueryParameter, SkipValidation
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from msgspec import Raw

from adapters import (
    Dialect,
    DragomanError,
    InvalidRequestError,
    TransformError,
    dialects_by_path,
)
from adapters.responses import RESPONSES
from adapters.wire.error_body import to_error
from adapters.wire.error_body import write_error as default_writer
from adapters.wire.json_object import JsonObject
from adapters.wire.json_object import read_body as parse_body
from gateway.context import AppContext, CurrentContext
from gateway.errors import InternalError, UpgradeRequiredError, framework_error
from gateway.http.auth import Principal
from gateway.http.headers import (
    new_request_id,
    read_headers,
    request_id_header,
    retry_after_header,
)
from gateway.http.paths import path_model
from gateway.http.request_body import read_body
from gateway.http.sinks import AsgiSink, ReplySink
from gateway.observability.logging import LOG, log_fault
from gateway.observability.record import ExchangeRecord
from gateway.openapi.objects import ListPage
from gateway.pipeline.handler import serve
from gateway.store import Item, Page

AnyRequest = Request[object, object, State]
AnySocket = WebSocket[object, object, State]

Context = NamedDependency[SkipValidation[AppContext]]
Authenticated = NamedDependency[SkipValidation[Principal]]
RequestedPage = NamedDependency[SkipValidation[Page]]

Limit = Annotated[
    int, QueryParameter(ge=1, le=100, description="The maximum number of entries on a page.")
]
Order = Annotated[
    Literal["asc", "desc"],
    QueryParameter(description="`asc` for the oldest entries first, `desc` for the newest."),
]
After = Annotated[
    str | None, QueryParameter(description="The id of the last entry on the previous page.")
]

JSON: Final = "application/json"
_DEFAULT_LIMIT: Final = 20
_MAX_SHOWN_ID_LENGTH: Final = 100
_ENCODER: Final = msgspec.json.Encoder()
# Appended to the error for a path that the gateway does not have.
_PASSTHROUGH_HINT: Final = (
    "; a path of a backend's API is passed on if `passthrough_paths` of the backend contains it"
)


# Dependencies


def authenticate(request: AnyRequest, context: Context) -> Principal:
    """Return the sender of a request; raise `UnauthorizedError` without a known key."""
    return context.authenticator.authenticate(read_headers(request.scope["headers"]))


def oldest_first(limit: Limit = _DEFAULT_LIMIT, order: Order = "asc", after: After = None) -> Page:
    """Return the requested page of a list that starts with its oldest entry."""
    return Page(after or None, limit, newest_first=order == "desc")


def newest_first(limit: Limit = _DEFAULT_LIMIT, order: Order = "desc", after: After = None) -> Page:
    """Return the requested page of a list that starts with its newest entry."""
    return Page(after or None, limit, newest_first=order == "desc")


# Requests


async def read_fields(request: AnyRequest, context: AppContext) -> JsonObject:
    """Return the JSON object in the body; an empty body counts as an empty object."""
    headers = read_headers(request.scope["headers"])
    body = await read_body(request.receive, headers, context.config.server.max_body_bytes)
    return parse_body(body.strip() or b"{}")


def pipeline_app(
    current: CurrentContext,
    work: Callable[[AppContext, ReplySink], Coroutine[None, None, None]],
    dialect: Dialect = RESPONSES,
) -> ASGIApp:
    """Return an ASGI application that runs `work` for each request and reports its errors."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        context = current.value
        record = ExchangeRecord(scope["path"])
        headers = read_headers(scope["headers"])
        sink = AsgiSink(headers, receive, send, record, dialect, path_model(scope))
        await serve(context, sink, work(context, sink))

    return app


# Responses


async def add_request_id(message: Message, _scope: Scope) -> None:
    """Add a request id to a response without one; replies of the pipeline have one already."""
    if message["type"] == "http.response.start":
        headers = list(message["headers"])
        if not any(name == b"x-request-id" for name, _ in headers):
            message["headers"] = [*headers, request_id_header(new_request_id())]


def json_response(body: bytes | Raw) -> Response[bytes]:
    """Return a response with encoded JSON."""
    return Response(bytes(body), media_type=JSON)


def list_response(
    ids: Sequence[str], data: list[Raw], *, has_more: bool, cursor: str | None = None
) -> Response[bytes]:
    """Return one page of a list; clients continue after its last id, or after the cursor."""
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    page = ListPage("list", data, first, cursor or last, has_more)
    return json_response(_ENCODER.encode(page))


def item_list_response(
    items: Sequence[Item], *, has_more: bool, cursor: str | None = None
) -> Response[bytes]:
    """Return one page of a list of items."""
    ids = [item.id for item in items]
    return list_response(ids, [item.body for item in items], has_more=has_more, cursor=cursor)


def unknown_cursor(page: Page) -> InvalidRequestError:
    """Return the error for a page whose `after` is not in the list."""
    shown = (page.after or "")[:_MAX_SHOWN_ID_LENGTH]
    return InvalidRequestError("after", f"must be the id of an entry of this list, not {shown!r}")


def paginate(ids: Sequence[str], page: Page) -> tuple[Sequence[int], bool]:
    """Return the indexes of the entries on a page, and whether there are more.

    An id may occur several times. The next page continues after its last occurrence, because
    clients would otherwise loop. So that no entry is skipped, a page ends only after the last
    occurrence of an id, and is shorter than requested, or longer if it would otherwise be empty.
    """
    indexes = range(len(ids))
    if page.newest_first:
        indexes = indexes[::-1]
    last_position = {ids[index]: position for position, index in enumerate(indexes)}
    start = 0
    if page.after is not None:
        if page.after not in last_position:
            raise unknown_cursor(page)
        start = last_position[page.after] + 1
    end = min(start + (page.limit or len(indexes)), len(indexes))
    for position in (*range(end, start, -1), *range(end + 1, len(indexes) + 1)):
        if last_position[ids[indexes[position - 1]]] < position:
            end = position
            break
    return indexes[start:end], end < len(indexes)


def handle_error(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Return the response for an exception, in the dialect of the path if it has one."""
    dialects = dialects_by_path().get(request.url.path.rstrip("/").removeprefix("/v1"))
    write_error = dialects[0].write_error if dialects else default_writer
    if isinstance(error, ValidationException):
        error = _invalid_parameter(error)
    if isinstance(error, HTTPException):
        # The path that the client sent; that of the URL may be rewritten.
        path = request.scope["raw_path"].decode("latin-1")
        message = f"{request.method} {path}: {error.detail}"
        if isinstance(error, NotFoundException):
            message += _PASSTHROUGH_HINT
        body = write_error(framework_error(error.status_code, message))
        return Response(body, status_code=error.status_code, headers=error.headers, media_type=JSON)
    if isinstance(error, TransformError):
        log_fault(error, request.url.path)
    elif not isinstance(error, DragomanError):
        LOG.error("internal error", path=request.url.path, exc_info=error)
        error = InternalError(None, "internal error; see the gateway's log")
    # RFC 9110 requires a response with status 426 to name the protocol to use.
    headers = {"upgrade": "HTTP/1.1"} if isinstance(error, UpgradeRequiredError) else {}
    headers |= {name.decode(): value.decode() for name, value in retry_after_header(error)}
    body = write_error(to_error(error))
    return Response(body, status_code=error.status, headers=headers, media_type=JSON)


def _invalid_parameter(error: ValidationException) -> Exception:
    """Return the error that names the first invalid parameter."""
    match error.extra:
        case [{"key": str(name), "message": str(message)}, *_]:
            return InvalidRequestError(name, f"is invalid: {message[:1].lower()}{message[1:]}")
        case _:
            return error
