"""Endpoints for operators: health checks and the OpenAPI document."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Literal

import msgspec
from litestar import Controller, Response, get, head
from litestar.enums import OpenAPIMediaType
from litestar.openapi.datastructures import ResponseSpec

from adapters import DragomanError
from gateway.api.common import AnyRequest, Context
from gateway.backends.client import BackendClient
from gateway.context import AppContext
from gateway.openapi.common import BackendState, Health, Readiness

# The time in which the database must respond.
_STORE_SECONDS: Final = 2


class OperationsController(Controller):
    """The endpoints for health checks."""

    tags = ("Operations",)

    @get(
        "/health",
        sync_to_thread=False,
        operation_id="getHealth",
        summary="Check that the process is alive",
        response_description="The process is alive.",
    )
    def health(self) -> Health:
        """Return `ok`: a process that responds is alive."""
        return Health("ok")

    @get(
        "/ready",
        operation_id="getReadiness",
        summary="Check that requests are accepted",
        response_description="Requests are accepted.",
        responses={503: ResponseSpec(Readiness, description="Requests are not accepted.")},
    )
    async def ready(self, context: Context) -> Response[Readiness]:
        """Return whether the gateway accepts requests, and the state of each backend."""
        backends = [_backend_state(backend) for backend in context.router.backends]
        reasons = await _reasons(context, backends)
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        body = Readiness("not_ready" if reasons else "ready", reasons, backends)
        return Response(body, status_code=status)

    @head("/health", sync_to_thread=False, include_in_schema=False)
    def health_status(self) -> None:
        """Return the status without a body."""

    @head("/ready", include_in_schema=False)
    async def ready_status(self, context: Context) -> Response[None]:
        """Return the status without a body."""
        response = await self.ready.fn(self, context)
        return Response(None, status_code=response.status_code)


async def _reasons(context: AppContext, backends: Sequence[BackendState]) -> list[str]:
    """Return why the gateway does not accept requests."""
    reasons = ["the gateway is shutting down"] if context.background.stopping else []
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            await context.store.now()
    except TimeoutError:
        reasons.append(f"the database did not respond within {_STORE_SECONDS} seconds")
    except DragomanError as error:
        reasons.append(error.message)
    if context.config.server.ready_requires_backend and all(
        backend.state == "down" for backend in backends
    ):
        reasons.append("no backend can be reached")
    return reasons


def _backend_state(backend: BackendClient) -> BackendState:
    health = backend.health
    state: Literal["unknown", "up", "down"] = "unknown"
    if health.up is not None:
        state = "up" if health.up else "down"
    error = health.error if state == "down" else None
    since = health.seconds_since(health.succeeded_at)
    return BackendState(
        backend.name, state, health.circuit, error, None if since is None else round(since, 1)
    )


# Only with the prefix `/v1`, because Litestar itself serves the document without it.
@get(["/v1/schema", "/v1/schema/openapi.json"], include_in_schema=False, sync_to_thread=False)
def openapi_document(request: AnyRequest) -> Response[bytes]:
    """Return the OpenAPI document."""
    document = msgspec.json.encode(request.app.openapi_schema.to_schema())
    return Response(document, media_type=OpenAPIMediaType.OPENAPI_JSON)
