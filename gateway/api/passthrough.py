"""The handler of all paths that only a backend's API has."""

from typing import cast

from litestar import HttpMethod, route
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from gateway.context import CurrentContext
from gateway.http.headers import read_headers
from gateway.http.sinks import AsgiSink
from gateway.observability.record import ExchangeRecord
from gateway.pipeline.handler import serve
from gateway.pipeline.passthrough import find_backends, pass_through, read_target

_METHODS = (
    HttpMethod.DELETE,
    HttpMethod.GET,
    HttpMethod.PATCH,
    HttpMethod.POST,
    HttpMethod.PUT,
)


def passthrough_handler(current: CurrentContext) -> HTTPRouteHandler:
    """Return the handler, to which a path is routed that no other handler has."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        context, method = current.value, cast("HTTPScope", scope)["method"]
        target = read_target(method, scope["raw_path"], scope["query_string"])
        backends = () if target is None else find_backends(context.router.backends, target)
        if target is None or not backends:
            raise NotFoundException
        record = ExchangeRecord(scope["path"])
        sink = AsgiSink(read_headers(scope["headers"]), receive, send, record)
        work = pass_through(context, sink, target, backends)
        await serve(context, sink, work, keeps_bodies=False)

    @route("/{path:path}", http_method=[*_METHODS], include_in_schema=False)
    async def other_path() -> ASGIApp:
        """Pass a request to a backend, which may be allowed by its configuration."""
        return app

    return other_path
